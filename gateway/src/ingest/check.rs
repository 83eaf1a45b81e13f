//! From an item as it arrived to one that may be published.

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::value::RawValue;
use shared::event::{Alias, Body, Identify, IngestItem, Track, id_bytes};
use shared::ids::ProjectId;
use uuid::Uuid;

use super::item::Item;
use super::{ids, in_one_line, properties, time};
use crate::context::Context;
use crate::error::{ApiError, Problem};

/// Characters of names and ids.
const MAX_TEXT: usize = 200;
const TEXT_ALLOWED: &str = "must be a string of 1 to 200 characters without control characters";
/// What a screen is recorded as.
const SCREEN_EVENT: &str = "screen_viewed";
const EMPTY: Bytes = Bytes::from_static(b"{}");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Track,
    Identify,
    Screen,
    Alias,
}

const KINDS: [(&str, Kind); 4] =
    [("track", Kind::Track), ("identify", Kind::Identify), ("screen", Kind::Screen), ("alias", Kind::Alias)];

/// An item that may be published.
#[derive(Debug)]
pub struct Checked {
    pub item: IngestItem,
    /// The id that the answer shows.
    pub public_id: Uuid,
}

/// What the items of one request have in common.
pub struct Checker<'a> {
    project: ProjectId,
    project_bytes: Bytes,
    received_ms: i64,
    skew_ms: i64,
    idempotency_key: Option<&'a str>,
    body: &'a Bytes,
}

impl<'a> Checker<'a> {
    /// `body` is what the items point into.
    pub fn new(cx: &Context<'a>, body: &'a Bytes, sent_at: Option<&RawValue>) -> Result<Self, ApiError> {
        let key = cx.header("idempotency-key");
        if key.is_some_and(|k| k.len() > MAX_TEXT) || (key.is_none() && cx.headers.get("idempotency-key").is_some()) {
            return Err(ApiError::invalid("Idempotency-Key", "must have 1 to 200 ASCII characters"));
        }
        Self::of(cx.project, cx.received_ms, key, body, sent_at)
    }

    fn of(
        project: ProjectId,
        received_ms: i64,
        idempotency_key: Option<&'a str>,
        body: &'a Bytes,
        sent_at: Option<&RawValue>,
    ) -> Result<Self, ApiError> {
        let sent_at = match sent_at {
            None => None,
            Some(raw) => Some(time_of(raw).ok_or_else(|| ApiError::invalid("sentAt", time::ALLOWED))?),
        };
        let skew_ms = time::skew(sent_at, received_ms);
        Ok(Self { project, project_bytes: id_bytes(project.0), received_ms, skew_ms, idempotency_key, body })
    }

    /// An item of a batch, with its problems in one line.
    pub fn check_of_batch(&self, item: &Item<'_>, index: usize) -> Result<Checked, String> {
        let text = item.kind.and_then(text_of);
        let kind = KINDS.iter().find(|(name, _)| text.as_deref() == Some(name)).map(|(_, kind)| *kind);
        let kind = kind.ok_or("type: must be one of `track`, `identify`, `screen`, `alias`")?;
        self.check(item, kind, Some(index)).map_err(|problems| in_one_line(&problems))
    }

