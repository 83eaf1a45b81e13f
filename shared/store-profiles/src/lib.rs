//! Users, what they did and which segments they are in: one file a table, with every statement beside the rows it reads and writes.

pub mod client_ids;
pub mod date_due;
pub mod events;
pub mod push_tokens;
pub mod segments;
pub mod subscription_groups;
pub mod subscriptions;
pub mod user_imports;
pub mod users;
