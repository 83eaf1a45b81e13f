//! What all requests share.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bus::group_commit::GroupCommit;
use bus::topology::IngestStream;
use bus::{Bus, Publisher};
use database::Store;
use kernel::clock::Clock;
use kernel::ids::ProjectId;
use quick_cache::sync::Cache;
use secrets::MasterKeys;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use trace::Sampler;
use uuid::Uuid;

use crate::ai::Ai;
use crate::api::inbox::Inboxes;
use crate::auth::identity::SecretCache;
use crate::auth::key_cache::KeyCache;
use crate::auth::recent_sessions::RecentSessions;
use crate::auth::session::Lookups;
use crate::auth::sign_in_queue::SignInQueue;
use crate::client_address::ClientAddress;
use crate::config::GatewayConfig;
use crate::docs::Docs;
use crate::health::readiness::Readiness;
use crate::ingest::applied::Applied;
use crate::links::Lately;
use crate::measure::Meters;
use crate::permits::Permits;
use crate::rate_limit::{LimitByKey, RateLimits};
use crate::slots::Slots;

/// The parts that an [`App`] is put together from.
pub struct Parts {
    pub config: GatewayConfig,
    pub store: Store,
    pub bus: Bus,
    pub ingest_stream: IngestStream,
    pub clock: Clock,
    pub master_keys: MasterKeys,
}

pub struct App {
    pub config: GatewayConfig,
    pub store: Store,
    pub bus: Bus,
    pub publisher: Publisher,
    pub ingest: GroupCommit,
    pub ingest_stream: IngestStream,
    pub clock: Clock,
    pub master_keys: MasterKeys,
    pub keys: Arc<KeyCache>,
    pub identity_secrets: Arc<SecretCache>,
    pub sign_ins: SignInQueue,
    /// Of sessions.
    pub lookups: Lookups,
    pub recent_sessions: RecentSessions,
    pub limits: RateLimits,
    /// Requests of one account outside of any project.
    pub account_limit: LimitByKey<Uuid>,
    /// Requests from one address that were not authorized.
    pub refusal_limit: LimitByKey<ClientAddress>,
    pub docs: Docs,
    /// Where one is configured.
    pub ai: Option<Ai>,
    pub readiness: Readiness,
    pub meters: Meters,
    /// Which requests are traced.
    pub sampler: Sampler,
    /// Positions up to which the ingest stream has been applied, for those who wait for them.
    pub applied: Applied,
    /// Repeats of what the links in messages tell.
    pub told_by_links: Lately,
    /// For what the pages behind links read from the database.
    pub link_permits: Permits,
    /// Pages shown behind the links of one message.
    pub link_limit: LimitByKey<Uuid>,
    /// Who follows which inbox.
    pub inboxes: Inboxes,
    /// For evaluating segments while a client waits.
    pub evaluations: Permits,
    /// Searches for people that found more of them than are counted, and when: who looks for `an` asks again with every
    /// page and letter, and counting ten thousand is most of the work.
    pub large_searches: Cache<(ProjectId, String, Option<bool>), Instant>,
    /// For rendering texts while a client waits.
    pub renderings: Permits,
    pub imports: Slots,
    /// Whose slice is under way.
    pub import_turn: Semaphore,
    pub exports: Slots,
    /// No longer ready: requests are only being finished.
    pub draining: AtomicBool,
}
