//! The steps of an automation, in the form of the API.

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};
use uuid::Uuid;

use domain::message::Channel;

/// One step. Its name is shown to operators, and later steps refer to its result by it (`steps.<name>`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    #[serde(flatten)]
    pub action: Action,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// The action of a step. Durations are in seconds and may have fractions; rules have the form of segment rules.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "SCREAMING_SNAKE_CASE", rename_all_fields = "camelCase")]
pub enum Action {
    SendEmail {
        template_id: Uuid,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        subscription_group_id: Option<Uuid>,
    },
    SendPush {
        template_id: Uuid,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        subscription_group_id: Option<Uuid>,
    },
    SendInApp {
        template_id: Uuid,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        subscription_group_id: Option<Uuid>,
    },
    SendSms {
        template_id: Uuid,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        subscription_group_id: Option<Uuid>,
    },
    Wait {
        /// 0 to [`super::MAX_DELAY_SECS`].
        #[serde(serialize_with = "number")]
        delay: f64,
    },
    /// Waits until a time of day, a date property of the user, or a time of day on that date.
    WaitUntil {
        /// Time of day in the user's timezone, for example `09:00`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        time: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        property: Option<String>,
        /// Seconds after the property's date, or before it if negative.
        #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "maybe_number")]
        offset: Option<f64>,
    },
    WaitForEvent {
        event: String,
        /// Rules on the event's properties.
        #[serde(rename = "where", default, skip_serializing_if = "Option::is_none")]
        filter: Option<Value>,
        #[serde(serialize_with = "number")]
        timeout: f64,
        #[serde(default)]
        then: Vec<Step>,
        #[serde(rename = "else", default)]
        otherwise: Vec<Step>,
    },
    /// Takes the first arm whose rules hold for the user.
    Branch {
        branches: Vec<Arm>,
        #[serde(rename = "else", default)]
        otherwise: Vec<Step>,
    },
    /// Takes one arm, chosen by weight and by a hash of the run's ID.
    Split {
        branches: Vec<Share>,
    },
    /// Strings within `properties` may contain templates.
    UpdateUser {
        properties: Map<String, Value>,
    },
    TrackEvent {
        event: String,
        #[serde(default)]
        properties: Map<String, Value>,
    },
    Webhook(WebhookRequest),
    StartAutomation {
        automation_id: Uuid,
    },
    Exit {},
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Arm {
    pub rules: Value,
    pub steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Share {
    #[serde(serialize_with = "number")]
    pub weight: f64,
    pub steps: Vec<Step>,
}

/// An HTTP call to an external service. Later steps can read its JSON response.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WebhookRequest {
    pub url: String,
    /// JSON whose strings may contain templates. Default: the step's name, the run's ID, the user, the trigger and the
    /// results of earlier steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
}

impl Action {
    /// Returns the API name of the type.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::SendEmail { .. } => "SEND_EMAIL",
            Self::SendPush { .. } => "SEND_PUSH",
            Self::SendInApp { .. } => "SEND_IN_APP",
            Self::SendSms { .. } => "SEND_SMS",
            Self::Wait { .. } => "WAIT",
            Self::WaitUntil { .. } => "WAIT_UNTIL",
            Self::WaitForEvent { .. } => "WAIT_FOR_EVENT",
            Self::Branch { .. } => "BRANCH",
            Self::Split { .. } => "SPLIT",
            Self::UpdateUser { .. } => "UPDATE_USER",
            Self::TrackEvent { .. } => "TRACK_EVENT",
            Self::Webhook(_) => "WEBHOOK",
            Self::StartAutomation { .. } => "START_AUTOMATION",
            Self::Exit {} => "EXIT",
        }
    }

    /// Returns the channel and the template of a send step.
    pub fn sends(&self) -> Option<(Channel, Uuid)> {
        match self {
            Self::SendEmail { template_id, .. } => Some((Channel::Email, *template_id)),
            Self::SendPush { template_id, .. } => Some((Channel::Push, *template_id)),
            Self::SendInApp { template_id, .. } => Some((Channel::InApp, *template_id)),
            Self::SendSms { template_id, .. } => Some((Channel::Sms, *template_id)),
            _ => None,
        }
    }

    /// Returns the subscription group to which a send step is restricted.
    pub fn subscription_group(&self) -> Option<Uuid> {
        match self {
            Self::SendEmail { subscription_group_id, .. }
            | Self::SendPush { subscription_group_id, .. }
            | Self::SendInApp { subscription_group_id, .. }
            | Self::SendSms { subscription_group_id, .. } => *subscription_group_id,
            _ => None,
        }
    }

    /// Returns the arms, each with its path relative to the step (`.then`, `.branches[1].steps`).
    pub fn arms(&self) -> Vec<(String, &[Step])> {
        let branch = |i: usize| format!(".branches[{i}].steps");
        match self {
            Self::WaitForEvent { then, otherwise, .. } => {
                vec![(".then".to_owned(), then), (".else".to_owned(), otherwise)]
            }
            Self::Branch { branches, otherwise } => {
                let arms = branches.iter().enumerate().map(|(i, arm)| (branch(i), arm.steps.as_slice()));
                arms.chain([(".else".to_owned(), otherwise.as_slice())]).collect()
            }
            Self::Split { branches } => {
                branches.iter().enumerate().map(|(i, share)| (branch(i), share.steps.as_slice())).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Appends steps and their paths to `found`, each step before those of its arms.
pub(super) fn collect<'a>(steps: &'a [Step], path: &str, found: &mut Vec<(String, &'a Step)>) {
    for (i, step) in steps.iter().enumerate() {
        let path = format!("{path}[{i}]");
        let arms = step.action.arms();
        found.push((path.clone(), step));
        for (arm, steps) in arms {
            collect(steps, &format!("{path}{arm}"), found);
        }
    }
}

/// Serializes a whole number without a fraction, as the client sent it.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
pub(super) fn number<S: Serializer>(value: &f64, out: S) -> Result<S::Ok, S::Error> {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        out.serialize_i64(*value as i64)
    } else {
        out.serialize_f64(*value)
    }
}

#[expect(clippy::ref_option, reason = "the signature that serde calls")]
fn maybe_number<S: Serializer>(value: &Option<f64>, out: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => number(value, out),
        None => out.serialize_none(),
    }
}
