//! The send ledger: one row per message, inserted once and updated by each settled attempt. Messages still to be sent
//! are queued in `send_chunks`.
//!
//! Rows are read and changed by their IDs, at the cost of these rows only, whatever statistics the planner has. A new
//! partition has no statistics, so the planner estimates almost no rows between two IDs: a join, or `id = ANY` with
//! such bounds, would read all of them. A plan that was made while the partition was empty even remains for a while.
//! Therefore each ID is looked up separately: `OFFSET 0` keeps the lookup a subquery of its own, and outer conditions
//! out of it.
//!
//! An update is written as an insert that conflicts with the existing row: it uses the primary key and contains no join
//! that could be planned otherwise. The insert supplies the `NOT NULL` columns. A distributed store accepts neither
//! parameters nor sums of times there; it uses an update with the selected rows' IDs instead. Each statement is limited
//! to one month ([`database::months`]); the ID bounds also exclude the month's other partitions.

pub mod claim;
pub mod counts;
pub mod insert;
pub mod read;
pub mod receipts;
pub mod recipients;
pub mod retention;
pub mod settle;

use database::StoreError;
pub(crate) use database::channel;
use domain::message::{DeliveryState, Lane};

pub(crate) fn lane(text: &str) -> Result<Lane, StoreError> {
    Lane::parse(text).ok_or_else(|| StoreError::Corrupt(format!("lane {text:?}")))
}

pub(crate) fn status(text: &str) -> Result<DeliveryState, StoreError> {
    DeliveryState::parse(text).ok_or_else(|| StoreError::Corrupt(format!("status {text:?}")))
}
