//! Campaigns: their status and settings.
//!
//! The settings are stored in the form of the API. They are validated when a campaign is saved; this module only
//! decodes them.

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

/// Longest delay with which a campaign may start, and longest interruption after which it continues by itself.
pub const MAX_START_DELAY: SignedDuration = SignedDuration::from_hours(6);

/// The status of a campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CampaignStatus {
    /// Not scheduled.
    Draft,
    /// Waits for its scheduled time.
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

    /// Returns whether more than the name may be changed.
    pub fn is_editable(self) -> bool {
        matches!(self, Self::Draft | Self::Scheduled | Self::Paused)
    }

    /// Returns whether its enqueued messages are sent. A completed campaign may have failed messages that are
    /// retried manually.
    pub fn delivers(self) -> bool {
        matches!(self, Self::Scheduled | Self::Sending | Self::Completed)
    }

    /// Returns whether it may still send, so that what it depends on must not be deleted.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Draft | Self::Scheduled | Self::Sending | Self::Paused)
    }
}

/// The settings of a campaign.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Settings {
    /// Maximum number of messages per minute.
    pub throttle_per_minute: Option<i64>,
    /// Whether each user receives the message at the campaign's local time in their own timezone.
    pub send_in_user_timezone: bool,
    pub variants: Vec<Variant>,
    pub winner: Option<Winner>,
    pub goal: Option<Goal>,
    pub recurrence: Option<Recurrence>,
}

/// One of several templates that are tested on parts of the audience.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Variant {
    pub name: String,
    pub template_id: Uuid,
    /// Percent; the weights of all variants add up to 100.
    pub weight: f64,
}

/// How the best variant is determined: by a test on a part of the audience. The rest then receives the winner.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Winner {
    pub metric: Metric,
    /// Percent of the audience that takes part in the test.
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

/// The conversion goal: an event within a time span after the message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Goal {
    pub event: String,
    /// A time span as in rules, for example `7d`.
    pub within: String,
}

impl Settings {
    /// Decodes stored settings. The error names the part that this version does not support.
    pub fn decode(stored: Value) -> Result<Self, String> {
        serde_json::from_value(stored).map_err(|e| e.to_string())
    }

    /// Returns when the scheduler first checks a campaign that is due at this time: for local times, before it is
    /// due in the earliest timezone.
    pub fn first_check_at(&self, at: Timestamp) -> Timestamp {
        if self.send_in_user_timezone { at.checked_sub(local_time::MAX_ZONE_SPREAD).unwrap_or(at) } else { at }
    }

    /// Encodes the settings for storage.
    pub fn encode(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn stored_settings_round_trip() {
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
    fn names_round_trip() {
        assert!(CampaignStatus::ALL.iter().all(|s| CampaignStatus::parse(s.as_str()) == Some(*s)));
        assert!(CampaignStatus::ALL.iter().all(|s| s.is_open() || !s.is_editable()));
    }
}
