//! What programs say to each other over the broker.

pub mod event;
pub mod position;
pub mod send;
