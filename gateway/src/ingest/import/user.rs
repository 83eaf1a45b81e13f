//! Parses the user that a line describes. Pure.

use kernel::ids::{IdSpace, ProjectId};
use serde_json::{Map, Value};
use wire::event::{BorrowedBody, BorrowedItem};

use crate::http::error::{ApiError, Problem};
use crate::http::fields::Text;
use crate::ingest::{ids, properties};
use crate::resources::users::change;

/// The constraints on user IDs, as in the rest of the API.
const ID: Text = Text::line(200);
const USER_ID: [&str; 4] = ["user_id", "userId", "external_id", "externalId"];
const ANONYMOUS_ID: [&str; 2] = ["anonymous_id", "anonymousId"];

/// A validated user of an import.
#[derive(Debug, PartialEq, Eq)]
pub struct ImportedUser {
    pub user_id: Option<String>,
    pub anonymous_id: Option<String>,
    /// A JSON object.
    pub properties: String,
}

impl ImportedUser {
    /// Reads the fields of a line: IDs, `email`, `name` and `properties`. Accepts and ignores the other fields of a `GET` response.
    pub fn of(mut fields: Map<String, Value>) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let user_id = id(&mut fields, &USER_ID, &mut problems);
        let anonymous_id = id(&mut fields, &ANONYMOUS_ID, &mut problems);
        if problems.is_empty() && user_id.is_none() && anonymous_id.is_none() {
            problems.push(Problem::new("user_id", "is required, or else anonymous_id"));
        }
        // Exports contain missing fields as null, which must not remove a property.
        fields.retain(|name, value| !(value.is_null() && (name == "email" || name == "name")));
        let properties = match change::patch(&fields) {
            Ok(patch) => Value::Object(patch).to_string(),
            Err(ApiError::Invalid(more)) => {
                problems.extend(more);
                String::new()
            }
            Err(other) => {
                problems.push(Problem::new("line", other.to_string()));
                String::new()
            }
        };
        // The limits apply to the properties including email address and name.
        if problems.is_empty()
            && let Some(why) = properties::find_violation(&properties)
        {
            problems.push(Problem::new("properties", why));
        }
        if problems.is_empty() { Ok(Self { user_id, anonymous_id, properties }) } else { Err(problems) }
    }

    /// Returns the item in the wire format, as an `identify` call.
    pub fn item(&self, project: ProjectId, received_ms: i64) -> BorrowedItem<'_> {
        BorrowedItem {
            project_id: project,
            id: ids::of_update(project, IdSpace::SecretKey, None, received_ms).row,
            dedupe_id: None,
            received_ms,
            timestamp_ms: received_ms,
            user_id: self.user_id.as_deref(),
            anonymous_id: self.anonymous_id.as_deref(),
            trace: None,
            unproven: false,
            body: BorrowedBody::Identify { properties: &self.properties },
        }
    }

    /// Returns the approximate memory usage in bytes.
    pub fn size(&self) -> usize {
        let id = |id: &Option<String>| id.as_ref().map_or(0, String::len);
        self.properties.len() + id(&self.user_id) + id(&self.anonymous_id) + 100
    }
}

/// Reads an ID under any of its names.
fn id(fields: &mut Map<String, Value>, names: &[&'static str], problems: &mut Vec<Problem>) -> Option<String> {
    let mut found = None;
    for name in names {
        match fields.remove(*name) {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) if ID.allows(&text) => found = found.or(Some(text)),
            Some(_) => {
                problems
                    .push(Problem::new(*name, "must be a string of 1 to 200 characters without control characters"));
            }
        }
    }
    found
}

/// Parses a line of NDJSON.
pub fn object(line: &[u8]) -> Result<Map<String, Value>, Vec<Problem>> {
    let problem = |message: String| vec![Problem::new("line", message)];
    let text = std::str::from_utf8(line).map_err(|_| problem("must be UTF-8".to_owned()))?;
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(problem("must be a JSON object such as {\"user_id\": \"u1\"}".to_owned())),
        Err(error) => {
            // The parser sees a single line, so its line number is wrong.
            let why = error.to_string();
            let why = why.split(" at line ").next().unwrap_or_default();
            Err(problem(format!("must be a single JSON object: {why} at column {}", error.column())))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(line: &str) -> Result<ImportedUser, Vec<String>> {
        let user = object(line.as_bytes()).and_then(ImportedUser::of);
        user.map_err(|problems| problems.into_iter().map(|p| p.field).collect())
    }

    #[test]
    fn line_has_the_fields_of_identify() {
        let (user, anonymous) = (Some("u1".to_owned()), Some("a1".to_owned()));
        for (line, expected) in [
            (r#"{"user_id":"u1"}"#, (user.clone(), None, json!({}))),
            (
                r#"{"externalId":"u1","email":"a@b.co","name":"Ann","properties":{"plan":"pro","old":null}}"#,
                (user.clone(), None, json!({"email": "a@b.co", "name": "Ann", "plan": "pro", "old": null})),
            ),
            (r#"{"userId":null,"external_id":"u1","anonymous_id":"a1"}"#, (user, anonymous.clone(), json!({}))),
            // An anonymous user as an export represents it.
            (
                r#"{"id":"x","externalId":null,"anonymousId":"a1","email":null,"name":null,"properties":{"email":"no"},"createdAt":"t","lastSeenAt":"t","updatedAt":"t"}"#,
                (None, anonymous, json!({"email": "no"})),
            ),
        ] {
            let ImportedUser { user_id, anonymous_id, properties } = read(line).unwrap();
            assert_eq!((user_id, anonymous_id, serde_json::from_str(&properties).unwrap()), expected, "{line}");
        }
    }

    #[test]
    fn invalid_line_names_its_fields() {
        let long = format!(r#"{{"user_id":"u","properties":{{"k":"{}"}}}}"#, "x".repeat(33_000));
        let nearly = format!(r#"{{"user_id":"u","name":"n","properties":{{"k":"{}"}}}}"#, "x".repeat(32_755));
        for (line, fields) in [
            ("", &["line"][..]),
            ("[", &["line"]),
            (r#"[{"user_id":"u"}]"#, &["line"]),
            (r#"{"user_id":"u"} {}"#, &["line"]),
            (r#"{"user_id":"\ud800"}"#, &["line"]),
            ("{}", &["user_id"]),
            (r#"{"user_id":7}"#, &["user_id"]),
            (r#"{"externalId":"","anonymous_id":"a\nb"}"#, &["externalId", "anonymous_id"]),
            (r#"{"user_id":"u","plan":"pro","email":"invalid"}"#, &["plan", "email"]),
            (r#"{"user_id":"u","properties":{"k":"\u0000"}}"#, &["properties"]),
            (&long, &["properties"]),
            (&nearly, &["properties"]),
        ] {
            let mut found = read(line).unwrap_err();
            let mut expected = fields.to_vec();
            found.sort();
            expected.sort_unstable();
            assert_eq!(found, expected, "{line}");
        }
        assert_eq!(object(b"\xff").unwrap_err()[0].message, "must be UTF-8");
        let problem = object(b"{\"a\":}").unwrap_err().remove(0).message;
        assert!(problem.ends_with("expected value at column 6") && !problem.contains("line 1"), "{problem}");
    }
}
