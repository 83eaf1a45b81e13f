//! Sends what leaves the worker after the commit: items for other partitions, and the calls of webhook steps.

pub mod calls;
pub mod outbox;
