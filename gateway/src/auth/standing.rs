//! Whether somebody who was let in for something long still may.

use std::sync::Arc;

use shared::ids::ProjectId;
use shared::store::api_keys::KeyHash;
use shared::store::{Store, StoreError, members};
use uuid::Uuid;

use super::key_cache::KeyCache;
use super::{Caller, key_hash};
use crate::context::Context;

/// A caller, to be asked about again.
#[derive(Clone)]
pub struct Standing {
    keys: Arc<KeyCache>,
    store: Store,
    project: ProjectId,
    by: By,
}

#[derive(Clone)]
enum By {
    Key(KeyHash),
    Member(Uuid),
}

impl Standing {
    /// None where the request brought nothing to ask about, which cannot be of one that was let in.
    pub fn of(cx: &Context<'_>) -> Option<Self> {
        let by = match &cx.caller {
            Caller::Key(_) => By::Key(key_hash(cx)?),
            Caller::Member { account, .. } => By::Member(account.id),
        };
        Some(Self { keys: cx.app.keys.clone(), store: cx.app.store.clone(), project: cx.project, by })
    }

    /// Whether the key still works, or the account still belongs to the project. While that cannot be told, it does.
    pub async fn holds(&self) -> bool {
        let found: Result<bool, StoreError> = match &self.by {
            By::Key(hash) => self.keys.find(&self.store, hash).await.map(|key| key.is_some()),
            By::Member(account) => {
                let membership = async {
                    let db = self.store.connection().await?;
                    members::membership_of(&db, *account, self.project).await
                };
                membership.await.map(|found| found.is_some())
            }
        };
        found.unwrap_or(true)
    }
}
