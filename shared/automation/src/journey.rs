//! Execution of a run. Pure: the result depends only on the state, the input and the situation, so that restarts and
//! retries in any order have the same effects.
//!
//! [`Program`] is a compiled version of an automation: its nested steps, flattened, each with its successor. A run
//! stores its position as the path of a step in the definition (`steps[2].then[0]`), which never changes, and not
//! as an index into the compiled steps, which the next release may change.

mod advance;
mod exit_triggers;
mod program;
mod run_log;
mod subscriptions;
mod until;
mod user;
mod values;

#[cfg(test)]
mod tests;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

pub use advance::step;
pub use exit_triggers::ANY_CHANGE;
pub use program::Program;
pub use run_log::{LogAction, LogEntry};
pub use subscriptions::event_subscriptions;
pub use until::{DateOccurrence, next_occurrence};
pub use user::{RunFacts, RunUser, timezone_of};
pub use values::Values;

use domain::message::Channel;
use kernel::clock::rfc3339;

/// Sends are skipped when the preceding wait ended more than this long ago, because the run was paused meanwhile.
pub const MAX_SEND_LATENESS: SignedDuration = SignedDuration::from_hours(24);
/// Longest chain of automations that start each other, each within [`CHAIN_RESET_AFTER`].
pub const MAX_CHAIN_DEPTH: i16 = 10;
/// After this time since its start, a run counts the depth of the automations that it starts from 0 again.
pub const CHAIN_RESET_AFTER: SignedDuration = SignedDuration::from_hours(1);
/// Time to wait for the answer to a call, longer than all retries of the call take.
pub const CALL_RESULT_TIMEOUT: SignedDuration = SignedDuration::from_hours(2);

/// Status of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunStatus {
    /// Waits for its timer, an event or an answer.
    Waiting,
    /// Paused: its wait ended while the automation was inactive.
    Frozen,
    Completed,
    Exited,
    Failed,
}

impl RunStatus {
    pub const ALL: [Self; 5] = [Self::Waiting, Self::Frozen, Self::Completed, Self::Exited, Self::Failed];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Frozen => "frozen",
            Self::Completed => "completed",
            Self::Exited => "exited",
            Self::Failed => "failed",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.as_str() == text)
    }

    pub fn has_ended(self) -> bool {
        matches!(self, Self::Completed | Self::Exited | Self::Failed)
    }
}

/// The immutable facts of a run.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    pub id: Uuid,
    pub started_at: Timestamp,
    /// Length of the chain of automations that led to this run, each started by the one before.
    pub depth: i16,
    /// The trigger: `{id, name, properties, timestamp}`.
    pub trigger: &'a Value,
}

/// The mutable state of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    pub status: RunStatus,
    /// Path of the current step; empty before the first step and after the last.
    pub position: String,
    /// Number of waits begun so far.
    pub wait_seq: i32,
    pub due_at: Option<Timestamp>,
    pub reason: Option<String>,
    pub memory: Memory,
    /// When the run reached its goal.
    pub converted_at: Option<Timestamp>,
}

impl State {
    pub fn at_start() -> Self {
        Self {
            status: RunStatus::Waiting,
            position: String::new(),
            wait_seq: 0,
            due_at: None,
            reason: None,
            memory: Memory::default(),
            converted_at: None,
        }
    }

    /// Returns when the timer is due: the next check of the exit rules, or the end of the wait.
    pub fn timer_at(&self) -> Option<Timestamp> {
        self.memory.next_check_at.or(self.due_at)
    }
}

/// Results of steps that later steps use. Stored as JSON; fields may be added, never removed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// By step name: `{response, status}` of a webhook, `{event}` of a wait for an event.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub steps: Map<String, Value>,
    /// What ended the wait while the automation was inactive; `None` if it timed out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_by: Option<EndedBy>,
    /// When the exit rules are next checked before the wait ends; `None` if only at its end.
    #[serde(rename = "looks_at", default, skip_serializing_if = "Option::is_none")]
    pub next_check_at: Option<Timestamp>,
}

/// What ended a wait before its timeout.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndedBy {
    /// The event, in the form that later steps see.
    Event(Value),
    #[serde(rename = "answer")]
    CallOutcome(CallOutcome),
}

/// Outcome of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallOutcome {
    /// HTTP status; `None` if there was no response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The JSON response.
    #[serde(default)]
    pub response: Value,
    /// Why the call counts as failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl CallOutcome {
    /// Creates the outcome of a call without a response.
    pub fn failed(why: impl Into<String>) -> Self {
        Self { status: None, response: Value::Null, error: Some(why.into()) }
    }
}

/// An event of the run's user.
#[derive(Clone, Copy, Debug)]
pub struct Occurrence<'a> {
    pub id: Uuid,
    pub name: &'a str,
    pub properties: &'a Map<String, Value>,
    pub at: Timestamp,
}

impl Occurrence<'_> {
    /// Returns the event in the form that rules and later steps see.
    pub fn shown(&self) -> Value {
        json!({ "id": self.id, "name": self.name, "properties": self.properties, "timestamp": rfc3339(self.at) })
    }
}

/// An input of a run.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// The trigger.
    Start,
    /// The end of the wait with this number or, before that, the next check of the exit rules.
    Timer { wait_seq: i32 },
    /// The outcome of the call that the wait with this number waits for.
    CallOutcome { wait_seq: i32, outcome: &'a CallOutcome },
    /// An event of the user was recorded.
    Event(Occurrence<'a>),
    /// The user's profile changed.
    ProfileChanged,
}

/// The circumstances of an input. A step that changes the user updates them here for the steps that follow.
#[derive(Clone, Debug)]
pub struct Situation {
    pub now: Timestamp,
    /// Whether the automation is active. Runs of an inactive automation are paused.
    pub active: bool,
    /// The project's timezone, for users without their own.
    pub timezone: TimeZone,
    /// The user, loaded only if a step needs them.
    pub user: Option<RunUser>,
}

/// The input cannot be processed without the user: load them and call again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserRequired;

/// A side effect that the caller must carry out.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    Send { channel: Channel, template_id: Uuid, subscription_group_id: Option<Uuid>, position: String },
    SetTimer { wait_seq: i32, due_at: Timestamp },
    UpdateUser { position: String, properties: Map<String, Value> },
    TrackEvent { position: String, depth: i16, name: String, properties: Map<String, Value> },
    Call { wait_seq: i32, position: String, name: String, url: String, body: Value },
    StartAutomation { position: String, depth: i16, automation_id: Uuid },
}

/// The result of an input.
#[derive(Clone, Debug, PartialEq)]
pub struct Transition {
    pub state: State,
    pub effects: Vec<Effect>,
    pub log: Vec<LogEntry>,
}
