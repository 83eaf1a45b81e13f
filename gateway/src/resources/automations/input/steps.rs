//! Validates the steps of an automation.

use automation::journey::Values;
use automation::{Action, Arm, MAX_DELAY_SECS, Share, Step, WebhookRequest};
use http::Uri;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::parts::{event_rules, given, property, required_seconds, seconds, time, user_rules};
use super::{EVENT_NAME, IDENTIFIER, NAME};
use crate::http::fields::{Element, Fields, Text};
use crate::ingest::properties;

/// Maximum number of steps, including nested ones.
const STEPS_MAX: usize = 100;
/// Maximum nesting depth of arms.
const NESTING_MAX: usize = 5;
/// Maximum number of arms per step.
const ARMS_MAX: usize = 20;
const WEIGHT_MAX: f64 = 1_000_000.0;
const URL: Text = Text::line(2_000);

const TYPES: [&str; 14] = [
    "SEND_EMAIL",
    "SEND_PUSH",
    "SEND_IN_APP",
    "SEND_SMS",
    "WAIT",
    "WAIT_UNTIL",
    "WAIT_FOR_EVENT",
    "BRANCH",
    "SPLIT",
    "UPDATE_USER",
    "TRACK_EVENT",
    "WEBHOOK",
    "START_AUTOMATION",
    "EXIT",
];

/// Reads `steps` and reports all problems found.
pub(super) fn steps(fields: &mut Fields<'_>) -> Option<Vec<Step>> {
    let elements = fields.array("steps", 0..=STEPS_MAX)?;
    let mut reader = Reader::default();
    let steps = reader.all(&elements, 0);
    if reader.steps > STEPS_MAX {
        fields.problem("steps", format!("must be at most {STEPS_MAX} steps, including nested ones"));
    }
    Some(steps)
}

#[derive(Default)]
struct Reader {
    steps: usize,
    /// Names of the steps whose result later steps may use.
    names: Vec<String>,
}

