//! Definitions of automations: the trigger, rules and steps of one version.
//!
//! A definition is stored in the form of the API. It is validated when it is saved; this crate only decodes it.
//! [`crate::journey::Program`] compiles it for execution.
//!
//! ```json
//! { "triggerType": "EVENT", "triggerEvent": "signed_up", "reentry": "after_exit",
//!   "steps": [ { "type": "WAIT", "delay": 5 }, { "type": "SEND_EMAIL", "templateId": "…" },
//!              { "type": "BRANCH", "branches": [ { "rules": [ … ], "steps": [ … ] } ], "else": [ … ] } ] }
//! ```

pub mod journey;
mod step;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

pub use step::{Action, Arm, Share, Step, WebhookRequest};

use domain::message::Channel;

/// Longest wait, in seconds: 365 days.
pub const MAX_DELAY_SECS: f64 = 31_536_000.0;
/// Default time after the start of a run within which its goal counts, in seconds: 30 days.
pub const GOAL_WITHIN_SECS: f64 = 2_592_000.0;

/// One version of an automation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Definition {
    pub trigger_type: TriggerType,
    /// Name of the event, or kind of the webhook, that starts a run.
    #[serde(default)]
    pub trigger_event: Option<String>,
    /// The segment whose users start a run when they enter it, or leave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger_segment_id: Option<Uuid>,
    /// Rules on the properties of the triggering event or webhook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger_filter: Option<Value>,
    /// The date property that starts a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger_date: Option<DateTrigger>,
    /// Entry conditions: rules on the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry_rules: Option<Value>,
    /// Exit conditions: rules on the user. A user who satisfies them exits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_rules: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<Goal>,
    #[serde(default)]
    pub reentry: Reentry,
    pub steps: Vec<Step>,
}

/// The trigger of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum TriggerType {
    /// An event named in `triggerEvent` is recorded.
    Event,
    /// A webhook arrives that is of the kind named in `triggerEvent` and names a user.
    Webhook,
    /// A date in the user's properties is reached.
    DateProperty,
    /// The user enters the segment named in `triggerSegmentId`.
    SegmentEnter,
    /// The user leaves the segment named in `triggerSegmentId`.
    SegmentExit,
}

impl TriggerType {
    pub const ALL: [Self; 5] = [Self::Event, Self::Webhook, Self::DateProperty, Self::SegmentEnter, Self::SegmentExit];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Event => "EVENT",
            Self::Webhook => "WEBHOOK",
            Self::DateProperty => "DATE_PROPERTY",
            Self::SegmentEnter => "SEGMENT_ENTER",
            Self::SegmentExit => "SEGMENT_EXIT",
        }
    }

    /// Returns whether entering or leaving a segment starts runs.
    pub fn is_of_segment(self) -> bool {
        matches!(self, Self::SegmentEnter | Self::SegmentExit)
    }
}

/// A date property of the user, and when a run starts relative to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DateTrigger {
    /// The property, for example `birthday` or `address.since`.
    pub property: String,
    /// Seconds after the date, or before it if negative. Whole days are calendar days.
    #[serde(default, serialize_with = "step::number")]
    pub offset: f64,
    /// Time of day in the user's timezone, for example `09:00`. Default: the property's own time, or midnight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    #[serde(default)]
    pub repeat: Repeat,
}

impl DateTrigger {
    /// Returns the top-level property, without the path within it.
    pub fn key(&self) -> &str {
        let path = self.property.strip_prefix("properties.").unwrap_or(&self.property);
        path.split('.').next().unwrap_or(path)
    }
}

/// How often a date recurs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Repeat {
    #[default]
    Once,
    Yearly,
}

/// The conversion goal of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Goal {
    pub event: String,
    /// Rules on the event's properties.
    #[serde(rename = "where", default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<Value>,
    /// Seconds after the start of the run.
    #[serde(default = "goal_within", serialize_with = "step::number")]
    pub within: f64,
}

fn goal_within() -> f64 {
    GOAL_WITHIN_SECS
}

/// Whether a user may enter again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reentry {
    /// Never.
    Once,
    /// If the user has no unfinished run.
    #[default]
    AfterExit,
    /// At every trigger, even while another run of the user is unfinished.
    Always,
}

impl Reentry {
    pub const ALL: [Self; 3] = [Self::Once, Self::AfterExit, Self::Always];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::AfterExit => "after_exit",
            Self::Always => "always",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|r| r.as_str() == text)
    }
}

impl Definition {
    /// Creates a definition without rules, goal, date or segment.
    pub fn new(trigger_type: TriggerType, trigger_event: Option<String>, reentry: Reentry, steps: Vec<Step>) -> Self {
        Self {
            trigger_type,
            trigger_event,
            trigger_segment_id: None,
            trigger_filter: None,
            trigger_date: None,
            entry_rules: None,
            exit_rules: None,
            goal: None,
            reentry,
            steps,
        }
    }

