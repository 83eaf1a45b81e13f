//! Validates the sending settings of a campaign: throttle, variants, winner, goal and recurrence.

use std::collections::HashSet;
use std::ops::Range;

use domain::campaign::{Goal, Metric, Recurrence, Settings, Variant, Winner};
use jiff::Timestamp;
use rules::time::Span;

use super::id;
use crate::http::fields::{Element, Fields, Text};

const LABEL: Text = Text::line(100);
const EVENT_NAME: Text = Text::line(200);
const WORDS: Text = Text::line(200);
const VARIANTS_MAX: usize = 10;
const THROTTLE_MAX: i64 = 10_000_000;
/// 30 days.
const AFTER_MINUTES_MAX: i64 = 43_200;
const METRICS: &[(&str, Metric)] =
    &[("opened", Metric::Opened), ("clicked", Metric::Clicked), ("converted", Metric::Converted)];

/// Applies the fields in the request to the settings. Null removes a setting.
pub(super) fn change(fields: &mut Fields<'_>, settings: &mut Settings, now: Timestamp) {
    if fields.is_null("throttlePerMinute") {
        settings.throttle_per_minute = None;
    }
    if let Some(throttle) = fields.integer("throttlePerMinute", 1..=THROTTLE_MAX) {
        settings.throttle_per_minute = Some(throttle);
    }
    fields.not_null(&["sendInUserTimezone"]);
    if let Some(theirs) = fields.boolean("sendInUserTimezone") {
        settings.send_in_user_timezone = theirs;
    }
    if fields.is_null("variants") {
        settings.variants.clear();
    }
    if let Some(elements) = fields.array("variants", 0..=VARIANTS_MAX) {
        settings.variants = variants(fields, &elements);
    }
    if fields.is_null("winner") {
        settings.winner = None;
    }
    if let Some(winner) = fields.object("winner") {
        settings.winner = read_winner(winner);
    }
    if fields.is_null("goal") {
        settings.goal = None;
    }
    if let Some(goal) = fields.object("goal") {
        settings.goal = Some(read_goal(goal));
    }
    if fields.is_null("recurrence") {
        settings.recurrence = None;
    }
    if let Some(recurrence) = fields.object("recurrence") {
        settings.recurrence = Some(read_recurrence(recurrence, now));
    }
    if settings.winner.is_some() && settings.variants.len() < 2 {
        fields.problem("winner", "needs at least two variants to choose from");
    }
    let Some(winner) = &settings.winner else { return };
    if settings.send_in_user_timezone {
        fields.problem(
            "winner",
            "cannot be combined with sendInUserTimezone: the send time would have passed for the remaining users",
        );
    }
    if winner.metric == Metric::Converted && settings.goal.is_none() {
        fields.problem("winner", "with the metric `converted` requires a `goal`");
    }
}

fn variants(fields: &Fields<'_>, elements: &[Element<'_>]) -> Vec<Variant> {
    let variants: Vec<Variant> = elements.iter().filter_map(variant).collect();
    if variants.len() < elements.len() {
        return variants;
    }
    let names: HashSet<&str> = variants.iter().map(|variant| variant.name.as_str()).collect();
    if names.len() < variants.len() {
        fields.problem("variants", "must have different names");
    }
    let sum: f64 = variants.iter().map(|variant| variant.weight).sum();
    if !variants.is_empty() && (sum - 100.0).abs() > 0.001 {
        fields.problem("variants", format!("must have weights that add up to 100; these add up to {sum}"));
    }
    variants
}

fn variant(element: &Element<'_>) -> Option<Variant> {
    let mut fields = element.object()?;
    let name = fields.required_text("name", &LABEL).to_owned();
    if fields.is_null("templateId") || !fields.has("templateId") {
        fields.problem("templateId", "is required");
    }
    let template_id = id(&mut fields, "templateId", "template");
    let weight = percent(&mut fields, "weight", 0.0..100.001);
    fields.done();
    Some(Variant { name, template_id: template_id?, weight: weight? }).filter(|variant| !variant.name.is_empty())
}

fn read_winner(mut fields: Fields<'_>) -> Option<Winner> {
    let metric = fields.required_choice("metric", METRICS);
    let test_share = percent(&mut fields, "testShare", 0.0..100.0);
    let after_minutes = fields.required_integer("afterMinutes", 1..=AFTER_MINUTES_MAX);
    fields.done();
    Some(Winner { metric: metric?, test_share: test_share?, after_minutes: after_minutes? })
}

/// Reads a number strictly between the bounds of `allowed`.
fn percent(fields: &mut Fields<'_>, name: &'static str, allowed: Range<f64>) -> Option<f64> {
    let Some(element) = fields.element(name).filter(|element| !element.value().is_null()) else {
        fields.problem(name, "is required");
        return None;
    };
    let found = element.value().as_f64().filter(|number| *number > allowed.start && *number < allowed.end);
    if found.is_none() {
        element.problem("must be a percentage above 0 and up to 100");
    }
    found
}

fn read_goal(mut fields: Fields<'_>) -> Goal {
    let event = fields.required_text("event", &EVENT_NAME).to_owned();
    let within = fields.required_text("within", &WORDS).to_owned();
    if !within.is_empty() && Span::parse(&within).is_none() {
        fields.problem("within", format!("must be {}", Span::ALLOWED));
    }
    fields.done();
    Goal { event, within }
}

fn read_recurrence(mut fields: Fields<'_>, now: Timestamp) -> Recurrence {
    let cron = fields.required_text("cron", &WORDS).to_owned();
    fields.not_null(&["timezone"]);
    let timezone = fields.text("timezone", &WORDS).unwrap_or("UTC").to_owned();
    let recurrence = Recurrence { cron, timezone };
    if !recurrence.cron.is_empty()
        && let Some((field, why)) = recurrence.problem(now)
    {
        fields.problem(field, why);
    }
    fields.done();
    recurrence
}
