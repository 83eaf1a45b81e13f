//! What is read from the stream: each lane reads the partitions that this worker leases, decodes their items, and has batches
//! of them recorded. A batch that cannot be applied is searched for the items at fault.

pub mod batch;
pub mod item;
pub mod lane;
pub mod lease;
pub mod poison;
mod traced;
