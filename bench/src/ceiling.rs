//! Ceilings: what the machine can do with the same bytes and no product code.

pub mod call;
pub mod http;
pub mod mail;
pub mod publish;
pub mod unnest;
