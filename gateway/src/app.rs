//! State shared by all requests. State that only one area needs is in that area's `state.rs`.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bus::topology::IngestStream;
use bus::{Bus, Publisher};
use database::Store;
use kernel::clock::Clock;
use secrets::MasterKeys;
use trace::Sampler;

use crate::auth::Auth;
use crate::config::GatewayConfig;
use crate::health::readiness::Readiness;
use crate::ingest::Ingest;
use crate::ingest::import::Imports;
use crate::limits::permits::Permits;
use crate::limits::rate_limit::RateLimits;
use crate::limits::slots::Slots;
use crate::measure::Meters;
use crate::public::docs::Docs;
use crate::public::links::Links;
use crate::resources::ai::provider::Ai;
use crate::resources::inbox::InboxStreams;
use crate::resources::users::LargeSearches;

/// The parts that an [`App`] is built from.
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
    pub clock: Clock,
    pub master_keys: MasterKeys,
    /// Authentication and authorization.
    pub auth: Arc<Auth>,
    /// Rate limits of projects.
    pub limits: RateLimits,
    /// Accepts events and users.
    pub ingest: Ingest,
    /// User imports.
    pub imports: Imports,
    pub exports: Slots,
    /// The pages that links in messages lead to.
    pub links: Links,
    /// Live streams of inboxes.
    pub inbox_streams: InboxStreams,
    /// Permits to evaluate segments while a client waits.
    pub evaluations: Permits,
    /// Permits to render templates while a client waits.
    pub renderings: Permits,
    /// User searches with too many results to be counted again.
    pub large_searches: LargeSearches,
    /// `None` unless an AI provider is configured.
    pub ai: Option<Ai>,
    pub docs: Docs,
    pub readiness: Readiness,
    pub meters: Meters,
    /// Decides which requests are traced.
    pub sampler: Sampler,
    /// Set when the shutdown begins: requests in flight are completed, new ones are refused.
    pub draining: AtomicBool,
}
