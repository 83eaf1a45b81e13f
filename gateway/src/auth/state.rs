//! Shared state of authentication.

use database::Store;
use kernel::clock::Clock;
use secrets::MasterKeys;
use uuid::Uuid;

use super::identity::secret_cache::SecretCache;
use super::key_cache::KeyCache;
use super::lookups::LookupPermits;
use super::recent_sessions::RecentSessions;
use super::sign_in_queue::SignInQueue;
use crate::http::client_address::ClientAddress;
use crate::http::error::ApiError;
use crate::http::request::Request;
use crate::limits::rate_limit::{LimitByKey, Scope};

/// Requests per second of one account outside of any project, per gateway.
const ACCOUNT_RATE_LIMIT: u32 = 50;
/// Requests per second from one address that may fail authentication, per gateway.
const AUTH_FAILURE_RATE_LIMIT: u32 = 20;

pub struct Auth {
    pub store: Store,
    pub clock: Clock,
    /// Keys that decrypt the secrets of projects.
    pub master_keys: MasterKeys,
    /// Cached API keys.
    pub keys: KeyCache,
    /// Cached secrets that proofs of user IDs are verified with.
    pub identity_secrets: SecretCache,
    /// Password checks and hashes that wait for a permit.
    pub sign_in_queue: SignInQueue,
    /// Permits to look up sessions and the secrets of webhook signatures.
    pub lookup_permits: LookupPermits,
    pub recent_sessions: RecentSessions,
    /// Limits the requests of one account outside of any project.
    pub account_limit: LimitByKey<Uuid>,
    /// Limits the failed authentications from one address.
    pub auth_failure_limit: LimitByKey<ClientAddress>,
}

impl Auth {
    pub fn new(store: Store, clock: Clock, master_keys: MasterKeys) -> Self {
        Self {
            store,
            clock,
            master_keys,
            keys: KeyCache::default(),
            identity_secrets: SecretCache::default(),
            sign_in_queue: SignInQueue::default(),
            lookup_permits: LookupPermits::default(),
            recent_sessions: RecentSessions::default(),
            account_limit: LimitByKey::new(Scope::Account, ACCOUNT_RATE_LIMIT),
            auth_failure_limit: LimitByKey::new(Scope::Address, AUTH_FAILURE_RATE_LIMIT),
        }
    }

    /// Refuses (429) a client if too many requests from its address have failed authentication.
    ///
    /// Call it before the database lookup of the caller.
    pub fn check_auth_failures(&self, request: &Request<'_>) -> Result<(), ApiError> {
        request.client.map_or(Ok(()), |client| self.auth_failure_limit.check(&client))
    }
}
