//! Hashing passwords beside the async threads, a bounded number at a time.

use std::sync::Arc;
use std::time::Duration;

use shared::password;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::ApiError;

/// How long somebody waits for their turn.
const TURN: Duration = Duration::from_secs(10);
const BUSY: ApiError = ApiError::Unavailable("too many passwords are being checked");

pub struct Passwords {
    turns: Arc<Semaphore>,
}

impl Default for Passwords {
    /// Half the processors: ingest goes on while many people log in.
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self { turns: Arc::new(Semaphore::new(processors.div_ceil(2))) }
    }
}

impl Passwords {
    /// Whether a password is the one of a hash. Without a hash it is not, after as long a time.
    pub async fn fits(&self, password: &str, hash: Option<String>) -> Result<bool, ApiError> {
        let (password, known) = (password.to_owned(), hash.is_some());
        let hash = hash.unwrap_or_else(|| password::NOBODYS.to_owned());
        Ok(self.run(move || password::fits(&password, &hash)).await? && known)
    }

    pub async fn hash(&self, password: &str) -> Result<String, ApiError> {
        let password = password.to_owned();
        self.run(move || password::hash(&password)).await?.map_err(|e| ApiError::Internal(e.to_string()))
    }

    async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, ApiError> {
        let turn = tokio::time::timeout(TURN, self.turns.clone().acquire_owned()).await;
        // It goes along with the work, which nobody can stop: not even a caller who gives up.
        let turn: OwnedSemaphorePermit = turn.map_err(|_| BUSY)?.map_err(|_| BUSY)?;
        let done = tokio::task::spawn_blocking(move || {
            let done = work();
            drop(turn);
            done
        });
        done.await.map_err(|e| ApiError::Internal(format!("hashing a password: {e}")))
    }
}
