//! Whether a caller whose long request was admitted may still go on.

use std::sync::Arc;

use shared::clock::Clock;
use shared::ids::ProjectId;
use shared::store::api_keys::KeyHash;
use shared::store::sessions::{self, SessionHash};
use shared::store::{Store, StoreError, members};

use super::key_cache::KeyCache;
use super::{Caller, key_hash, session};
use crate::context::Context;

/// A caller, to be asked about again.
#[derive(Clone)]
pub struct Standing {
    keys: Arc<KeyCache>,
    store: Store,
    clock: Clock,
    project: ProjectId,
    by: By,
}

#[derive(Clone)]
enum By {
    Key(KeyHash),
    Session(SessionHash),
}

impl Standing {
    /// None where the request brought nothing to ask about, which cannot be of one that was let in.
    pub fn of(cx: &Context<'_>) -> Option<Self> {
        let by = match &cx.caller {
            Caller::Key(_) => By::Key(key_hash(cx)?),
            Caller::Member { .. } => By::Session(session::hash_of(cx)?),
        };
        let app = cx.app;
        Some(Self {
            keys: app.keys.clone(),
            store: app.store.clone(),
            clock: app.clock.clone(),
            project: cx.project,
            by,
        })
    }

    /// Returns whether the key still works, or the session lasts and its account still belongs to the project; true while the
    /// database does not answer.
    pub async fn holds(&self) -> bool {
        let found: Result<bool, StoreError> = match &self.by {
            By::Key(hash) => self.keys.find(&self.store, hash).await.map(|key| key.is_some()),
            By::Session(hash) => {
                let membership = async {
                    let db = self.store.connection().await?;
                    let Some(session) = sessions::find(&db, hash, self.clock.now()).await? else { return Ok(None) };
                    members::membership_of(&db, session.account.id, self.project).await
                };
                membership.await.map(|found| found.is_some())
            }
        };
        found.unwrap_or(true)
    }
}
