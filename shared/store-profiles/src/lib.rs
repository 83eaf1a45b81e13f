//! Users, their events and their segments. Each file contains one table, its rows and all statements on it.

pub mod client_ids;
pub mod date_due;
pub mod events;
pub mod push_tokens;
pub mod segments;
pub mod subscription_groups;
pub mod subscriptions;
pub mod user_imports;
pub mod users;
