//! Maintenance, by [`tasks`] that run periodically: removes what was applied, erased, deleted or has expired; collects dead letters;
//! measures the backlog.

mod backlog;
pub mod dead_letters;
pub mod erasures;
pub mod purge;
pub mod removals;
pub mod retention;
pub mod subscriptions;
pub mod tasks;
pub mod webhooks;
