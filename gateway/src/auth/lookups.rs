//! Limits concurrent database lookups of callers.

use std::time::Duration;

use database::StoreError;
use tokio::sync::{Semaphore, SemaphorePermit};

/// How long a lookup waits for a permit.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(2);

/// Limits concurrent lookups: made-up cookies and signatures must not take all database connections.
pub struct LookupPermits(Semaphore);

impl Default for LookupPermits {
    fn default() -> Self {
        Self(Semaphore::new(4))
    }
}

impl LookupPermits {
    /// Waits for a permit for at most `PERMIT_TIMEOUT`. The permit is released when the returned value is dropped.
    pub async fn acquire(&self) -> Result<SemaphorePermit<'_>, StoreError> {
        let busy = || StoreError::Unavailable("too many callers are being looked up".to_owned());
        tokio::time::timeout(PERMIT_TIMEOUT, self.0.acquire()).await.map_err(|_| busy())?.map_err(|_| busy())
    }
}
