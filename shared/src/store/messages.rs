//! The send ledger: one row a message, from its acceptance to its last receipt.

pub mod insert;
