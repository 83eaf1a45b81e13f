//! What is written, in one transaction for each batch ([`transaction`]): erasures, events, people, and what follows from them.
//! Totals are added up later.

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
