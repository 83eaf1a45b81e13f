//! Why a batch was not recorded.

use database::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// These partitions do not stand where the batch begins; nothing was committed.
    #[error("partitions {0:?} do not stand where the batch begins")]
    Deposed(Vec<i16>),
}
