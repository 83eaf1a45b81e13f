//! Leases an import to one request at a time. The request renews its lease while it runs.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use database::{Store, StoreError};
use kernel::clock::Clock;
use kernel::ids::{self, ProjectId};
use serde_json::json;
use store_profiles::client_ids;
use store_profiles::user_imports::{self as imports, ImportProgress, ImportStatus, LeaseHolder, UserImport};
use tokio::time::Instant;
use uuid::Uuid;

use super::request::ImportRequest;
use super::state::MAX_CONCURRENT_PER_OWNER;
use crate::context::Context;
use crate::http::error::ApiError;
use crate::resources::audit_log;

/// How long a lease lasts without renewal.
const LEASE_DURATION: Duration = Duration::from_secs(30);
const RENEW_INTERVAL: Duration = Duration::from_secs(8);

/// Returns the IDs that a text may refer to: the import's own ID, or the one derived from its `Idempotency-Key`.
pub fn candidates(project: ProjectId, text: &str) -> Vec<Uuid> {
    let derived = client_ids::resource_key(project, "user_import", text);
    Uuid::try_parse(text).ok().into_iter().chain([derived]).collect()
}

/// The lease of an import. Released when dropped.
pub struct ImportLease {
    store: Store,
    clock: Clock,
    holder: LeaseHolder,
    next_line: AtomicU64,
    released: AtomicBool,
}

impl ImportLease {
    /// Acquires the import that the request names, or creates it. Returns the import as it was before.
    ///
    /// Fails with 409 if another request holds it or if the request does not match it, and with 429 at the project's limit.
    pub async fn acquire(
        cx: &Context<'_>,
        request: &ImportRequest<'_>,
        digest: u64,
    ) -> Result<(Self, UserImport), ApiError> {
        let now = cx.app.clock.now();
        let mut db = cx.database().await?;
        let tx = db.transaction().await.map_err(StoreError::from)?;
        let candidates = request.key.map(|key| candidates(cx.project, key)).unwrap_or_default();
        let known = imports::find(&tx, cx.project, &candidates).await?;
        if request.from_line.is_some() && known.is_none() {
            return Err(conflict("no import exists for this Idempotency-Key: send the body from its first line"));
        }
        let id = known.map(|import| import.id).or(candidates.last().copied());
        let id = id.unwrap_or_else(|| ids::fresh(now.as_millisecond()));
        let import = imports::ensure(&tx, cx.project, id, (request.format.as_str(), digest as i64), now).await?;
        if import.status(now) == ImportStatus::Running {
            return Err(conflict("this import is under way in another request"));
        }
        if import.format != request.format.as_str() {
            return Err(conflict(format!("this import has the format {}", import.format)));
        }
        if let Some(from) = request.from_line.filter(|from| *from > import.next_line as u64) {
            let message = format!("this import continues at line {}, not {from}", import.next_line);
            return Err(conflict(message));
        }
        if imports::running(&tx, cx.project, now).await? >= MAX_CONCURRENT_PER_OWNER as i64 {
            return Err(too_many());
        }
        let attempt = imports::acquire_lease(&tx, cx.project, id, now + LEASE_DURATION).await?;
        if attempt == 1 {
            let details = json!({ "format": request.format.as_str() });
            audit_log::record(cx, &tx, "user_import.created", (id, ""), details).await?;
        }
        tx.commit().await.map_err(StoreError::from)?;
        let lease = Self {
            store: cx.app.store.clone(),
            clock: cx.app.clock.clone(),
            holder: LeaseHolder { project: cx.project, id, attempt },
            next_line: AtomicU64::new(import.next_line as u64),
            released: AtomicBool::new(false),
        };
        Ok((lease, import))
    }

    pub fn id(&self) -> Uuid {
        self.holder.id
    }

    /// Returns the line to resume at. All lines before it are settled.
    pub fn next_line(&self) -> u64 {
        self.next_line.load(Ordering::Relaxed)
    }

    /// Records progress and extends the lease. Fails with 409 if another request has taken the import over.
    pub async fn advance(&self, by: &ImportProgress) -> Result<(), ApiError> {
        let now = self.clock.now();
        if !imports::advance(&self.store.connection().await?, self.holder, by, (now, now + LEASE_DURATION)).await? {
            return Err(lease_lost());
        }
        self.next_line.store(by.next_line as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Renews the lease until that fails. Returns the reason.
    pub async fn keep_renewed(&self) -> ApiError {
        let mut held_until = Instant::now() + LEASE_DURATION;
        loop {
            tokio::time::sleep(RENEW_INTERVAL).await;
            let requested_at = Instant::now();
            let until = self.clock.now() + LEASE_DURATION;
            let renewing = async { imports::renew(&self.store.connection().await?, self.holder, until).await };
            let renewed: Result<bool, StoreError> = renewing.await;
            match renewed {
                Ok(true) => held_until = requested_at + LEASE_DURATION,
                Ok(false) => return lease_lost(),
                Err(error) if Instant::now() + RENEW_INTERVAL > held_until => return error.into(),
                Err(error) => tracing::debug!(%error, "cannot renew the lease of an import; retrying"),
            }
        }
    }

    /// Releases the import. Returns its final state.
    pub async fn release(&self, completed: bool) -> Result<UserImport, ApiError> {
        let db = self.store.connection().await?;
        imports::release(&db, self.holder, completed, self.clock.now()).await?;
        self.released.store(true, Ordering::Relaxed);
        let import = imports::find(&db, self.holder.project, &[self.holder.id]).await?;
        import.ok_or_else(|| ApiError::no_such("import"))
    }
}

impl Drop for ImportLease {
    fn drop(&mut self) {
        if self.released.load(Ordering::Relaxed) {
            return;
        }
        // The client has disconnected, which cancelled the request.
        let (store, holder, now) = (self.store.clone(), self.holder, self.clock.now());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let released = async { imports::release(&store.connection().await?, holder, false, now).await };
                let released: Result<(), StoreError> = released.await;
                if let Err(error) = released {
                    tracing::debug!(%error, "cannot release an import; its lease will expire");
                }
            });
        }
    }
}

/// Returns the error for a project, or an owner in this gateway, that has reached its limit of running imports.
pub fn too_many() -> ApiError {
    ApiError::TooMany(
        "this project and its creator's other projects have reached their limit of running imports; wait until one is complete",
    )
}

fn conflict(message: impl Into<String>) -> ApiError {
    ApiError::Conflict(message.into())
}

fn lease_lost() -> ApiError {
    conflict("another request has taken over this import")
}
