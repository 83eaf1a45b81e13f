//! What an automation does: its trigger, re-entry and steps, as a version of it keeps them.
//!
//! A definition is stored as the API shows it, so that what a run follows reads like what was sent. It was checked
//! when it was saved; here it is only decoded.
//!
//! ```json
//! { "triggerType": "EVENT", "triggerEvent": "signed_up", "reentry": "after_exit",
//!   "steps": [ { "type": "WAIT", "delay": 5 }, { "type": "SEND_EMAIL", "templateId": "…" } ] }
//! ```

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use uuid::Uuid;

/// The longest wait, in seconds: 365 days.
pub const MAX_DELAY_SECS: f64 = 31_536_000.0;

/// One version of an automation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Definition {
    pub trigger_type: TriggerType,
    /// The name of the event that starts a run, or the kind of the webhook.
    #[serde(default)]
    pub trigger_event: Option<String>,
    #[serde(default)]
    pub reentry: Reentry,
    pub steps: Vec<Step>,
}

/// What starts a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum TriggerType {
    /// An event named in `triggerEvent` is recorded.
    Event,
    /// A webhook of the kind named in `triggerEvent` arrives that names a user.
    Webhook,
}

impl TriggerType {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Event => "EVENT",
            Self::Webhook => "WEBHOOK",
        }
    }
}

/// Whether a person may come in again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reentry {
    /// Never.
    Once,
    /// When no run of theirs is under way.
    #[default]
    AfterExit,
    /// At every trigger, also beside a run under way.
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

/// One step. A name is for people only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "SCREAMING_SNAKE_CASE", rename_all_fields = "camelCase")]
pub enum Step {
    SendEmail {
        template_id: Uuid,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    Wait {
        /// Seconds, 0 to [`MAX_DELAY_SECS`]; a fraction counts.
        #[serde(serialize_with = "number")]
        delay: f64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
}

impl Step {
    /// As the API writes the type.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::SendEmail { .. } => "SEND_EMAIL",
            Self::Wait { .. } => "WAIT",
        }
    }
}

/// A whole number leaves without a fraction, as it came.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn number<S: Serializer>(value: &f64, out: S) -> Result<S::Ok, S::Error> {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        out.serialize_i64(*value as i64)
    } else {
        out.serialize_f64(*value)
    }
}

impl Definition {
    /// Reads a stored definition; the error says what this program does not know.
    pub fn decode(stored: Value) -> Result<Self, String> {
        serde_json::from_value(stored).map_err(|e| e.to_string())
    }

    /// As it is stored.
    pub fn encode(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// The templates that it sends.
    pub fn template_ids(&self) -> impl Iterator<Item = Uuid> + '_ {
        self.steps.iter().filter_map(|step| match step {
            Step::SendEmail { template_id, .. } => Some(*template_id),
            Step::Wait { .. } => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_stored_definition_reads_back_as_it_was() {
        let stored = json!({
            "triggerType": "EVENT", "triggerEvent": "checkout_started", "reentry": "always",
            "steps": [
                { "type": "WAIT", "delay": 259_200, "name": "three days" },
                { "type": "WAIT", "delay": 0.5 },
                { "type": "SEND_EMAIL", "templateId": "00000000-0000-0000-0000-000000000007" },
            ],
        });
        let definition = Definition::decode(stored.clone()).unwrap();
        assert_eq!(definition.steps[1], Step::Wait { delay: 0.5, name: None });
        assert_eq!(definition.template_ids().collect::<Vec<_>>(), [Uuid::from_u128(7)]);
        assert_eq!(definition.encode(), stored);
    }

    #[test]
    fn what_is_left_out_has_its_default() {
        let stored = json!({ "triggerType": "EVENT", "triggerEvent": "a", "steps": [] });
        assert_eq!(Definition::decode(stored).unwrap().reentry, Reentry::AfterExit);
    }

    #[test]
    fn a_step_of_a_newer_program_is_named_in_the_error() {
        let stored = json!({ "triggerType": "EVENT", "steps": [{ "type": "TELEPORT" }] });
        assert!(Definition::decode(stored).unwrap_err().contains("TELEPORT"));
    }

    #[test]
    fn reentry_reads_back() {
        for reentry in Reentry::ALL {
            assert_eq!(Reentry::parse(reentry.as_str()), Some(reentry));
            assert_eq!(json!(reentry), reentry.as_str());
        }
        for trigger in [TriggerType::Event, TriggerType::Webhook] {
            assert_eq!(json!(trigger), trigger.as_str());
        }
    }
}
