//! Records each batch in one transaction ([`transaction`]): erasures, events, users and their effects. Totals are
//! folded later.

pub mod batch_users;
pub(crate) mod daily_counts;
mod deleted_projects;
pub mod endpoints;
pub mod erase;
pub mod error;
mod events;
pub mod marks;
pub mod new_event;
pub mod profile;
pub mod receipts;
mod recent;
pub mod subscriptions;
pub mod suppression;
pub mod tokens;
pub mod totals;
pub mod transaction;
pub mod user_cache;
