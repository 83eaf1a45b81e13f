//! Reseals secrets under another master key.

use anyhow::Result;
use secrets::MasterKeys;
use store_projects::sealed::{self, RowPosition};
use store_projects::sealed_columns::SEALED;

use super::Provision;

/// Secrets per transaction. It bounds how long a concurrent change of one of them waits.
const BATCH_SIZE: i64 = 100;

/// Result of a rotation.
#[derive(Debug, Default)]
pub struct Rotated {
    pub resealed: u64,
    /// Tables and places of secrets that no key opens.
    pub unreadable: Vec<(&'static str, RowPosition)>,
}

impl Provision {
    /// Counts the secrets by table that are not sealed under the first key.
    pub async fn count_outdated_secrets(&self, keys: &MasterKeys) -> Result<Vec<(&'static str, i64)>> {
        let connection = self.connection().await?;
        let mut counts = Vec::new();
        for column in SEALED {
            counts.push((column.table, sealed::count_remaining(&connection, column, keys).await?));
        }
        Ok(counts)
    }

    /// Reseals every secret under the first key. Completed transactions persist if it is interrupted.
    pub async fn rotate_secrets(&self, keys: &MasterKeys) -> Result<Rotated> {
        let mut connection = self.connection().await?;
        let mut rotated = Rotated::default();
        for column in SEALED {
            let mut next = Some(sealed::first_position());
            while let Some(from) = next {
                let tx = connection.transaction().await?;
                let step = sealed::reseal(&tx, column, keys, &from, BATCH_SIZE).await?;
                tx.commit().await?;
                rotated.resealed += step.resealed;
                rotated.unreadable.extend(step.unreadable.into_iter().map(|place| (column.table, place)));
                next = step.next;
            }
        }
        Ok(rotated)
    }
}
