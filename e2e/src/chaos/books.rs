//! What is there in the end, as it is seen from outside: by the API, by SQL, and in the providers' own logs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

/// What was found once all was healed and nothing was under way any more.
#[derive(Clone, Debug, Default)]
pub struct Found {
    pub events: Vec<Event>,
    /// How many events of each name the API counts, by shop and name.
    pub counts: BTreeMap<(usize, String), u64>,
    /// Properties, by shop and person.
    pub profiles: BTreeMap<(usize, String), Value>,
    /// By anonymous id.
    pub merges: BTreeMap<String, Merge>,
    pub messages: Vec<Message>,
    /// How often a provider acted upon each message.
    pub copies: BTreeMap<Uuid, u32>,
    pub runs: Vec<Run>,
    pub campaigns: BTreeMap<Uuid, String>,
    /// The people whom every campaign is to reach.
    pub audience: BTreeSet<Uuid>,
    /// Which messages the second shop's mail server has seen, and which the first one's providers.
    pub by_smtp: BTreeSet<Uuid>,
    pub by_http: BTreeSet<Uuid>,
    /// The items that were put aside, by shop.
    pub aside: BTreeSet<(usize, Uuid)>,
    /// Rows that belong to two projects, by kind.
    pub astray: BTreeMap<&'static str, i64>,
    /// Messages that were shown to another shop.
    pub shown_to_others: Vec<Uuid>,
    /// Revoked keys that a gateway still takes.
    pub open_keys: Vec<String>,
    pub limited: Limited,
    /// How much is still left where nothing should be.
    pub leftovers: BTreeMap<&'static str, i64>,
    /// Contradictions between the ledger and the delivery queue, by kind.
    pub misqueued: BTreeMap<&'static str, i64>,
    /// What a provider refused for good.
    pub refused: BTreeSet<Uuid>,
    /// The database's clock jumped, by no more than a few minutes at a time.
    pub clock_moved: bool,
    /// Processes that ended by themselves, or would not end.
    pub deaths: Vec<String>,
}

/// What bears upon how much one project's limit lets in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limited {
    /// From the first request to the last.
    pub took: Duration,
    /// How often there was reason to begin with a full bucket: those of each gateway together count as one.
    pub bursts: u32,
}

/// An event as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub shop: usize,
    pub name: String,
    /// As its sender called it; none of what a step tracked.
    pub reference: Option<String>,
}

/// Whom the two ids of a merge lead to, by the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merge {
    /// The external id of the person who is found under the anonymous one.
    pub leads_to: Option<String>,
    /// Events of the known person.
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
    /// Its provider knows repeats by their keys.
    pub keyed: bool,
    pub status: String,
    pub reason: String,
    /// Calls of which the outcome was never learned.
    pub ambiguous: u32,
    pub channel: String,
    pub run: Option<Uuid>,
    pub campaign: Option<Uuid>,
}

/// Somebody's way through the automation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    pub id: Uuid,
    /// Of the event that started it.
    pub trigger: String,
    pub status: String,
    pub trail: Vec<Mark>,
}

/// What happened at a step.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Mark {
    pub at: Timestamp,
    #[serde(default)]
    pub step: String,
    pub did: String,
    #[serde(default)]
    pub until: Option<Timestamp>,
}