    pub fn check(&self, item: &Item<'_>, kind: Kind, index: Option<usize>) -> Result<Checked, Vec<Problem>> {
        let mut problems = Vec::new();
        let user_id = text(item.user_id, "user_id", &mut problems);
        let anonymous_id = text(item.anonymous_id, "anonymous_id", &mut problems);
        let client_id = text(item.id, "id", &mut problems);
        let timestamp_ms = item.timestamp.and_then(|raw| {
            let found = time_of(raw);
            if found.is_none() {
                problems.push(Problem::new("timestamp", time::ALLOWED));
            }
            found
        });
        let body = match kind {
            Kind::Track => {
                let name = required(item.event, "event", &mut problems).into_owned();
                Body::Track(Track { name, properties: self.properties(item.properties, &mut problems) })
            }
            Kind::Screen => {
                let name = required(item.name, "name", &mut problems);
                let properties = self.properties(item.properties, &mut problems);
                Body::Track(Track { name: SCREEN_EVENT.to_owned(), properties: with_name(&properties, &name) })
            }
            Kind::Identify => Body::Identify(Identify { properties: self.properties(item.properties, &mut problems) }),
            Kind::Alias => {
                if item.user_id.is_none() {
                    problems.push(Problem::new("user_id", "is required"));
                }
                let previous_id = required(item.previous_id, "previous_id", &mut problems).into_owned();
                Body::Alias(Alias { previous_id })
            }
        };
        if kind != Kind::Alias && item.user_id.is_none() && item.anonymous_id.is_none() {
            problems.push(Problem::new("user_id", "is required, or else anonymous_id"));
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let derived = match (&client_id, self.idempotency_key) {
            (None, Some(key)) => Some(index.map_or(Cow::Borrowed(key), |i| Cow::Owned(ids::of_batch(key, i)))),
            _ => client_id,
        };
        let ids = match kind {
            Kind::Track | Kind::Screen => ids::of_event(self.project, derived.as_deref(), self.received_ms),
            Kind::Identify | Kind::Alias => ids::of_update(self.project, derived.as_deref(), self.received_ms),
        };
        let item = IngestItem {
            project_id: self.project_bytes.clone(),
            id: id_bytes(ids.row),
            dedupe_id: ids.dedupe,
            received_ms: self.received_ms,
            timestamp_ms: time::happened(timestamp_ms, self.skew_ms, self.received_ms),
            user_id: user_id.map(Cow::into_owned),
            // For an alias only the two known ids count.
            anonymous_id: anonymous_id.filter(|_| kind != Kind::Alias).map(Cow::into_owned),
            body: Some(body),
        };
        Ok(Checked { item, public_id: ids.public })
    }

    /// The properties' text within the body, uncopied.
    fn properties(&self, raw: Option<&RawValue>, problems: &mut Vec<Problem>) -> Bytes {
        let Some(raw) = raw else { return EMPTY };
        if let Some(why) = properties::refuses(raw.get()) {
            problems.push(Problem::new("properties", why));
            return EMPTY;
        }
        self.body.slice_ref(raw.get().as_bytes())
    }
}

/// Properties with a `name`, which wins over one that is there.
fn with_name(properties: &[u8], name: &str) -> Bytes {
    let inner = properties.strip_suffix(b"}").unwrap_or(b"{");
    let comma = if inner[1..].trim_ascii().is_empty() { "" } else { "," };
    let name = serde_json::Value::from(name);
    Bytes::from([inner, format!("{comma}\"name\":{name}}}").as_bytes()].concat())
}

fn required<'a>(raw: Option<&'a RawValue>, field: &str, problems: &mut Vec<Problem>) -> Cow<'a, str> {
    if raw.is_none() {
        problems.push(Problem::new(field, "is required"));
    }
    text(raw, field, problems).unwrap_or_default()
}

/// A name or an id: 1 to 200 characters without control characters.
fn text<'a>(raw: Option<&'a RawValue>, field: &str, problems: &mut Vec<Problem>) -> Option<Cow<'a, str>> {
    let found = text_of(raw?).filter(|t| is_fit(t));
    if found.is_none() {
        problems.push(Problem::new(field, TEXT_ALLOWED));
    }
    found
}

fn is_fit(text: &str) -> bool {
    !text.is_empty()
        && (text.len() <= MAX_TEXT || text.chars().count() <= MAX_TEXT)
        && !text.chars().any(char::is_control)
}

/// A string's content; copied only where it holds escapes.
fn text_of(raw: &RawValue) -> Option<Cow<'_, str>> {
    let inner = raw.get().strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') { serde_json::from_str(raw.get()).ok().map(Cow::Owned) } else { Some(Cow::Borrowed(inner)) }
}

fn time_of(raw: &RawValue) -> Option<i64> {
    time::parse(&text_of(raw)?)
}

#[cfg(test)]
mod tests;
