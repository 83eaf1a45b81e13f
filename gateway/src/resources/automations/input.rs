//! Validates automations in request bodies.

mod parts;
mod steps;

use automation::{Definition, Reentry, TriggerType};
use jiff::Timestamp;
use serde_json::{Map, Value};
use store_sending::automations::Automation;
use uuid::Uuid;

use crate::http::error::ApiError;
use crate::http::fields::{Fields, Text};
use parts::{date, event_rules, goal, segment_id, user_rules};

const NAME: Text = Text::line(200);
const EVENT_NAME: Text = Text::line(200);
/// A step type or an ID.
const IDENTIFIER: Text = Text::within(1, 100);
const READ_ONLY: &[&str] = &["id", "version", "createdAt", "updatedAt"];

const REENTRY: &[(&str, Reentry)] =
    &[("once", Reentry::Once), ("after_exit", Reentry::AfterExit), ("always", Reentry::Always)];
const TRIGGERS: &[(&str, TriggerType)] = &[
    ("EVENT", TriggerType::Event),
    ("WEBHOOK", TriggerType::Webhook),
    ("SEGMENT_ENTER", TriggerType::SegmentEnter),
    ("SEGMENT_EXIT", TriggerType::SegmentExit),
    ("DATE_PROPERTY", TriggerType::DateProperty),
];

/// Reads a new automation. `name`, `triggerType` and the trigger's own fields are required.
pub fn new_automation(body: &Map<String, Value>, id: Uuid, now: Timestamp) -> Result<Automation, ApiError> {
    let mut fields = Fields::of(body);
    fields.read_only(READ_ONLY);
    fields.not_null(&["active", "reentry", "steps"]);
    let name = fields.required_text("name", &NAME).to_owned();
    let mut definition = Definition::new(TriggerType::Event, None, Reentry::default(), Vec::new());
    if !fields.has("triggerType") {
        fields.problem("triggerType", "is required");
    }
    change(&mut fields, &mut definition);
    let active = fields.boolean("active").unwrap_or(false);
    fields.finish()?;
    Ok(Automation { id, name, active, version: 1, definition, created_at: now, updated_at: now })
}

/// Applies the fields in the request to an automation. Increments the version if anything but the name and `active`
/// changes.
pub fn changed_automation(
    body: &Map<String, Value>,
    current: Automation,
    now: Timestamp,
) -> Result<Automation, ApiError> {
    let mut fields = Fields::of(body);
    fields.read_only(READ_ONLY);
    fields.not_null(&["name", "active", "reentry", "steps"]);
    let mut automation = current.clone();
    if let Some(name) = fields.text("name", &NAME) {
        name.clone_into(&mut automation.name);
    }
    change(&mut fields, &mut automation.definition);
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

/// Applies the fields in the request to a definition. Null removes an optional part.
fn change(fields: &mut Fields<'_>, definition: &mut Definition) {
    if let Some(trigger_type) = fields.element("triggerType").and_then(|element| element.choice(TRIGGERS)) {
        definition.trigger_type = trigger_type;
    }
    if let Some(event) = fields.text("triggerEvent", &EVENT_NAME) {
        definition.trigger_event = Some(event.to_owned());
    }
    replace(fields, "triggerSegmentId", &mut definition.trigger_segment_id, |element| segment_id(&element));
    replace(fields, "triggerFilter", &mut definition.trigger_filter, event_rules);
    replace(fields, "triggerDate", &mut definition.trigger_date, |element| date(&element));
    replace(fields, "entryRules", &mut definition.entry_rules, user_rules);
    replace(fields, "exitRules", &mut definition.exit_rules, user_rules);
    replace(fields, "goal", &mut definition.goal, |element| goal(&element));
    if let Some(reentry) = fields.choice("reentry", REENTRY) {
        definition.reentry = reentry;
    }
    if let Some(steps) = steps::steps(fields) {
        definition.steps = steps;
    }
    let is_of_segment = definition.trigger_type.is_of_segment();
    if !is_of_segment {
        definition.trigger_segment_id = None;
        refuse(fields, &["triggerSegmentId"], "is allowed with the triggers `SEGMENT_ENTER` and `SEGMENT_EXIT` only");
    }
    if definition.trigger_type == TriggerType::DateProperty {
        (definition.trigger_event, definition.trigger_filter) = (None, None);
        refuse(
            fields,
            &["triggerEvent", "triggerFilter"],
            "is not allowed with the trigger `DATE_PROPERTY`; use `triggerDate`",
        );
        if definition.trigger_date.is_none() && !is_present(fields, "triggerDate") {
            fields.problem("triggerDate", "is required");
        }
        return;
    }
    definition.trigger_date = None;
    refuse(fields, &["triggerDate"], "is allowed with the trigger `DATE_PROPERTY` only");
    if is_of_segment {
        (definition.trigger_event, definition.trigger_filter) = (None, None);
        refuse(
            fields,
            &["triggerEvent", "triggerFilter"],
            "is not allowed with a segment trigger; use `triggerSegmentId`",
        );
        if definition.trigger_segment_id.is_none() && !is_present(fields, "triggerSegmentId") {
            fields.problem("triggerSegmentId", "is required");
        }
        return;
    }
    if definition.trigger_event.is_none() && !is_present(fields, "triggerEvent") {
        fields.problem("triggerEvent", "is required");
    } else {
        // Automations with a date or segment trigger return null here, and a client may send that back unchanged.
        fields.not_null(&["triggerEvent"]);
    }
}

/// Reports a problem for each of these fields that is present and not null.
fn refuse(fields: &mut Fields<'_>, names: &[&'static str], why: &str) {
    for name in names {
        if is_present(fields, name) {
            fields.problem(name, why);
        }
    }
}

/// Whether a field is present and not null.
fn is_present(fields: &mut Fields<'_>, name: &'static str) -> bool {
    fields.has(name) && !fields.is_null(name)
}

fn replace<'a, T>(
    fields: &mut Fields<'a>,
    name: &'static str,
    part: &mut Option<T>,
    read: impl FnOnce(crate::http::fields::Element<'a>) -> Option<T>,
) {
    let Some(element) = fields.element(name) else { return };
    *part = if element.value().is_null() { None } else { read(element) };
}

#[cfg(test)]
mod tests;
