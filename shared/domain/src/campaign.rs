//! What a campaign does: to whom, with what, when.
//!
//! Everything but its head is stored as the API shows it (`settings`); it was checked when it was saved, and is only
//! decoded here.

mod local_time;
mod recurrence;
mod winner;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

pub use local_time::LocalTimes;
pub use recurrence::Recurrence;
pub use winner::{DecidedBy, Score, Verdict};

/// How late a campaign may begin.
pub const LATE: SignedDuration = SignedDuration::from_hours(6);

/// How far a campaign has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CampaignStatus {
    /// Nobody has said when.
    Draft,
    /// Waits for its time.
    Scheduled,
    Sending,
    Paused,
    Completed,
    Cancelled,
    Failed,
}

impl CampaignStatus {
    pub const ALL: [Self; 7] =
        [Self::Draft, Self::Scheduled, Self::Sending, Self::Paused, Self::Completed, Self::Cancelled, Self::Failed];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Draft => "DRAFT",
            Self::Scheduled => "SCHEDULED",
            Self::Sending => "SENDING",
            Self::Paused => "PAUSED",
            Self::Completed => "COMPLETED",
            Self::Cancelled => "CANCELLED",
            Self::Failed => "FAILED",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }

    /// Whether more than the name may be changed.
    pub fn is_editable(self) -> bool {
        matches!(self, Self::Draft | Self::Scheduled | Self::Paused)
    }

    /// Whether its released messages are sent. A completed campaign can have failed messages that are tried again by hand.
    pub fn delivers(self) -> bool {
        matches!(self, Self::Scheduled | Self::Sending | Self::Completed)
    }

    /// Whether it may still send, so that what it goes by has to stay.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Draft | Self::Scheduled | Self::Sending | Self::Paused)
    }
}

/// How a campaign sends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Settings {
    /// Messages a minute at most.
    pub throttle_per_minute: Option<i64>,
    /// Whether everybody is sent to when their own clock shows what the project's shows at the campaign's time.
    pub send_in_user_timezone: bool,
    pub variants: Vec<Variant>,
    pub winner: Option<Winner>,
    pub goal: Option<Goal>,
    pub recurrence: Option<Recurrence>,
}

/// One of several templates that are tried on parts of the audience.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Variant {
    pub name: String,
    pub template_id: Uuid,
    /// Percent; those of all variants add up to 100.
    pub weight: f64,
}

/// How the best variant is found: on a part of the audience, of which the rest then gets it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Winner {
    pub metric: Metric,
    /// Percent of the audience.
    pub test_share: f64,
    pub after_minutes: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Metric {
    Opened,
    Clicked,
    Converted,
}

/// What counts as a conversion: an event within so long after the message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Goal {
    pub event: String,
    /// As in rules, for example `7d`.
    pub within: String,
}

impl Settings {
    /// Reads stored settings; the error says what this program does not know.
    pub fn decode(stored: Value) -> Result<Self, String> {
        serde_json::from_value(stored).map_err(|e| e.to_string())
    }

    /// Returns when the scheduler first checks a campaign that is due at this time: before it is due in the earliest timezone.
    pub fn first_check_at(&self, at: Timestamp) -> Timestamp {
        if self.send_in_user_timezone { at.checked_sub(local_time::SPREAD).unwrap_or(at) } else { at }
    }

    /// As they are stored.
    pub fn encode(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn stored_settings_read_back_as_they_were() {
        let stored = json!({
            "throttlePerMinute": 500, "sendInUserTimezone": true,
            "variants": [{"name": "A", "templateId": Uuid::nil(), "weight": 50.0}],
            "winner": {"metric": "clicked", "testShare": 20.0, "afterMinutes": 60},
            "goal": {"event": "order_completed", "within": "7d"},
            "recurrence": {"cron": "0 9 * * MON", "timezone": "Europe/Oslo"},
        });
        assert_eq!(Settings::decode(stored.clone()).unwrap().encode(), stored);
        assert_eq!(Settings::decode(json!({})).unwrap(), Settings::default());
    }

    #[test]
    fn names_read_back() {
        assert!(CampaignStatus::ALL.iter().all(|s| CampaignStatus::parse(s.as_str()) == Some(*s)));
        assert!(CampaignStatus::ALL.iter().all(|s| s.is_open() || !s.is_editable()));
    }
}
