//! What all requests share. What only some of them need is a part of its own, in the `state.rs` of what it is for.

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
use crate::resources::inbox::Inboxes;
use crate::resources::users::LargeSearches;

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
    pub clock: Clock,
    pub master_keys: MasterKeys,
    /// Letting requests in.
    pub auth: Arc<Auth>,
    /// How many requests a project may make.
    pub limits: RateLimits,
    /// Taking in what users do.
    pub ingest: Ingest,
    /// Importing people.
    pub imports: Imports,
    pub exports: Slots,
    /// The pages behind the links in messages.
    pub links: Links,
    /// Who follows which inbox.
    pub inboxes: Inboxes,
    /// For evaluating segments while a client waits.
    pub evaluations: Permits,
    /// For rendering texts while a client waits.
    pub renderings: Permits,
    /// Searches for people that found too many to be counted again.
    pub large_searches: LargeSearches,
    /// Where one is configured.
    pub ai: Option<Ai>,
    pub docs: Docs,
    pub readiness: Readiness,
    pub meters: Meters,
    /// Which requests are traced.
    pub sampler: Sampler,
    /// No longer ready: requests are only being finished.
    pub draining: AtomicBool,
}
