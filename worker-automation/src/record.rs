//! Records each batch in one transaction ([`transaction`]): erasures, events, users and their effects. Totals are
//! folded later.

pub(crate) mod days;
pub mod endpoints;
pub mod erase;
pub mod error;
mod events;
pub mod known;
pub mod marks;
pub mod new_event;
pub mod people;
pub mod profile;
pub mod receipts;
mod recent;
mod removed;
pub mod subscriptions;
pub mod suppression;
pub mod tokens;
pub mod totals;
pub mod transaction;
