//! What the machine allows at most: the same bytes, with nothing of the product around them.

pub mod call;
pub mod http;
pub mod mail;
pub mod publish;
pub mod unnest;
