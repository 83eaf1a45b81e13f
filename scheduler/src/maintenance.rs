//! Periodic maintenance [`tasks`]: remove applied, erased, deleted and expired data; collect dead letters; measure the
//! backlog.

mod backlog;
pub mod dead_letters;
pub mod erasures;
pub mod purge;
pub mod removals;
pub mod retention;
pub mod subscriptions;
pub mod tasks;
pub mod webhooks;
