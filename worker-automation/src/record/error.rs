//! Errors of the recording transaction.

use database::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The positions of these partitions are not at the start of the batch; nothing was committed.
    #[error("partitions {0:?} are not at the start of the batch")]
    Deposed(Vec<i16>),
}
