//! The send ledger: one row a message, from its acceptance to its last receipt.

pub mod claim;
pub mod counts;
pub mod due;
pub mod insert;
pub mod read;
pub mod receipts;
pub mod settle;
