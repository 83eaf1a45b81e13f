//! The log of a run: what happened at which step, when and why.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// One log entry of a run. Entries are stored in the order in which they happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogEntry {
    pub at: Timestamp,
    /// Path of the step; empty for entries about the run as a whole.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub step: String,
    pub did: LogAction,
    /// The arm taken: `then`, `else`, `branches[1]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arm: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// End of the wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The message created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<Uuid>,
}

/// What happened at a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogAction {
    /// A message was enqueued for delivery.
    Sent,
    /// A wait began.
    Waited,
    /// A call was enqueued, and the run waits for its outcome.
    Called,
    /// A wait ended at once because its time had already come.
    Passed,
    /// A wait ended.
    WentOn,
    /// An arm was taken.
    Took,
    /// A call was answered.
    Answered,
    Updated,
    Tracked,
    Started,
    /// The step was skipped; `why` gives the reason.
    Skipped,
    /// A call failed and the run continued, or rendering exceeded its limits and the run failed.
    Failed,
    /// The run exited.
    Exited,
    /// The goal was reached.
    Converted,
    /// The wait ended while the automation was inactive.
    Froze,
}

impl LogAction {
    pub const ALL: [Self; 15] = [
        Self::Sent,
        Self::Waited,
        Self::Called,
        Self::Passed,
        Self::WentOn,
        Self::Took,
        Self::Answered,
        Self::Updated,
        Self::Tracked,
        Self::Started,
        Self::Skipped,
        Self::Failed,
        Self::Exited,
        Self::Converted,
        Self::Froze,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Waited => "waited",
            Self::Called => "called",
            Self::Passed => "passed",
            Self::WentOn => "went_on",
            Self::Took => "took",
            Self::Answered => "answered",
            Self::Updated => "updated",
            Self::Tracked => "tracked",
            Self::Started => "started",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
            Self::Exited => "exited",
            Self::Converted => "converted",
            Self::Froze => "froze",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|did| did.as_str() == text)
    }
}

impl LogEntry {
    pub(super) fn new(at: Timestamp, step: &str, did: LogAction) -> Self {
        Self { at, step: step.to_owned(), did, arm: None, why: None, until: None, message_id: None }
    }

    #[must_use]
    pub(super) fn arm(self, arm: impl Into<String>) -> Self {
        Self { arm: Some(arm.into()), ..self }
    }

    #[must_use]
    pub(super) fn why(self, why: impl Into<String>) -> Self {
        Self { why: Some(why.into()), ..self }
    }
}
