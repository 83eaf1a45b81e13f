//! What letting requests in shares between them.

use database::Store;
use kernel::clock::Clock;
use secrets::MasterKeys;
use uuid::Uuid;

use super::identity::secret_cache::SecretCache;
use super::key_cache::KeyCache;
use super::lookups::Lookups;
use super::recent_sessions::RecentSessions;
use super::sign_in_queue::SignInQueue;
use crate::http::client_address::ClientAddress;
use crate::http::error::ApiError;
use crate::http::request::Request;
use crate::limits::rate_limit::{LimitByKey, Scope};

/// Requests per second of one account outside of any project, in one gateway.
const PER_ACCOUNT: u32 = 50;
/// Requests per second from one address that may be answered 401, in one gateway.
const REFUSALS_PER_ADDRESS: u32 = 20;

pub struct Auth {
    pub store: Store,
    pub clock: Clock,
    /// By which the secrets of projects can be read.
    pub master_keys: MasterKeys,
    /// API keys that were seen before.
    pub keys: KeyCache,
    /// Secrets that users' identity proofs are verified with.
    pub identity_secrets: SecretCache,
    /// Passwords waiting to be checked or hashed.
    pub sign_ins: SignInQueue,
    /// Of sessions, and of who signs webhooks.
    pub lookups: Lookups,
    pub recent_sessions: RecentSessions,
    /// Requests of one account outside of any project.
    pub account_limit: LimitByKey<Uuid>,
    /// Requests from one address that were not authorized.
    pub refusal_limit: LimitByKey<ClientAddress>,
}

impl Auth {
    pub fn new(store: Store, clock: Clock, master_keys: MasterKeys) -> Self {
        Self {
            store,
            clock,
            master_keys,
            keys: KeyCache::default(),
            identity_secrets: SecretCache::default(),
            sign_ins: SignInQueue::default(),
            lookups: Lookups::default(),
            recent_sessions: RecentSessions::default(),
            account_limit: LimitByKey::new(Scope::Account, PER_ACCOUNT),
            refusal_limit: LimitByKey::new(Scope::Address, REFUSALS_PER_ADDRESS),
        }
    }

    /// Refuses (429) a client from whose address too many requests were not authorized: before the database is asked who calls.
    pub fn check_refusals(&self, request: &Request<'_>) -> Result<(), ApiError> {
        request.client.map_or(Ok(()), |client| self.refusal_limit.check(&client))
    }
}
