//! Validates projects in request bodies.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use kernel::ids::ProjectId;
use serde_json::{Map, Value};
use store_projects::projects::Project;

use crate::http::error::ApiError;
use crate::http::fields::{Fields, Text};

const NAME: Text = Text::line(200);
const TIMEZONE: Text = Text::line(100);
/// Requests per second.
const DEFAULT_RATE_LIMIT: u32 = 1_000;
const RETENTION_DAYS: std::ops::RangeInclusive<i64> = 1..=3_650;
/// Hours for which a replaced identity secret is still accepted: apps keep their signed values as long as they are
/// installed.
const OVERLAP_HOURS: std::ops::RangeInclusive<i64> = 0..=720;
const DEFAULT_OVERLAP_HOURS: u64 = 24;

const SETTINGS: &[&str] = &["timezone", "rateLimit", "retentionDays", "tracking", "identityVerification"];
const READ_ONLY: &[&str] = &[
    "id",
    "role",
    "createdAt",
    "updatedAt",
    "webhookSecret",
    "previousWebhookSecretUntil",
    "identitySecret",
    "signingSecret",
    "previousSigningSecretUntil",
];

/// Reads a new project. `name` is required.
pub fn new_project(
    body: &Map<String, Value>,
    id: ProjectId,
    now: Timestamp,
    max_rate_limit: u32,
) -> Result<Project, ApiError> {
    let mut fields = Fields::of(body);
    if !fields.has("name") || fields.is_null("name") {
        fields.problem("name", "is required");
    }
    let project = Project {
        id,
        name: String::new(),
        timezone: "UTC".to_owned(),
        rate_limit: DEFAULT_RATE_LIMIT.min(max_rate_limit),
        retention_days: 400,
        tracking: true,
        identity_verification: false,
        created_at: now,
        updated_at: now,
    };
    with_fields(fields, project, max_rate_limit)
}

/// Applies the fields in the request to a project.
pub fn changed_project(
    body: &Map<String, Value>,
    current: Project,
    now: Timestamp,
    max_rate_limit: u32,
) -> Result<Project, ApiError> {
    let mut fields = Fields::of(body);
    fields.not_null(&["name"]);
    with_fields(fields, Project { updated_at: now, ..current }, max_rate_limit)
}

/// Checks that the body contains the project's name, which confirms its deletion.
pub fn confirm(body: &Map<String, Value>, project: &Project) -> Result<(), ApiError> {
    let mut fields = Fields::of(body);
    let name = fields.required_text("name", &NAME);
    if !name.is_empty() && name.trim() != project.name {
        fields.problem("name", "must be the project's name: its deletion cannot be undone");
    }
    fields.finish()
}

/// Reads the number of hours for which the current identity secret stays valid after its rotation.
pub fn overlap(body: &Map<String, Value>) -> Result<u64, ApiError> {
    let mut fields = Fields::of(body);
    fields.not_null(&["overlapHours"]);
    let hours = fields.integer("overlapHours", OVERLAP_HOURS);
    fields.finish()?;
    Ok(hours.map_or(DEFAULT_OVERLAP_HOURS, i64::unsigned_abs))
}

fn with_fields(mut fields: Fields<'_>, mut project: Project, max_rate_limit: u32) -> Result<Project, ApiError> {
    fields.read_only(READ_ONLY);
    fields.not_null(SETTINGS);
    if let Some(name) = fields.text("name", &NAME) {
        if name.trim().is_empty() {
            fields.problem("name", "must not be blank");
        }
        name.trim().clone_into(&mut project.name);
    }
    if let Some(timezone) = fields.text("timezone", &TIMEZONE) {
        if TimeZone::get(timezone).is_err() {
            fields.problem("timezone", "must be an IANA name such as Europe/Berlin, or UTC");
        }
        timezone.clone_into(&mut project.timezone);
    }
    if let Some(limit) = fields.integer("rateLimit", 1..=max_rate_limit.into()) {
        project.rate_limit = limit as u32;
    }
    if let Some(days) = fields.integer("retentionDays", RETENTION_DAYS) {
        project.retention_days = days as u32;
    }
    if let Some(tracking) = fields.boolean("tracking") {
        project.tracking = tracking;
    }
    if let Some(verification) = fields.boolean("identityVerification") {
        project.identity_verification = verification;
    }
    fields.finish()?;
    Ok(project)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn new(value: Value) -> Result<Project, Vec<String>> {
        let body = value.as_object().cloned().unwrap();
        new_project(&body, ProjectId(uuid::Uuid::nil()), Timestamp::UNIX_EPOCH, 5_000).map_err(|e| named(&e))
    }

    fn named(error: &ApiError) -> Vec<String> {
        error.details().iter().map(|p| p.field.clone()).collect()
    }

    #[test]
    fn project_requires_only_a_name() {
        let project = new(json!({"name": " Shop "})).unwrap();
        assert_eq!((project.name.as_str(), project.timezone.as_str(), project.rate_limit), ("Shop", "UTC", 1_000));
        for without in [json!({}), json!({"name": null})] {
            assert_eq!(new(without).unwrap_err(), ["name"]);
        }
    }

    #[test]
    fn invalid_fields_are_reported() {
        for (field, wrong) in [
            ("name", json!(" ")),
            ("name", json!("a\nb")),
            ("timezone", json!("Mars/Olympus")),
            ("timezone", json!(5)),
            ("rateLimit", json!(0)),
            ("rateLimit", json!(5_001)),
            ("rateLimit", json!("many")),
            ("retentionDays", json!(0)),
            ("retentionDays", json!(3_651)),
            ("tracking", json!("off")),
            ("identityVerification", json!(1)),
            ("timezone", json!(null)),
            ("rateLimit", json!(null)),
            ("nmae", json!("x")),
        ] {
            let mut body = json!({"name": "Shop"});
            body[field] = wrong.clone();
            assert_eq!(new(body).unwrap_err(), [field], "{wrong}");
        }
    }

    #[test]
    fn put_accepts_the_representation_from_get() {
        let project = new(json!({"name": "Shop"})).unwrap();
        let read = json!({"id": "x", "name": "Shop", "role": "ADMIN", "webhookSecret": "w", "identitySecret": "i",
                          "previousWebhookSecretUntil": null, "signingSecret": "s", "previousSigningSecretUntil": null, "createdAt": "", "updatedAt": "", "rateLimit": 5});
        let body = read.as_object().cloned().unwrap();
        let changed = changed_project(&body, project, Timestamp::UNIX_EPOCH, 5_000).unwrap();
        assert_eq!(changed.rate_limit, 5);
    }
}
