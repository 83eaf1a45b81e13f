//! Who calls: the key in the headers, found without the database where it was seen before.

mod header;
pub mod key_cache;
mod watch;

pub use watch::{begin, watch};

use std::sync::Arc;

use http::HeaderMap;
use shared::store::api_keys::{self, ActiveKey, KeyType};

use crate::app::App;
use crate::error::ApiError;
use crate::router::Access;

const REFUSED: ApiError = ApiError::Unauthorized(
    "invalid or missing API key: send one as `x-api-key: <key>` or `Authorization: Bearer <key>`",
);

/// The key that a request is made with.
pub async fn authenticate(app: &App, headers: &HeaderMap) -> Result<Arc<ActiveKey>, ApiError> {
    let key = header::key(headers).filter(|k| api_keys::looks_like_key(k)).ok_or(REFUSED)?;
    app.keys.find(&app.store, &api_keys::hash(key)).await?.ok_or(REFUSED)
}

/// Refuses a public key where a secret one is needed.
pub fn authorize(key_type: KeyType, access: Access) -> Result<(), ApiError> {
    match (key_type, access) {
        (KeyType::Public, Access::Secret) => {
            Err(ApiError::Forbidden("this address needs a secret key (sk_live_…); the one sent is public"))
        }
        (KeyType::Public, Access::Public) | (KeyType::Secret, _) => Ok(()),
    }
}
