//! Templates: what messages are made from.

pub mod source;
