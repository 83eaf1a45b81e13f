//! The send ledger: one row a message, inserted once and settled once. What is still to be sent is in `send_chunks`.

pub(crate) mod by_id;
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
