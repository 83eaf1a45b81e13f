//! Reads the ingest stream: each lane reads partitions that this worker leases, decodes their items and records them in
//! batches.
//!
//! If a batch cannot be applied, the lane finds the items at fault.

pub mod batch;
pub mod item;
pub mod lane;
pub mod lease;
pub mod poison;
mod traced;
