//! Limits concurrent database lookups of callers.

use std::time::Duration;

use database::StoreError;
use tokio::sync::{Semaphore, SemaphorePermit};

/// How long a look-up waits for its turn.
const TURN: Duration = Duration::from_secs(2);

/// Look-ups in the database at a time: made-up cookies and signatures must not take all its connections.
pub struct Lookups(Semaphore);

impl Default for Lookups {
    fn default() -> Self {
        Self(Semaphore::new(4))
    }
}

impl Lookups {
    /// Waits for a turn, which lasts for as long as what is returned; not for long.
    pub async fn turn(&self) -> Result<SemaphorePermit<'_>, StoreError> {
        let busy = || StoreError::Unavailable("too many callers are being looked up".to_owned());
        tokio::time::timeout(TURN, self.0.acquire()).await.map_err(|_| busy())?.map_err(|_| busy())
    }
}