impl Reader {
    /// Reads steps nested within `depth` arms.
    fn all(&mut self, elements: &[Element<'_>], depth: usize) -> Vec<Step> {
        let mut steps = Vec::new();
        for element in elements {
            self.steps += 1;
            // One step over the limit is enough to report it.
            if self.steps > STEPS_MAX {
                break;
            }
            steps.extend(self.step(element, depth));
        }
        steps
    }

    fn step(&mut self, element: &Element<'_>, depth: usize) -> Option<Step> {
        let mut fields = element.object()?;
        let kind = fields.required_text("type", &IDENTIFIER);
        if !TYPES.contains(&kind) {
            if !kind.is_empty() {
                fields.problem("type", format!("is not a step type; use one of {}", TYPES.join(", ")));
            }
            return None;
        }
        let name = fields.text("name", &NAME).map(str::to_owned);
        if let Some(name) = name.as_ref().filter(|_| matches!(kind, "WEBHOOK" | "WAIT_FOR_EVENT")) {
            if self.names.contains(name) {
                fields.problem("name", "is already the name of another WEBHOOK or WAIT_FOR_EVENT step");
            }
            self.names.push(name.clone());
        }
        let action = self.action(kind, &mut fields, depth);
        fields.done();
        Some(Step { action: action?, name })
    }

    fn action(&mut self, kind: &str, fields: &mut Fields<'_>, depth: usize) -> Option<Action> {
        let wait = 0.0..=MAX_DELAY_SECS;
        Some(match kind {
            "SEND_EMAIL" | "SEND_PUSH" | "SEND_IN_APP" | "SEND_SMS" => send(kind, fields)?,
            "WAIT" => Action::Wait { delay: required_seconds(fields, "delay", wait)? },
            "WAIT_UNTIL" => wait_until(fields)?,
            "WAIT_FOR_EVENT" => {
                let event = fields.required_text("event", &EVENT_NAME).to_owned();
                let filter = given(fields, "where").and_then(event_rules);
                let timeout = required_seconds(fields, "timeout", 1.0..=MAX_DELAY_SECS);
                let (then, otherwise) = (self.arm(fields, "then", 0, depth), self.arm(fields, "else", 0, depth));
                Action::WaitForEvent { event, filter, timeout: timeout?, then, otherwise }
            }
            "BRANCH" => {
                let branches = self.branches(fields, |reader, arm| {
                    let rules = required(arm, "rules").and_then(user_rules);
                    let steps = reader.arm(arm, "steps", 1, depth);
                    Some(Arm { rules: rules?, steps })
                });
                Action::Branch { branches: branches?, otherwise: self.arm(fields, "else", 0, depth) }
            }
            "SPLIT" => {
                let branches = self.branches(fields, |reader, share| {
                    let weight = weight(share);
                    let steps = reader.arm(share, "steps", 1, depth);
                    Some(Share { weight: weight?, steps })
                });
                Action::Split { branches: branches? }
            }
            "UPDATE_USER" => {
                let properties = required(fields, "properties").and_then(|element| object(&element))?;
                Action::UpdateUser { properties }
            }
            "TRACK_EVENT" => {
                let event = fields.required_text("event", &EVENT_NAME).to_owned();
                let properties = given(fields, "properties").map(|element| object(&element));
                Action::TrackEvent { event, properties: properties.unwrap_or_else(|| Some(Map::new()))? }
            }
            "WEBHOOK" => {
                if fields.text("name", &NAME).is_none() && (!fields.has("name") || fields.is_null("name")) {
                    fields.problem("name", "is required: later steps read the response as `steps.<name>.response`");
                }
                let url = url(fields);
                let body = given(fields, "body").map(|element| templated(&element));
                Action::Webhook(WebhookRequest { url: url?, body: body.map_or(Some(None), |body| body.map(Some))? })
            }
            "START_AUTOMATION" => Action::StartAutomation { automation_id: id(fields, "automationId", "automation")? },
            _ => Action::Exit {},
        })
    }

    /// Reads `branches`, calling `read` for each arm.
    fn branches<T>(
        &mut self,
        fields: &mut Fields<'_>,
        read: impl Fn(&mut Self, &mut Fields<'_>) -> Option<T>,
    ) -> Option<Vec<T>> {
        let elements = required(fields, "branches")?.array(1..=ARMS_MAX)?;
        let mut arms = Vec::new();
        for element in &elements {
            let Some(mut fields) = element.object() else { continue };
            arms.extend(read(self, &mut fields));
            fields.done();
        }
        Some(arms)
    }

    /// Reads the steps of an arm; requires at least `min`.
    fn arm(&mut self, fields: &mut Fields<'_>, name: &'static str, min: usize, depth: usize) -> Vec<Step> {
        let element = if min > 0 { required(fields, name) } else { given(fields, name) };
        let elements = element.as_ref().and_then(|element| element.array(min..=STEPS_MAX));
        let Some(elements) = elements.filter(|elements| !elements.is_empty()) else { return Vec::new() };
        if depth == NESTING_MAX {
            fields.problem(name, format!("arms may be nested at most {NESTING_MAX} deep"));
            return Vec::new();
        }
        self.all(&elements, depth + 1)
    }
}

fn required<'a>(fields: &mut Fields<'a>, name: &'static str) -> Option<Element<'a>> {
    let element = given(fields, name);
    if element.is_none() {
        fields.problem(name, "is required");
    }
    element
}

fn send(kind: &str, fields: &mut Fields<'_>) -> Option<Action> {
    let template_id = id(fields, "templateId", "template");
    let subscription_group_id = given(fields, "subscriptionGroupId").map(|element| {
        let id = element.value().as_str().and_then(|text| Uuid::try_parse(text).ok());
        if id.is_none() {
            element.problem("no such subscription group in this project");
        }
        id
    });
    let (template_id, subscription_group_id) =
        (template_id?, subscription_group_id.map_or(Some(None), |id| id.map(Some))?);
    Some(match kind {
        "SEND_EMAIL" => Action::SendEmail { template_id, subscription_group_id },
        "SEND_PUSH" => Action::SendPush { template_id, subscription_group_id },
        "SEND_IN_APP" => Action::SendInApp { template_id, subscription_group_id },
        _ => Action::SendSms { template_id, subscription_group_id },
    })
}

/// Reads the ID of another resource. `references::check` checks later that it exists.
fn id(fields: &mut Fields<'_>, name: &'static str, what: &str) -> Option<Uuid> {
    let text = fields.required_text(name, &IDENTIFIER);
    let id = Uuid::try_parse(text).ok();
    if id.is_none() && !text.is_empty() {
        fields.problem(name, format!("no such {what} in this project"));
    }
    id
}

fn wait_until(fields: &mut Fields<'_>) -> Option<Action> {
    let (time, property) = (time(fields), property(fields, false));
    let offset = given(fields, "offset").map(|element| seconds(&element, -MAX_DELAY_SECS..=MAX_DELAY_SECS));
    if !fields.has("time") && !fields.has("property") {
        fields.problem("time", "is required, or `property`: `{ time: \"09:00\" }` or `{ property, offset }`");
        return None;
    }
    if offset.is_some() && !fields.has("property") {
        fields.problem("offset", "requires `property`, the date that it is relative to");
    }
    let offset = offset.map_or(Some(None), |offset| offset.map(Some))?;
    (time.is_some() || property.is_some()).then_some(Action::WaitUntil { time, property, offset })
}

fn weight(fields: &mut Fields<'_>) -> Option<f64> {
    let element = required(fields, "weight")?;
    let weight = element.value().as_f64().filter(|weight| *weight > 0.0 && *weight <= WEIGHT_MAX);
    if weight.is_none() {
        element.problem(format!("must be greater than 0 and at most {WEIGHT_MAX}"));
    }
    weight
}

fn url(fields: &mut Fields<'_>) -> Option<String> {
    let text = fields.required_text("url", &URL);
    let is_plain = |uri: &Uri| {
        matches!(uri.scheme_str(), Some("http" | "https"))
            && uri.authority().is_some_and(|a| !a.as_str().contains('@') && !a.host().is_empty())
    };
    let found = text.parse::<Uri>().ok().filter(is_plain);
    if found.is_none() && !text.is_empty() {
        fields.problem("url", "must be an http:// or https:// URL without credentials");
    }
    found.map(|_| text.to_owned())
}

/// Reads properties, whose strings may contain templates.
fn object(element: &Element<'_>) -> Option<Map<String, Value>> {
    if !element.value().is_object() {
        element.problem("must be an object");
        return None;
    }
    templated(element)?.as_object().cloned()
}

/// Reads JSON that the database can store and whose templates parse.
fn templated(element: &Element<'_>) -> Option<Value> {
    let value = element.value();
    let refused = match value {
        Value::Object(_) => properties::find_violation(&value.to_string()),
        other => properties::find_violation(&json!({ "body": other }).to_string()),
    };
    if let Some(why) = refused.or_else(|| Values::compile(value).err()) {
        element.problem(why);
        return None;
    }
    Some(value.clone())
}
