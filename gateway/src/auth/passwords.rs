//! Hashes passwords on blocking threads, one for each permit of the queue.

use secrets::password;

use super::sign_in_queue::HashPermit;
use crate::http::error::ApiError;

/// Returns whether a password matches a hash. Without a hash, returns false after the same time.
pub async fn verify(permit: &HashPermit, password: &str, hash: Option<String>) -> Result<bool, ApiError> {
    let (password, known) = (password.to_owned(), hash.is_some());
    let hash = hash.unwrap_or_else(|| password::DUMMY_HASH.to_owned());
    Ok(run(permit, move || password::verify(&password, &hash)).await? && known)
}

pub async fn hash(permit: &HashPermit, password: &str) -> Result<String, ApiError> {
    let password = password.to_owned();
    run(permit, move || password::hash(&password)).await?.map_err(|e| ApiError::Internal(e.to_string()))
}

async fn run<T: Send + 'static>(permit: &HashPermit, work: impl FnOnce() -> T + Send + 'static) -> Result<T, ApiError> {
    // The permit is held until the work ends, because the work cannot be cancelled when the caller disconnects.
    let permit = permit.clone();
    let done = tokio::task::spawn_blocking(move || {
        let done = work();
        drop(permit);
        done
    });
    done.await.map_err(|e| ApiError::Internal(format!("hashing a password: {e}")))
}
