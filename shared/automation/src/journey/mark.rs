//! The traces that a run leaves: what happened at which step, when and why.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// One thing that happened to a run, kept with it in the order of happening.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Mark {
    pub at: Timestamp,
    /// The step's place; empty for what concerns the run as a whole.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub step: String,
    pub did: Did,
    /// The arm that was taken: `then`, `else`, `branches[1]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arm: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Until when it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The message that was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<Uuid>,
}

/// What happened at a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Did {
    /// A message was handed to delivery.
    Sent,
    /// It began to wait.
    Waited,
    /// A call was made ready, whose end is waited for.
    Called,
    /// There was nothing to wait for.
    Passed,
    /// A wait was over.
    WentOn,
    /// An arm was taken.
    Took,
    /// A call was answered.
    Answered,
    Updated,
    Tracked,
    Started,
    /// Nothing was done, for a reason.
    Skipped,
    /// A call came to nothing; the run goes on.
    Failed,
    /// The run left.
    Exited,
    /// The goal was reached.
    Converted,
    /// The wait ended while the automation is inactive.
    Froze,
}

impl Did {
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

impl Mark {
    pub(super) fn new(at: Timestamp, step: &str, did: Did) -> Self {
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
