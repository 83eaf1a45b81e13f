//! Connections and HTTP messages: how a request is read, and what a response consists of. This module does not depend on
//! other modules of the gateway.

pub mod body;
mod body_limits;
pub mod client_address;
pub mod compress;
pub mod cors;
pub mod error;
pub mod etag;
pub mod fields;
pub mod framing;
pub mod query;
pub mod request;
pub mod request_id;
pub mod respond;
pub mod server;
pub mod stream;
