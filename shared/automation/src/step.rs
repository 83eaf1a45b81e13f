//! The steps of an automation, as the API shows them.

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};
use uuid::Uuid;

use domain::message::Channel;

/// One step. Its name is for people, and for what later steps call its outcome by (`steps.<name>`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    #[serde(flatten)]
    pub action: Action,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// What a step does. Times are in seconds, fractions count; rules are as in segments.
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
    /// Until a time of day, a date among the person's properties, or that date's time of day.
    WaitUntil {
        /// `09:00`, in the person's timezone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        time: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        property: Option<String>,
        /// After the property's date; before it where negative.
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
    /// The first arm whose rules hold of the person.
    Branch {
        branches: Vec<Arm>,
        #[serde(rename = "else", default)]
        otherwise: Vec<Step>,
    },
    /// One arm by chance.
    Split {
        branches: Vec<Share>,
    },
    /// Texts within may hold templates.
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

/// A call of somebody's service, whose JSON answer later steps see.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WebhookRequest {
    pub url: String,
    /// JSON whose texts may hold templates. Without it: the person, the trigger and the automation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
}

impl Action {
    /// As the API writes the type.
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

    /// The template that it sends, and by what.
    pub fn sends(&self) -> Option<(Channel, Uuid)> {
        match self {
            Self::SendEmail { template_id, .. } => Some((Channel::Email, *template_id)),
            Self::SendPush { template_id, .. } => Some((Channel::Push, *template_id)),
            Self::SendInApp { template_id, .. } => Some((Channel::InApp, *template_id)),
            Self::SendSms { template_id, .. } => Some((Channel::Sms, *template_id)),
            _ => None,
        }
    }

    /// The group whose subscribers alone it sends to.
    pub fn subscription_group(&self) -> Option<Uuid> {
        match self {
            Self::SendEmail { subscription_group_id, .. }
            | Self::SendPush { subscription_group_id, .. }
            | Self::SendInApp { subscription_group_id, .. }
            | Self::SendSms { subscription_group_id, .. } => *subscription_group_id,
            _ => None,
        }
    }

    /// Its arms: what stands between the step's place and a step's number (`.then`, `.branches[1].steps`), and their steps.
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

/// Steps with their places, each before those of its arms.
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

/// A whole number leaves without a fraction, as it came.
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
