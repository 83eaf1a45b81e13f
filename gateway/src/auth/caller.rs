//! Callers that were admitted to a project.

use std::sync::Arc;

use kernel::ids::IdSpace;
use store_projects::accounts::Account;
use store_projects::api_keys::KeyType;
use store_projects::audit::Actor;
use store_projects::members::Role;
use uuid::Uuid;

use super::key_cache::CachedKey;

#[derive(Clone)]
pub enum Caller {
    Key(Arc<CachedKey>),
    Member { account: Account, role: Role },
}

impl Caller {
    /// Returns the actor for the audit log.
    pub fn actor(&self) -> Actor {
        match self {
            Self::Key(key) => Actor::ApiKey { id: key.id, prefix: key.prefix.clone() },
            Self::Member { account, .. } => Actor::Account { id: account.id, email: account.email.clone() },
        }
    }

    pub fn is_admin(&self) -> bool {
        matches!(self, Self::Member { role: Role::Admin, .. })
    }

    /// Returns whether the caller is a logged-in account.
    pub fn is_session(&self) -> bool {
        matches!(self, Self::Member { .. })
    }

    /// Returns the account's ID, or `None` for a key.
    pub fn account(&self) -> Option<Uuid> {
        match self {
            Self::Key(_) => None,
            Self::Member { account, .. } => Some(account.id),
        }
    }

    /// Returns whether the caller is a public key, which anyone can read from a page or an app.
    pub fn is_public(&self) -> bool {
        matches!(self, Self::Key(key) if key.key_type == KeyType::Public)
    }

    /// Returns the namespace of the IDs that the caller chooses.
    pub fn id_space(&self) -> IdSpace {
        if self.is_public() { IdSpace::PublicKey } else { IdSpace::SecretKey }
    }

    /// Returns whether the caller must prove the user IDs that it names.
    pub fn must_prove_identity(&self) -> bool {
        matches!(self, Self::Key(key) if key.identity_verification && key.key_type == KeyType::Public)
    }
}
