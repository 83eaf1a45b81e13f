//! Who was let into a project.

use std::sync::Arc;

use kernel::ids::IdSpace;
use store_projects::accounts::Account;
use store_projects::api_keys::KeyType;
use store_projects::audit::Actor;
use store_projects::members::Role;
use uuid::Uuid;

use super::key_cache::KnownKey;

#[derive(Clone)]
pub enum Caller {
    Key(Arc<KnownKey>),
    Member { account: Account, role: Role },
}

impl Caller {
    /// Who stands in the audit log.
    pub fn actor(&self) -> Actor {
        match self {
            Self::Key(key) => Actor::ApiKey { id: key.id, prefix: key.prefix.clone() },
            Self::Member { account, .. } => Actor::Account { id: account.id, email: account.email.clone() },
        }
    }

    pub fn is_admin(&self) -> bool {
        matches!(self, Self::Member { role: Role::Admin, .. })
    }

    /// Whether it is somebody who is logged in.
    pub fn is_session(&self) -> bool {
        matches!(self, Self::Member { .. })
    }

    /// The account, where it is a session.
    pub fn account(&self) -> Option<Uuid> {
        match self {
            Self::Key(_) => None,
            Self::Member { account, .. } => Some(account.id),
        }
    }

    /// Whether it is a public key, which anybody may have read.
    pub fn is_public(&self) -> bool {
        matches!(self, Self::Key(key) if key.key_type == KeyType::Public)
    }

    /// Where the ids lie that it chooses.
    pub fn id_space(&self) -> IdSpace {
        if self.is_public() { IdSpace::PublicKey } else { IdSpace::SecretKey }
    }

    /// Whether the user ids that it names must be proven.
    pub fn must_prove_identity(&self) -> bool {
        matches!(self, Self::Key(key) if key.identity_verification && key.key_type == KeyType::Public)
    }
}
