//! `Idempotency-Key`: a request that is sent again under the same key takes effect once.

use shared::store::{Transaction, client_ids};
use uuid::Uuid;

use crate::context::Context;
use crate::error::ApiError;

const KEY_MAX: usize = 200;

/// The request's key.
pub fn key<'a>(cx: &Context<'a>) -> Result<Option<&'a str>, ApiError> {
    let key = cx.header("idempotency-key");
    let unusable = key.is_none() && cx.headers.contains_key("idempotency-key");
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

/// What a key made is no longer there.
pub fn gone() -> ApiError {
    ApiError::Conflict("what this Idempotency-Key made has been deleted since; use another key".to_owned())
}
