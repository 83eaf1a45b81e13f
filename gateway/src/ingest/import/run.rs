//! Runs one request of an import, until it completes or is interrupted.

use std::sync::atomic::Ordering;
use std::time::Duration;

use hyper::body::Incoming;
use kernel::failpoint;
use store_profiles::user_imports::UserImport;
use tokio::time::{Instant, timeout};

use super::MAX_BYTES;
use super::lease::{ImportLease, too_many};
use super::reader::Reader;
use super::request::ImportRequest;
use super::slice::Slice;
use super::source::Source;
use crate::context::Context;
use crate::http::body;
use crate::http::error::ApiError;
use crate::limits::slots::NoSlot;

/// How long the worker may take to record a slice before the client is asked to retry.
const RECORD_TIMEOUT: Duration = Duration::from_mins(1);

/// How long a body may take until its first line arrives.
const OPEN_TIMEOUT: Duration = Duration::from_secs(30);

/// Imports the request's body. An interrupted import is resumed.
///
/// Fails with [`ApiError::Interrupted`] if the import has begun and can be resumed.
pub async fn run(cx: &Context<'_>, request: ImportRequest<'_>) -> Result<UserImport, ApiError> {
    let _slot = cx.app.imports.slots.take(cx.owner).map_err(|full| match full {
        NoSlot::Owner => too_many(),
        NoSlot::Gateway => ApiError::Unavailable("this gateway has reached its limit of running imports"),
    })?;
    let source = match Source::new(cx.take_body()?, cx.headers, MAX_BYTES) {
        Ok(source) => source,
        Err((error, body)) => {
            body::discard(body, cx.headers).await;
            return Err(error);
        }
    };
    let mut reader = Reader::new(source, request.format);
    let outcome = import(cx, request, &mut reader).await;
    if outcome.is_err() {
        body::discard(reader.into_body(), cx.headers).await;
    }
    outcome
}

async fn import(
    cx: &Context<'_>,
    request: ImportRequest<'_>,
    reader: &mut Reader<Incoming>,
) -> Result<UserImport, ApiError> {
    // Bounded because the request already holds a slot, but no import yet that would count against the project's limit.
    timeout(OPEN_TIMEOUT, reader.open(request.from_line)).await.map_err(|_| ApiError::Timeout)??;
    let (lease, before) = ImportLease::acquire(cx, &request, reader.digest()).await?;
    let outcome = tokio::select! {
        outcome = import_lines(cx, &lease, &before, request, reader) => outcome,
        lost = lease.keep_renewed() => Err(lost),
    };
    let released = lease.release(outcome.is_ok()).await;
    match outcome {
        Ok(()) => released,
        Err(cause) => {
            Err(ApiError::Interrupted { cause: Box::new(cause), id: lease.id(), next_line: lease.next_line() })
        }
    }
}

/// Settles all lines, slice by slice.
async fn import_lines(
    cx: &Context<'_>,
    lease: &ImportLease,
    before: &UserImport,
    request: ImportRequest<'_>,
    reader: &mut Reader<Incoming>,
) -> Result<(), ApiError> {
    let settled = before.next_line as u64;
    // A resent body must match the lines already imported. With `fromLine` this cannot be checked.
    let mut must_match = settled > 1 && request.from_line.is_none();
    if request.from_line.is_some() {
        reader.set_digest(before.digest as u64);
    }
    let mut reported = before.problems.len();
    let mut slice = Slice::default();
    let mut digest = reader.digest();
    while let Some(entry) = reader.next(settled).await? {
        if entry.line < settled {
            match request.from_line {
                None => digest = entry.digest,
                Some(_) => reader.set_digest(digest),
            }
            continue;
        }
        if must_match && digest != before.digest as u64 {
            return Err(body_mismatch());
        }
        must_match = false;
        digest = entry.digest;
        if let Some(user) = entry.user {
            slice.add(entry.line, user, &mut reported);
        }
        slice.advance.next_line = reader.number().max(entry.line + 1) as i64;
        slice.advance.digest = digest as i64;
        if slice.is_full() {
            commit_slice(cx, lease, std::mem::take(&mut slice)).await?;
        }
    }
    if must_match && digest != before.digest as u64 {
        return Err(body_mismatch());
    }
    if !slice.is_empty() {
        commit_slice(cx, lease, slice).await?;
    }
    Ok(())
}

/// Publishes a slice, records the progress, and waits until the worker has recorded the users.
///
/// Only one slice of all imports of this gateway is in flight at a time. This bounds how long live events wait.
async fn commit_slice(cx: &Context<'_>, lease: &ImportLease, slice: Slice) -> Result<(), ApiError> {
    let Ok(_permit) = cx.app.imports.slice_permit.acquire().await else {
        return Err(ApiError::Internal("the semaphore of imports is closed".to_owned()));
    };
    if cx.app.draining.load(Ordering::Relaxed) {
        return Err(ApiError::Unavailable("this gateway is stopping"));
    }
    if let Some(authorization) = cx.authorization()
        && !authorization.is_valid().await
    {
        return Err(ApiError::Unauthorized("the key was revoked, or the account left the team, during this import"));
    }
    let positions = slice.publish(cx).await?;
    failpoint::hit("gateway.after_import_published");
    lease.advance(&slice.advance).await?;
    failpoint::hit("gateway.after_import_noted");
    if cx.app.ingest.applied.wait(&cx.app.store, &positions, Instant::now() + RECORD_TIMEOUT).await {
        return Ok(());
    }
    Err(ApiError::Unavailable("the users imported so far have not been recorded yet"))
}

fn body_mismatch() -> ApiError {
    ApiError::Conflict(
        "the body differs from the lines that this import has already accepted; use another Idempotency-Key".to_owned(),
    )
}
