//! What may be saved as an automation.

use jiff::Timestamp;
use serde_json::{Map, Value};
use shared::automation::{Definition, MAX_DELAY_SECS, Reentry, Step, TriggerType};
use shared::store::automations::Automation;
use uuid::Uuid;

use crate::error::ApiError;
use crate::fields::{Element, Fields, Text};

const NAME: Text = Text::line(200);
const EVENT_NAME: Text = Text::line(200);
/// Of a step's type, or an id.
const WORD: Text = Text::within(1, 100);
const STEPS_MAX: usize = 100;
const READ_ONLY: &[&str] = &["id", "version", "createdAt", "updatedAt"];

const REENTRY: &[(&str, Reentry)] =
    &[("once", Reentry::Once), ("after_exit", Reentry::AfterExit), ("always", Reentry::Always)];
const TRIGGERS: &[(&str, TriggerType)] = &[("EVENT", TriggerType::Event), ("WEBHOOK", TriggerType::Webhook)];

/// Of the API, but not in this version.
const LATER_TRIGGERS: &[&str] = &["SEGMENT_ENTER", "SEGMENT_EXIT", "DATE_PROPERTY"];
const LATER_STEPS: &[&str] = &[
    "SEND_PUSH",
    "SEND_IN_APP",
    "SEND_SMS",
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
const LATER_FIELDS: &[&str] = &["triggerFilter", "entryRules", "exitRules", "goal"];
const STEP_TYPES: [&str; 2] = ["SEND_EMAIL", "WAIT"];

/// An automation as posted. `name`, `triggerType` and `triggerEvent` are required.
pub fn new_automation(body: &Map<String, Value>, id: Uuid, now: Timestamp) -> Result<Automation, ApiError> {
    let mut fields = Fields::of(body);
    fields.read_only(READ_ONLY);
    refuse_later(&mut fields);
    fields.not_null(&["active", "reentry", "steps"]);
    let name = fields.required_text("name", &NAME).to_owned();
    let trigger_type = trigger_type(&mut fields);
    if !fields.has("triggerType") {
        fields.problem("triggerType", "is required");
    }
    let definition = Definition {
        trigger_type: trigger_type.unwrap_or(TriggerType::Event),
        trigger_event: Some(fields.required_text("triggerEvent", &EVENT_NAME).to_owned()),
        reentry: fields.choice("reentry", REENTRY).unwrap_or_default(),
        steps: steps(&mut fields).unwrap_or_default(),
    };
    let active = fields.boolean("active").unwrap_or(false);
    fields.finish()?;
    Ok(Automation { id, name, active, version: 1, definition, created_at: now, updated_at: now })
}

/// An automation with the fields that were sent. A change of trigger, re-entry or steps makes the next version.
pub fn changed_automation(
    body: &Map<String, Value>,
    current: Automation,
    now: Timestamp,
) -> Result<Automation, ApiError> {
    let mut fields = Fields::of(body);
    fields.read_only(READ_ONLY);
    refuse_later(&mut fields);
    fields.not_null(&["name", "triggerEvent", "active", "reentry", "steps"]);
    let mut automation = current.clone();
    if let Some(name) = fields.text("name", &NAME) {
        name.clone_into(&mut automation.name);
    }
    if let Some(trigger_type) = trigger_type(&mut fields) {
        automation.definition.trigger_type = trigger_type;
    }
    if let Some(event) = fields.text("triggerEvent", &EVENT_NAME) {
        automation.definition.trigger_event = Some(event.to_owned());
    }
    if let Some(reentry) = fields.choice("reentry", REENTRY) {
        automation.definition.reentry = reentry;
    }
    if let Some(steps) = steps(&mut fields) {
        automation.definition.steps = steps;
    }
    if let Some(active) = fields.boolean("active") {
        automation.active = active;
    }
    fields.finish()?;
    if automation.definition != current.definition {
        automation.version += 1;
    }
    automation.updated_at = now;
    Ok(automation)
}

fn not_yet(what: &str, allowed: &[&str]) -> String {
    format!("{what} is not available in this version yet; available: {}", allowed.join(", "))
}

fn refuse_later(fields: &mut Fields<'_>) {
    for name in LATER_FIELDS {
        if fields.has(name) && !fields.is_null(name) {
            fields.problem(name, "is not available in this version yet");
        }
    }
}

fn trigger_type(fields: &mut Fields<'_>) -> Option<TriggerType> {
    let element = fields.element("triggerType")?;
    match element.value().as_str() {
        Some(text) if LATER_TRIGGERS.contains(&text) => {
            element.problem(not_yet(text, &["EVENT", "WEBHOOK"]));
            None
        }
        _ => element.choice(TRIGGERS),
    }
}

fn steps(fields: &mut Fields<'_>) -> Option<Vec<Step>> {
    Some(fields.array("steps", 0..=STEPS_MAX)?.iter().filter_map(step).collect())
}

fn step(element: &Element<'_>) -> Option<Step> {
    let mut fields = element.object()?;
    let kind = fields.required_text("type", &WORD);
    let step = match kind {
        "SEND_EMAIL" => {
            let (template_id, name) = (template_id(&mut fields), name(&mut fields));
            template_id.map(|template_id| Step::SendEmail { template_id, name })
        }
        "WAIT" => {
            let (delay, name) = (delay(&mut fields), name(&mut fields));
            delay.map(|delay| Step::Wait { delay, name })
        }
        // What else such a step may hold is not known here.
        later if LATER_STEPS.contains(&later) => {
            fields.problem("type", not_yet(later, &STEP_TYPES));
            return None;
        }
        "" => return None,
        _ => {
            let all: Vec<&str> = STEP_TYPES.iter().chain(LATER_STEPS).copied().collect();
            fields.problem("type", format!("is no step type; there are {}", all.join(", ")));
            return None;
        }
    };
    fields.done();
    step
}

fn name(fields: &mut Fields<'_>) -> Option<String> {
    fields.text("name", &NAME).map(str::to_owned)
}

fn template_id(fields: &mut Fields<'_>) -> Option<Uuid> {
    let text = fields.required_text("templateId", &WORD);
    let id = Uuid::try_parse(text).ok();
    if id.is_none() && !text.is_empty() {
        fields.problem("templateId", "no such template in this project");
    }
    id
}

/// Seconds, whole or with a fraction.
fn delay(fields: &mut Fields<'_>) -> Option<f64> {
    let Some(element) = fields.element("delay").filter(|e| !e.value().is_null()) else {
        fields.problem("delay", "is required");
        return None;
    };
    let seconds = element.value().as_f64().filter(|s| (0.0..=MAX_DELAY_SECS).contains(s));
    if seconds.is_none() {
        element.problem(format!("must be a number of seconds from 0 to {MAX_DELAY_SECS}"));
    }
    seconds
}

#[cfg(test)]
mod tests;
