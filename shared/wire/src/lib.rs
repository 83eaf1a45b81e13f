//! The formats of messages that programs exchange over the broker.

pub mod event;
pub mod position;
pub mod send;
