//! Parts that several fields of automations share: rules, durations, goals and dates.

use std::ops::RangeInclusive;

use automation::{DateTrigger, GOAL_WITHIN_SECS, Goal, MAX_DELAY_SECS, Repeat};
use rules::{Rule, RuleProblem};
use serde_json::Value;

use uuid::Uuid;

use super::{EVENT_NAME, IDENTIFIER};
use crate::http::fields::{Element, Fields, Text};

const PROPERTY: Text = Text::line(300);
const REPEATS: &[(&str, Repeat)] = &[("once", Repeat::Once), ("yearly", Repeat::Yearly)];

type Parse = fn(&Value, &str) -> Result<Vec<Rule>, Vec<RuleProblem>>;

/// Validates rules on a user; returns them unchanged.
pub(super) fn user_rules(element: Element<'_>) -> Option<Value> {
    rules(&element, rules::parse)
}

/// Validates rules on an event's properties; returns them unchanged.
pub(super) fn event_rules(element: Element<'_>) -> Option<Value> {
    rules(&element, rules::parse_for_event)
}

fn rules(element: &Element<'_>, parse: Parse) -> Option<Value> {
    match parse(element.value(), element.path()) {
        Ok(_) => Some(element.value().clone()),
        Err(problems) => {
            for problem in problems {
                element.problem_at(problem.path, problem.message);
            }
            None
        }
    }
}

/// Returns a field that is present and not null.
pub(super) fn given<'a>(fields: &mut Fields<'a>, name: &'static str) -> Option<Element<'a>> {
    fields.element(name).filter(|element| !element.value().is_null())
}

/// Reads a duration in seconds: a number, or a text such as `3d`, `12h`, `15m`.
pub(super) fn seconds(element: &Element<'_>, allowed: RangeInclusive<f64>) -> Option<f64> {
    let seconds = match element.value() {
        Value::String(text) => span(text),
        value => value.as_f64(),
    };
    let seconds = seconds.filter(|seconds| allowed.contains(seconds));
    if seconds.is_none() {
        let (min, max) = (allowed.start(), allowed.end());
        element.problem(format!(
            "must be a number of seconds from {min} to {max}, or a duration such as `3d`, `12h`, `15m`"
        ));
    }
    seconds
}

fn span(text: &str) -> Option<f64> {
    let (sign, text) = text.strip_prefix('-').map_or((1.0, text), |rest| (-1.0, rest));
    rules::time::Span::parse(text).map(|span| sign * span.seconds() as f64)
}

pub(super) fn required_seconds(
    fields: &mut Fields<'_>,
    name: &'static str,
    allowed: RangeInclusive<f64>,
) -> Option<f64> {
    let Some(element) = given(fields, name) else {
        fields.problem(name, "is required");
        return None;
    };
    seconds(&element, allowed)
}

/// Reads `{ event, where?, within? }`.
pub(super) fn goal(element: &Element<'_>) -> Option<Goal> {
    let mut fields = element.object()?;
    let event = fields.required_text("event", &EVENT_NAME).to_owned();
    let filter = given(&mut fields, "where").and_then(event_rules);
    let within = given(&mut fields, "within").map(|element| seconds(&element, 1.0..=MAX_DELAY_SECS));
    fields.done();
    Some(Goal { event, filter, within: within.unwrap_or(Some(GOAL_WITHIN_SECS))? })
}

/// Reads a segment ID.
pub(super) fn segment_id(element: &Element<'_>) -> Option<Uuid> {
    let id = Uuid::try_parse(element.text(&IDENTIFIER)?).ok();
    if id.is_none() {
        element.problem("must be the ID of a segment");
    }
    id
}

/// Reads `{ property, offset?, time?, repeat? }`.
pub(super) fn date(element: &Element<'_>) -> Option<DateTrigger> {
    let mut fields = element.object()?;
    let property = property(&mut fields, true);
    let offset = given(&mut fields, "offset").map(|element| seconds(&element, -MAX_DELAY_SECS..=MAX_DELAY_SECS));
    let time = time(&mut fields);
    let repeat = fields.choice("repeat", REPEATS).unwrap_or_default();
    fields.done();
    Some(DateTrigger { property: property?, offset: offset.unwrap_or(Some(0.0))?, time, repeat })
}

/// Names that rules resolve to built-in user fields instead of properties, or to properties that are not dates.
const NON_DATE_FIELDS: [&str; 7] = ["id", "email", "name", "externalId", "anonymousId", "createdAt", "lastSeenAt"];

/// Reads the path of a property that may hold a date, such as `renewal` or `properties.contract.end`.
pub(super) fn property(fields: &mut Fields<'_>, is_required: bool) -> Option<String> {
    let text = if is_required {
        Some(fields.required_text("property", &PROPERTY)).filter(|text| !text.is_empty())
    } else {
        fields.text("property", &PROPERTY)
    }?;
    let keys = text.strip_prefix("properties.").unwrap_or(text);
    if keys.split('.').any(str::is_empty) {
        fields.problem("property", "must be a property name, or several joined by dots");
        return None;
    }
    if NON_DATE_FIELDS.contains(&text) {
        let own = format!(
            "must be a property that holds a date; `{text}` is a built-in field (a property with that name is `properties.{text}`)"
        );
        fields.problem("property", own);
        return None;
    }
    Some(text.to_owned())
}

/// Reads a time of day.
pub(super) fn time(fields: &mut Fields<'_>) -> Option<String> {
    let element = given(fields, "time")?;
    let text = element.value().as_str().filter(|text| rules::time::time_of_day(text).is_some());
    if text.is_none() {
        element.problem("must be a time of day such as `09:00`");
    }
    text.map(str::to_owned)
}
