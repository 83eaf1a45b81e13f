//! `Idempotency-Key`: a request repeated with the same key takes effect once.

use database::Transaction;
use kernel::ids;
use store_profiles::client_ids;
use uuid::Uuid;

use crate::context::Context;
use crate::http::error::ApiError;
use crate::http::request::Request;

const KEY_MAX: usize = 200;

/// Returns the request's key, if any. Fails if it is not 1 to 200 ASCII characters.
pub fn key<'a>(request: &Request<'a>) -> Result<Option<&'a str>, ApiError> {
    let key = request.header("idempotency-key");
    let unusable = key.is_none() && request.headers.contains_key("idempotency-key");
    if unusable || key.is_some_and(|key| key.len() > KEY_MAX) {
        return Err(ApiError::invalid("Idempotency-Key", format!("must have 1 to {KEY_MAX} ASCII characters")));
    }
    Ok(key)
}

/// Returns the ID of the resource that a request with this key has already created.
///
/// Otherwise assigns `fresh` to the key, and the caller must create that resource in the same transaction. Concurrent
/// requests with the same key are serialized. Keys of different kinds of resource are independent.
pub async fn existing_id(
    cx: &Context<'_>,
    tx: &Transaction<'_>,
    resource: &str,
    fresh: Uuid,
) -> Result<Option<Uuid>, ApiError> {
    let Some(key) = key(cx)? else { return Ok(None) };
    let key = client_ids::resource_key(cx.project, resource, key);
    let first = client_ids::claim_or_get(tx, cx.project, key, fresh, cx.app.clock.now()).await?;
    Ok((first != fresh).then_some(first))
}

/// Derives the ID of a resource that an account creates under a key, for resources that belong to no project yet.
pub fn id_of(account: Uuid, resource: &str, key: &str) -> Uuid {
    Uuid::new_v5(&account, format!("{resource}:{key}").as_bytes())
}

/// Maximum time between accepting a message and writing its row, in milliseconds.
const IN_FLIGHT_MAX_MS: i64 = 24 * 3_600_000;

/// Checks that a message without a row, accepted earlier with the same key, may be published again.
///
/// Fails if it is too old to be in flight, since its row must then have been deleted, and delivery would send the
/// message a second time.
pub fn check_in_flight(request: &Request<'_>, message: Uuid) -> Result<(), ApiError> {
    if request.received_ms - ids::time_ms(message) > IN_FLIGHT_MAX_MS { Err(deleted_resource_error()) } else { Ok(()) }
}

/// Returns the error for a key whose resource has been deleted.
pub fn deleted_resource_error() -> ApiError {
    ApiError::Conflict("the resource created with this Idempotency-Key has been deleted; use another key".to_owned())
}
