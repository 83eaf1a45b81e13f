//! The final state of a run as seen from outside: by the API, by SQL, and in the providers' own logs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

/// The state after all faults were healed and nothing was in flight any more.
#[derive(Clone, Debug, Default)]
pub struct FinalState {
    pub events: Vec<Event>,
    /// Number of events that the API counts, by shop and name.
    pub counts: BTreeMap<(usize, String), u64>,
    /// Properties, by shop and user.
    pub profiles: BTreeMap<(usize, String), Value>,
    /// By anonymous ID.
    pub merges: BTreeMap<String, Merge>,
    pub messages: Vec<Message>,
    /// How often a provider processed each message.
    pub copies: BTreeMap<Uuid, u32>,
    pub runs: Vec<Run>,
    pub campaigns: BTreeMap<Uuid, String>,
    /// The users whom every campaign must reach.
    pub audience: BTreeSet<Uuid>,
    /// Messages received by the second shop's mail server, and by the first shop's providers.
    pub by_smtp: BTreeSet<Uuid>,
    pub by_http: BTreeSet<Uuid>,
    /// Dead letters, by shop.
    pub dead_letters: BTreeSet<(usize, Uuid)>,
    /// Rows that reference two projects, by kind.
    pub cross_project_rows: BTreeMap<&'static str, i64>,
    /// Messages that were visible to another shop.
    pub visible_to_other_shop: Vec<Uuid>,
    /// Revoked keys that a gateway still accepts.
    pub accepted_revoked_keys: Vec<String>,
    pub limited: RateLimitWindow,
    /// Number of rows left where none should be.
    pub leftovers: BTreeMap<&'static str, i64>,
    /// Contradictions between the ledger and the delivery queue, by kind.
    pub queue_inconsistencies: BTreeMap<&'static str, i64>,
    /// Messages that a provider permanently rejected.
    pub rejected: BTreeSet<Uuid>,
    /// The database's clock jumped, by at most a few minutes at a time.
    pub clock_shifted: bool,
    /// Processes that ended by themselves, or did not end when stopped.
    pub unexpected_exits: Vec<String>,
}

/// What affects the number of requests that one project's rate limit admits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateLimitWindow {
    /// From the first request to the last.
    pub took: Duration,
    /// How often a bucket may have started full. The buckets of all gateways together count as one.
    pub bursts: u32,
}

/// A stored event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub shop: usize,
    pub name: String,
    /// The sender's ID of the event; `None` for events that a step tracked.
    pub reference: Option<String>,
}

/// The users to whom the two IDs of a merge lead, by the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merge {
    /// The external ID of the user found by the anonymous ID.
    pub leads_to: Option<String>,
    /// Number of events of the known user.
    pub events: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    Direct,
    Automation,
    Campaign,
}

/// A row of the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub id: Uuid,
    pub shop: usize,
    pub user: Uuid,
    pub lane: Lane,
    /// The provider deduplicates by key.
    pub keyed: bool,
    pub status: String,
    pub reason: String,
    /// Calls with an unknown outcome.
    pub ambiguous: u32,
    pub channel: String,
    pub run: Option<Uuid>,
    pub campaign: Option<Uuid>,
}

/// A user's run through the automation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    pub id: Uuid,
    /// Of the event that started it.
    pub trigger: String,
    pub status: String,
    pub trail: Vec<TrailEntry>,
}

/// The result of a step.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct TrailEntry {
    pub at: Timestamp,
    #[serde(default)]
    pub step: String,
    pub did: String,
    #[serde(default)]
    pub until: Option<Timestamp>,
}
