//! The send ledger: one row a message, inserted once and updated by each settled attempt. What is still to be sent is in `send_chunks`.
//!
//! Rows are read and changed by their ids, at the cost of just those rows, whatever the planner knows of the table. A partition
//! that is new has no statistics, and what lies between two ids is then taken for next to nothing: a join, or `id = ANY` beside
//! such bounds, would read all of it. A plan that was made while the partition was empty even stays for a while. So each id is
//! looked up for itself: `OFFSET 0` keeps that a look-up of its own, and conditions from outside out of it. A change takes the
//! way of an insert that meets the row which is there: by the primary key, with no join that could be planned otherwise; the
//! insert gives the columns that such a row cannot be without. On a distributed store that way takes neither parameters nor sums
//! of times; there an update does it, and the rows' own ids make up for it. Each statement is limited to one month
//! ([`database::months`]); the id bounds also exclude the month's other partitions.

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
