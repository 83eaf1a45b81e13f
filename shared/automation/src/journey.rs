//! A run's way through an automation. Pure: what happens to a run follows from its state, the input and what is known at
//! that moment alone, so that any order of restarts and repeats gives the same effects.
//!
//! A version of an automation is compiled once ([`Program`]): its nested steps, flattened, each with the one that follows.
//! Where a run stands is kept as the step's place in the version's definition (`steps[2].then[0]`), which never changes,
//! and not as a number of the compiled form: that may be another in the next release.

mod advance;
mod decisive;
mod listen;
mod mark;
mod person;
mod program;
mod until;
mod values;

#[cfg(test)]
mod tests;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

pub use advance::step;
pub use decisive::ANYTHING;
pub use listen::listens;
pub use mark::{Did, Mark};
pub use person::{Person, RunFacts, timezone_of};
pub use program::Program;
pub use until::{Coming, next_coming};
pub use values::Values;

use domain::message::Channel;
use kernel::clock::rfc3339;

/// A send that comes so long after the end of the wait before it is left out: its run stood still meanwhile.
pub const LATE: SignedDuration = SignedDuration::from_hours(24);
/// Automations that may start each other, one because of the other, within [`QUICK`] each.
pub const MOST_DEEP: i16 = 10;
/// A run that has lasted so long begins anew to count whom it starts.
pub const QUICK: SignedDuration = SignedDuration::from_hours(1);
/// When an answer is no longer waited for: long after the last try of the call.
pub const ANSWER_WITHIN: SignedDuration = SignedDuration::from_hours(2);

/// How a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunStatus {
    /// Until its timer, or what else it waits for.
    Waiting,
    /// Its wait ended while the automation was inactive.
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

/// What never changes about a run.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    pub id: Uuid,
    pub started_at: Timestamp,
    /// How many automations stand behind it, each having started the next.
    pub depth: i16,
    /// The trigger: `{id, name, properties, timestamp}`.
    pub trigger: &'a Value,
}

/// Where a run stands.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    pub status: RunStatus,
    /// The place of the step that it stands at; empty before the first and after the last.
    pub position: String,
    /// Waits begun so far.
    pub wait_seq: i32,
    pub due_at: Option<Timestamp>,
    pub reason: Option<String>,
    pub memory: Memory,
    /// When the goal was reached.
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

    /// When its timer is due.
    pub fn timer_at(&self) -> Option<Timestamp> {
        self.memory.looks_at.or(self.due_at)
    }
}

/// What a run keeps from its steps for later ones. Stored as JSON; only ever added to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// By the steps' names: `{response, status}` of a webhook, `{event}` of a wait for one.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub steps: Map<String, Value>,
    /// How the wait ended that ended while the automation was inactive; none: by its time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_by: Option<EndedBy>,
    /// When the exit rules are looked at next because time has passed, before the wait ends; none: when it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub looks_at: Option<Timestamp>,
}

/// What ended a wait before its time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndedBy {
    /// The event, as later steps see it.
    Event(Value),
    Answer(Answer),
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Of HTTP; none where no answer came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The JSON that was answered.
    #[serde(default)]
    pub response: Value,
    /// Why it counts as failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Answer {
    /// No answer, and why.
    pub fn failed(why: impl Into<String>) -> Self {
        Self { status: None, response: Value::Null, error: Some(why.into()) }
    }
}

/// An event of the run's person.
#[derive(Clone, Copy, Debug)]
pub struct Occurrence<'a> {
    pub id: Uuid,
    pub name: &'a str,
    pub properties: &'a Map<String, Value>,
    pub at: Timestamp,
}

impl Occurrence<'_> {
    /// As rules and later steps see it.
    pub fn shown(&self) -> Value {
        json!({ "id": self.id, "name": self.name, "properties": self.properties, "timestamp": rfc3339(self.at) })
    }
}

/// What a run meets.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// The trigger.
    Start,
    /// The end of the wait of that number or, before that, another look at the exit rules.
    Timer { wait_seq: i32 },
    /// The end of the call that the wait of that number waits for.
    Answer { wait_seq: i32, answer: &'a Answer },
    /// The person did something.
    Event(Occurrence<'a>),
    /// The person's profile is another.
    Changed,
}

/// What is known at the moment of a step. A step that changes the person changes it here, for those that follow.
#[derive(Clone, Debug)]
pub struct Situation {
    pub now: Timestamp,
    /// Whether the automation is active: if not, its runs stand still.
    pub active: bool,
    /// The project's, for people without their own.
    pub timezone: TimeZone,
    /// Loaded only where a step asks.
    pub person: Option<Person>,
}

/// The step cannot be decided without the person: load them and ask again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeedsPerson;

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    Send { channel: Channel, template_id: Uuid, subscription_group_id: Option<Uuid>, position: String },
    SetTimer { wait_seq: i32, due_at: Timestamp },
    UpdateUser { position: String, properties: Map<String, Value> },
    TrackEvent { position: String, depth: i16, name: String, properties: Map<String, Value> },
    Call { wait_seq: i32, position: String, name: String, url: String, body: Value },
    StartAutomation { position: String, depth: i16, automation_id: Uuid },
}

/// What came of an input.
#[derive(Clone, Debug, PartialEq)]
pub struct Moved {
    pub state: State,
    pub effects: Vec<Effect>,
    pub marks: Vec<Mark>,
}
