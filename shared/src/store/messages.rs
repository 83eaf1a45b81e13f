//! The send ledger: one row a message, from its acceptance to its last receipt.

pub(in crate::store) mod by_id;
pub mod claim;
pub mod counts;
pub mod due;
pub mod insert;
pub mod merged;
pub mod read;
pub mod receipts;
pub mod retention;
pub mod settle;

use super::{StoreError, channel};
use crate::send::{DeliveryState, Lane};

fn lane(text: &str) -> Result<Lane, StoreError> {
    Lane::parse(text).ok_or_else(|| StoreError::Corrupt(format!("lane {text:?}")))
}

fn status(text: &str) -> Result<DeliveryState, StoreError> {
    DeliveryState::parse(text).ok_or_else(|| StoreError::Corrupt(format!("status {text:?}")))
}
