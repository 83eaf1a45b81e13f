//! `Idempotency-Key`: a request that is sent again under the same key takes effect once.

use database::Transaction;
use kernel::ids;
use store_profiles::client_ids;
use uuid::Uuid;

use crate::context::Context;
use crate::http::error::ApiError;
use crate::http::request::Request;

const KEY_MAX: usize = 200;

/// The request's key.
pub fn key<'a>(request: &Request<'a>) -> Result<Option<&'a str>, ApiError> {
    let key = request.header("idempotency-key");
    let unusable = key.is_none() && request.headers.contains_key("idempotency-key");
    if unusable || key.is_some_and(|key| key.len() > KEY_MAX) {
        return Err(ApiError::invalid("Idempotency-Key", format!("must have 1 to {KEY_MAX} ASCII characters")));
    }
    Ok(key)
}

/// The id of what this key has made before; else the key stands for `fresh` from the end of the transaction on, in which
/// that must be made. Two requests at once take turns here. Keys of one kind of resource say nothing about another's.
pub async fn made_before(
    cx: &Context<'_>,
    tx: &Transaction<'_>,
    resource: &str,
    fresh: Uuid,
) -> Result<Option<Uuid>, ApiError> {
    let Some(key) = key(cx)? else { return Ok(None) };
    let key = client_ids::resource_key(cx.project, resource, key);
    let first = client_ids::first_of(tx, cx.project, key, fresh, cx.app.clock.now()).await?;
    Ok((first != fresh).then_some(first))
}

/// The id of what an account makes under a key, where no project could keep the key.
pub fn id_of(account: Uuid, resource: &str, key: &str) -> Uuid {
    Uuid::new_v5(&account, format!("{resource}:{key}").as_bytes())
}

/// How long an accepted message may be on its way to its row, in milliseconds.
const IN_FLIGHT_MAX_MS: i64 = 24 * 3_600_000;

/// Checks that a message without a row, accepted under a key that is used again, may be published again. Fails where its row
/// must have been removed since: without the row, delivery would send it a second time.
pub fn check_in_flight(request: &Request<'_>, message: Uuid) -> Result<(), ApiError> {
    if request.received_ms - ids::time_ms(message) > IN_FLIGHT_MAX_MS { Err(gone()) } else { Ok(()) }
}

/// What a key made is no longer there.
pub fn gone() -> ApiError {
    ApiError::Conflict("what this Idempotency-Key made has been deleted since; use another key".to_owned())
}
