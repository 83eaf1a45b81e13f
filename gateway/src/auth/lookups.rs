//! Limits concurrent database lookups of callers.

use std::time::Duration;

use database::StoreError;
use tokio::sync::{Semaphore, SemaphorePermit};

/// How long a lookup waits for a permit.
const TURN: Duration = Duration::from_secs(2);

/// Limits concurrent lookups: made-up cookies and signatures must not take all database connections.
pub struct Lookups(Semaphore);

impl Default for Lookups {
    fn default() -> Self {
        Self(Semaphore::new(4))
    }
}

impl Lookups {
    /// Waits for a permit for at most `PERMIT_TIMEOUT`. The permit is released when the returned value is dropped.
    pub async fn turn(&self) -> Result<SemaphorePermit<'_>, StoreError> {
        let busy = || StoreError::Unavailable("too many callers are being looked up".to_owned());
        tokio::time::timeout(TURN, self.0.acquire()).await.map_err(|_| busy())?.map_err(|_| busy())
    }
}
