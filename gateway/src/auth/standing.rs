//! Whether a caller whose long request was admitted may still go on.

use std::sync::Arc;

use database::{Store, StoreError};
use kernel::clock::Clock;
use kernel::ids::ProjectId;
use secrets::MasterKeys;
use store_projects::api_keys::KeyHash;
use store_projects::members;
use store_projects::sessions::{self, SessionHash};

use super::identity::{self, SecretCache, SecretHash};
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
    proof: Option<Proof>,
}

/// The identity secret that proved the user of a request.
#[derive(Clone)]
struct Proof {
    secret: SecretHash,
    secrets: Arc<SecretCache>,
    master_keys: MasterKeys,
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
            proof: None,
        })
    }

    /// Adds the identity secret that proved the user of the request.
    pub fn with_proof(mut self, cx: &Context<'_>, secret: SecretHash) -> Self {
        let (secrets, master_keys) = (cx.app.identity_secrets.clone(), cx.app.master_keys.clone());
        self.proof = Some(Proof { secret, secrets, master_keys });
        self
    }

    /// Returns whether the caller is still authorized: the key works, or the session lasts and its account still belongs to
    /// the project; and the identity secret that proved the user, if any, is accepted. True while the database does not answer.
    pub async fn holds(&self) -> bool {
        self.is_caller_valid().await && self.is_proof_valid().await
    }

    async fn is_proof_valid(&self) -> bool {
        let Some(Proof { secret, secrets, master_keys }) = &self.proof else { return true };
        match secrets.get(&self.store, master_keys, self.project).await {
            Ok(Some(secrets)) => identity::is_accepted(&secrets, secret, self.clock.now()),
            Ok(None) => false,
            Err(_) => true,
        }
    }

    async fn is_caller_valid(&self) -> bool {
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
