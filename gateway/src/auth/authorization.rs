//! Rechecks the authorization of a caller during a long request.

use std::sync::Arc;

use database::StoreError;
use kernel::ids::ProjectId;
use store_projects::api_keys::{self, KeyHash};
use store_projects::members;
use store_projects::sessions::{self, SessionHash};

use super::caller::Caller;
use super::identity::secret_cache::{SecretHash, is_accepted};
use super::state::Auth;
use super::{header, session};
use crate::http::request::Request;

/// A caller whose authorization can be rechecked.
#[derive(Clone)]
pub struct Authorization {
    auth: Arc<Auth>,
    project: ProjectId,
    credential: Credential,
    /// The identity secret that the request's user was proven with.
    proven_with: Option<SecretHash>,
}

#[derive(Clone)]
enum Credential {
    Key(KeyHash),
    Session(SessionHash),
}

impl Authorization {
    /// Returns `None` if the request carries no key or session, which cannot occur for an admitted request.
    pub fn of(auth: &Arc<Auth>, request: &Request<'_>, project: ProjectId, caller: &Caller) -> Option<Self> {
        let credential = match caller {
            Caller::Key(_) => Credential::Key(header::key(request.headers).map(api_keys::hash)?),
            Caller::Member { .. } => Credential::Session(session::hash_of(request)?),
        };
        Some(Self { auth: auth.clone(), project, credential, proven_with: None })
    }

    /// Adds the identity secret that the request's user was proven with.
    pub fn with_proof(mut self, secret: SecretHash) -> Self {
        self.proven_with = Some(secret);
        self
    }

    /// Returns whether the caller is still authorized: its key is active, or its session is valid and its account still belongs to
    /// the project; and the identity secret that its user was proven with, if any, is still accepted. Returns true while the
    /// database is unavailable.
    pub async fn is_valid(&self) -> bool {
        self.is_caller_valid().await && self.is_proof_valid().await
    }

    async fn is_proof_valid(&self) -> bool {
        let (auth, Some(secret)) = (&self.auth, &self.proven_with) else { return true };
        match auth.identity_secrets.get(&auth.store, &auth.master_keys, self.project).await {
            Ok(Some(secrets)) => is_accepted(&secrets, secret, auth.clock.now()),
            Ok(None) => false,
            Err(_) => true,
        }
    }

    async fn is_caller_valid(&self) -> bool {
        let auth = &self.auth;
        let found: Result<bool, StoreError> = match &self.credential {
            Credential::Key(hash) => auth.keys.find(&auth.store, hash).await.map(|key| key.is_some()),
            Credential::Session(hash) => {
                let membership = async {
                    let db = auth.store.connection().await?;
                    let Some(session) = sessions::find(&db, hash, auth.clock.now()).await? else { return Ok(None) };
                    members::membership_of(&db, session.account.id, self.project).await
                };
                membership.await.map(|found| found.is_some())
            }
        };
        found.unwrap_or(true)
    }
}