    /// Returns the date that starts runs, if the trigger is a date property.
    pub fn date(&self) -> Option<&DateTrigger> {
        self.trigger_date.as_ref().filter(|_| self.trigger_type == TriggerType::DateProperty)
    }

    /// Decodes a stored definition. The error names the part that this version does not support.
    pub fn decode(stored: Value) -> Result<Self, String> {
        serde_json::from_value(stored).map_err(|e| e.to_string())
    }

    /// Encodes the definition for storage.
    pub fn encode(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// Returns every step with its path, such as `steps[2].then[0]`, including the steps of arms.
    pub fn all_steps(&self) -> Vec<(String, &Step)> {
        let mut found = Vec::new();
        step::collect(&self.steps, "steps", &mut found);
        found
    }

    /// Returns the segment that triggers runs, if the trigger is a segment.
    pub fn followed_segment(&self) -> Option<Uuid> {
        self.trigger_segment_id.filter(|_| self.trigger_type.is_of_segment())
    }

    /// Returns the templates that it sends, each with the path and channel of its step.
    pub fn templates(&self) -> Vec<(String, Channel, Uuid)> {
        let sends = |(path, step): (String, &Step)| step.action.sends().map(|(channel, id)| (path, channel, id));
        self.all_steps().into_iter().filter_map(sends).collect()
    }

    /// Returns the subscription groups that it sends to, each with the path of its step.
    pub fn subscription_groups(&self) -> Vec<(String, Uuid)> {
        let groups = |(path, step): (String, &Step)| Some((path, step.action.subscription_group()?));
        self.all_steps().into_iter().filter_map(groups).collect()
    }

    /// Returns the automations that it starts, each with the path of its step.
    pub fn started_automations(&self) -> Vec<(String, Uuid)> {
        let starts = |(path, step): (String, &Step)| match step.action {
            Action::StartAutomation { automation_id } => Some((path, automation_id)),
            _ => None,
        };
        self.all_steps().into_iter().filter_map(starts).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn stored_definition_round_trips() {
        let mail = json!({ "type": "SEND_EMAIL", "templateId": "00000000-0000-0000-0000-000000000007" });
        let stored = json!({
            "triggerType": "EVENT", "triggerEvent": "checkout_started", "reentry": "always",
            "triggerFilter": [{ "field": "total", "operator": "gte", "value": 10 }],
            "goal": { "event": "bought", "within": 60 },
            "steps": [
                { "type": "WAIT", "delay": 259_200, "name": "three days" },
                { "type": "WAIT", "delay": 0.5 },
                { "type": "WAIT_UNTIL", "time": "09:00" },
                { "type": "WAIT_UNTIL", "property": "renewal", "offset": -86_400 },
                { "type": "WAIT_FOR_EVENT", "event": "bought", "timeout": 60, "then": [mail], "else": [{ "type": "EXIT" }] },
                { "type": "BRANCH", "branches": [{ "rules": [], "steps": [mail] }], "else": [] },
                { "type": "SPLIT", "branches": [{ "weight": 1, "steps": [mail] }, { "weight": 2.5, "steps": [mail] }] },
                { "type": "UPDATE_USER", "properties": { "a": 1 } },
                { "type": "TRACK_EVENT", "event": "x", "properties": {} },
                { "type": "WEBHOOK", "url": "https://example.com/", "name": "crm" },
                { "type": "START_AUTOMATION", "automationId": "00000000-0000-0000-0000-000000000008" },
            ],
        });
        let definition = Definition::decode(stored.clone()).unwrap();
        assert_eq!(definition.encode(), stored);
        let templates: Vec<String> = definition.templates().into_iter().map(|(path, ..)| path).collect();
        let expected = [
            "steps[4].then[0]",
            "steps[5].branches[0].steps[0]",
            "steps[6].branches[0].steps[0]",
            "steps[6].branches[1].steps[0]",
        ];
        assert_eq!(templates, expected);
        assert_eq!(definition.started_automations(), [("steps[10]".to_owned(), Uuid::from_u128(8))]);
    }

    #[test]
    fn omitted_fields_have_defaults() {
        let stored = json!({ "triggerType": "EVENT", "triggerEvent": "a", "steps": [], "goal": { "event": "b" } });
        let definition = Definition::decode(stored).unwrap();
        assert_eq!(definition.reentry, Reentry::AfterExit);
        assert_eq!(json!(definition.goal.unwrap()), json!({ "event": "b", "within": 2_592_000 }));
    }

    #[test]
    fn unknown_step_type_is_named_in_error() {
        let stored = json!({ "triggerType": "EVENT", "steps": [{ "type": "TELEPORT" }] });
        assert!(Definition::decode(stored).unwrap_err().contains("TELEPORT"));
    }

    #[test]
    fn reentry_round_trips() {
        for reentry in Reentry::ALL {
            assert_eq!(Reentry::parse(reentry.as_str()), Some(reentry));
            assert_eq!(json!(reentry), reentry.as_str());
        }
        for trigger in TriggerType::ALL {
            assert_eq!(json!(trigger), trigger.as_str());
        }
    }
}
