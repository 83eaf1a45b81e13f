//! Validates segments in request bodies.

use jiff::Timestamp;
use rules::Rule;
use serde_json::{Map, Value, json};
use store_profiles::segments::{Segment, SegmentType};
use uuid::Uuid;

use crate::http::error::ApiError;
use crate::http::fields::{Fields, Text};

const NAME: Text = Text::line(200);
const DESCRIPTION: Text = Text::any(2_000);
const TYPES: &[(&str, SegmentType)] = &[("RULES", SegmentType::Rules), ("MANUAL", SegmentType::Manual)];
const READ_ONLY: &[&str] = &["id", "userCount", "userCountError", "membership", "createdAt", "updatedAt"];
const SAMPLE_MAX: i64 = 100;

/// Reads a new segment. `name` is required. The type defaults to `MANUAL` without `rules`.
pub fn new_segment(body: &Map<String, Value>, id: Uuid, now: Timestamp) -> Result<Segment, ApiError> {
    let mut fields = Fields::of(body);
    fields.read_only(READ_ONLY);
    fields.not_null(&["type"]);
    let name = fields.required_text("name", &NAME).to_owned();
    let description = fields.text("description", &DESCRIPTION).unwrap_or_default().to_owned();
    let rules = rules(&mut fields);
    let by_default = if rules.is_some() { SegmentType::Rules } else { SegmentType::Manual };
    let segment_type = fields.choice("type", TYPES).unwrap_or(by_default);
    let rules = rules.unwrap_or_else(|| json!([]));
    check_list(&fields, segment_type, &rules);
    fields.finish()?;
    Ok(Segment { id, name, description, segment_type, rules, created_at: now, updated_at: now })
}

/// Applies the fields in the request to a segment.
pub fn changed_segment(body: &Map<String, Value>, current: Segment, now: Timestamp) -> Result<Segment, ApiError> {
    let mut fields = Fields::of(body);
    fields.read_only(READ_ONLY);
    let mut segment = current.clone();
    fields.not_null(&["name", "type"]);
    if let Some(name) = fields.text("name", &NAME) {
        name.clone_into(&mut segment.name);
    }
    if let Some(description) = fields.text("description", &DESCRIPTION) {
        description.clone_into(&mut segment.description);
    }
    if fields.is_null("description") {
        segment.description.clear();
    }
    if fields.choice("type", TYPES).is_some_and(|found| found != current.segment_type) {
        fields.problem("type", "cannot be changed; create another segment");
    }
    if let Some(rules) = rules(&mut fields) {
        segment.rules = rules;
        check_list(&fields, segment.segment_type, &segment.rules);
    }
    fields.finish()?;
    segment.updated_at = now;
    Ok(segment)
}

/// Reads the rules to evaluate, and the number of users to return as a sample.
pub fn estimate(body: &Map<String, Value>) -> Result<(Vec<Rule>, i64), ApiError> {
    let mut fields = Fields::of(body);
    let rules = rules(&mut fields);
    if rules.is_none() && !fields.has("rules") {
        fields.problem("rules", "is required");
    }
    fields.not_null(&["sample"]);
    let sample = fields.integer("sample", 0..=SAMPLE_MAX).unwrap_or(0);
    fields.finish()?;
    let rules = rules.unwrap_or_else(|| json!([]));
    let parsed =
        rules::parse(&rules, "rules").map_err(|_| ApiError::Internal("rules failed to parse again".to_owned()))?;
    Ok((parsed, sample))
}

/// Validates the rules in the request and returns them unchanged, if present.
fn rules(fields: &mut Fields<'_>) -> Option<Value> {
    let rules = fields.element("rules")?.value();
    match rules::parse(rules, "rules") {
        Ok(_) => Some(rules.clone()),
        Err(problems) => {
            for problem in problems {
                fields.problem(&problem.path, problem.message);
            }
            None
        }
    }
}

fn check_list(fields: &Fields<'_>, segment_type: SegmentType, rules: &Value) {
    if segment_type == SegmentType::Manual && rules.as_array().is_some_and(|rules| !rules.is_empty()) {
        fields.problem("rules", "must be empty: the members of a MANUAL segment are added explicitly");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn new(value: Value) -> Result<Segment, Vec<String>> {
        new_segment(value.as_object().unwrap(), Uuid::nil(), NOW).map_err(|e| named(&e))
    }

    fn named(error: &ApiError) -> Vec<String> {
        error.details().iter().map(|p| p.field.clone()).collect()
    }

    fn rule() -> Value {
        json!({"field": "plan", "operator": "eq", "value": "pro"})
    }

    #[test]
    fn segment_without_rules_is_manual() {
        assert_eq!(new(json!({"name": "n"})).unwrap().segment_type, SegmentType::Manual);
        assert_eq!(new(json!({"name": "n", "rules": []})).unwrap().segment_type, SegmentType::Rules);
        assert_eq!(new(json!({"name": "n", "rules": [], "type": "MANUAL"})).unwrap().segment_type, SegmentType::Manual);
        let segment = new(json!({"name": "n", "rules": [rule()], "description": "d"})).unwrap();
        assert_eq!((segment.rules, segment.description.as_str()), (json!([rule()]), "d"));
    }

    #[test]
    fn invalid_fields_are_reported() {
        for (value, field) in [
            (json!({"name": ""}), "name"),
            (json!({"name": 5}), "name"),
            (json!({"description": 5}), "description"),
            (json!({"rules": null}), "rules"),
            (json!({"rules": [rule(), {"any": [{"field": "a", "operator": "eq"}]}]}), "rules[1].any[0].value"),
            (json!({"type": "RULE"}), "type"),
            (json!({"type": "MANUAL", "rules": [rule()]}), "rules"),
            (json!({"rule": []}), "rule"),
        ] {
            let mut whole = json!({"name": "n"});
            whole.as_object_mut().unwrap().extend(value.as_object().unwrap().clone());
            assert_eq!(new(whole).unwrap_err(), [field], "{value}");
        }
        assert_eq!(new(json!({})).unwrap_err(), ["name"]);
    }

    #[test]
    fn put_accepts_the_representation_and_keeps_the_type() {
        let list = new(json!({"name": "n", "description": "d"})).unwrap();
        let change =
            |value: Value| changed_segment(value.as_object().unwrap(), list.clone(), NOW).map_err(|e| named(&e));
        let read = json!({"id": "x", "name": "n", "type": "MANUAL", "rules": [], "userCount": 3, "createdAt": "", "updatedAt": ""});
        assert_eq!(change(read).unwrap(), list);
        assert_eq!(change(json!({"description": null})).unwrap().description, "");
        assert_eq!(change(json!({"type": "RULES"})).unwrap_err(), ["type"]);
        for name in ["name", "type", "rules"] {
            assert_eq!(change(json!({name: null})).unwrap_err(), [name]);
        }
        assert_eq!(change(json!({"rules": [rule()]})).unwrap_err(), ["rules"]);
    }

    #[test]
    fn estimate_requires_rules() {
        let tried = |value: Value| estimate(value.as_object().unwrap()).map_err(|e| named(&e));
        assert_eq!(tried(json!({"rules": []})).unwrap(), (Vec::new(), 0));
        assert_eq!(tried(json!({"rules": [rule()], "sample": 5})).unwrap().1, 5);
        assert_eq!(tried(json!({})).unwrap_err(), ["rules"]);
        assert_eq!(tried(json!({"rules": [7], "sample": 101})).unwrap_err(), ["rules[0]", "sample"]);
    }
}
