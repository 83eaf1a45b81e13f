//! Validates news items in request bodies.

use jiff::Timestamp;
use serde_json::{Map, Value};
use store_sending::news::NewsItem;
use uuid::Uuid;

use crate::http::error::ApiError;
use crate::http::fields::{Fields, Text};

const TITLE: Text = Text::line(200);
const BODY: Text = Text::any(100_000);

const READ_ONLY: &[&str] = &["id", "publishedAt", "createdAt", "updatedAt"];

/// Reads a new item. `title` and `body` are required.
pub fn new_item(body: &Map<String, Value>, id: Uuid, now: Timestamp) -> Result<NewsItem, ApiError> {
    let mut fields = Fields::of(body);
    fields.read_only(READ_ONLY);
    fields.not_null(&["published"]);
    let item = NewsItem {
        id,
        title: fields.required_text("title", &TITLE).to_owned(),
        body: fields.required_text("body", &BODY).to_owned(),
        published_at: fields.boolean("published").unwrap_or(false).then_some(now),
        created_at: now,
        updated_at: now,
    };
    fields.finish()?;
    Ok(item)
}

/// Applies the fields in the request to an item. An item that is already published keeps its publication time.
pub fn changed_item(body: &Map<String, Value>, mut item: NewsItem, now: Timestamp) -> Result<NewsItem, ApiError> {
    let mut fields = Fields::of(body);
    fields.read_only(READ_ONLY);
    fields.not_null(&["title", "body", "published"]);
    if let Some(title) = fields.text("title", &TITLE) {
        title.clone_into(&mut item.title);
    }
    if let Some(body) = fields.text("body", &BODY) {
        body.clone_into(&mut item.body);
    }
    match fields.boolean("published") {
        Some(true) => item.published_at = item.published_at.or(Some(now)),
        Some(false) => item.published_at = None,
        None => {}
    }
    fields.finish()?;
    item.updated_at = now;
    Ok(item)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn new(value: Value) -> Result<NewsItem, Vec<String>> {
        new_item(value.as_object().unwrap(), Uuid::nil(), at(1)).map_err(|e| named(&e))
    }

    fn named(error: &ApiError) -> Vec<String> {
        error.details().iter().map(|p| p.field.clone()).collect()
    }

    #[test]
    fn all_invalid_fields_are_reported() {
        for (value, fields) in [
            (json!({}), &["title", "body"][..]),
            (json!({"title": "", "body": "b"}), &["title"]),
            (json!({"title": "a\nb", "body": "b"}), &["title"]),
            (json!({"title": "t".repeat(201), "body": 5}), &["title", "body"]),
            (json!({"title": "t", "body": "b".repeat(100_001)}), &["body"]),
            (json!({"title": "t", "body": "b", "published": "yes", "titel": ""}), &["published", "titel"]),
        ] {
            assert_eq!(new(value).unwrap_err(), fields);
        }
    }

    #[test]
    fn item_keeps_its_publication_time() {
        let draft = new(json!({"title": "t", "body": "b"})).unwrap();
        assert_eq!(draft.published_at, None);
        let change = |item: &NewsItem, value: Value, second| {
            changed_item(value.as_object().unwrap(), item.clone(), at(second)).unwrap()
        };
        let published = change(&draft, json!({"published": true}), 5);
        assert_eq!(published.published_at, Some(at(5)));
        let again = change(&published, json!({"published": true, "title": "u"}), 9);
        assert_eq!((again.published_at, again.title.as_str(), again.updated_at), (Some(at(5)), "u", at(9)));
        assert_eq!(change(&again, json!({"published": false}), 10).published_at, None);
    }
}
