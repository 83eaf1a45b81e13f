//! Validates an item and prepares it for publishing.

use std::borrow::Cow;

use kernel::ids::{IdSpace, ProjectId};
use kernel::trace_context::TraceContext;
use serde_json::value::RawValue;
use uuid::Uuid;
use wire::event::{BorrowedBody, BorrowedItem};

use super::item::Item;
use super::{ids, join_problems, properties, time};
use crate::auth::identity::token;
use crate::context::Context;
use crate::http::error::{ApiError, Problem};

/// Maximum length of names and IDs, in characters.
const MAX_TEXT: usize = 200;
const TEXT_ALLOWED: &str = "must be a string of 1 to 200 characters without control characters";
const TOKEN_ALLOWED: &str = "must be a JWT of at most 4,096 bytes";
/// The event name under which screen views are recorded.
const SCREEN_EVENT: &str = "screen_viewed";
const EMPTY: &str = "{}";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Track,
    Identify,
    Screen,
    Alias,
}

const KINDS: [(&str, Kind); 4] =
    [("track", Kind::Track), ("identify", Kind::Identify), ("screen", Kind::Screen), ("alias", Kind::Alias)];

/// A valid item. Its parts borrow from the request's body where possible.
#[derive(Debug)]
pub struct Checked<'a> {
    /// The ID in the response.
    pub public_id: Uuid,
    pub user_id: Option<Cow<'a, str>>,
    pub anonymous_id: Option<Cow<'a, str>>,
    /// When it happened, in Unix milliseconds.
    pub timestamp_ms: i64,
    pub content: Content<'a>,
    /// Whether proofs are required and the item names only an anonymous ID, which cannot be proven.
    pub unproven: bool,
    project: ProjectId,
    row: Uuid,
    dedupe: Option<Uuid>,
    received_ms: i64,
    trace: Option<TraceContext>,
}

/// The content of an item. Properties are a JSON object as text.
#[derive(Debug)]
pub enum Content<'a> {
    Track { name: Cow<'a, str>, properties: Cow<'a, str> },
    Identify { properties: Cow<'a, str> },
    Alias { previous_id: Cow<'a, str> },
}

impl Checked<'_> {
    /// Returns the item in the wire format.
    pub fn item(&self) -> BorrowedItem<'_> {
        BorrowedItem {
            project_id: self.project,
            id: self.row,
            dedupe_id: self.dedupe,
            received_ms: self.received_ms,
            timestamp_ms: self.timestamp_ms,
            user_id: self.user_id.as_deref(),
            anonymous_id: self.anonymous_id.as_deref(),
            trace: self.trace,
            unproven: self.unproven,
            body: match &self.content {
                Content::Track { name, properties } => BorrowedBody::Track { name, properties },
                Content::Identify { properties } => BorrowedBody::Identify { properties },
                Content::Alias { previous_id } => BorrowedBody::Alias { previous_id },
            },
        }
    }
}

/// Returns whether the value is a string of a token's length. The proof itself is verified only where one is required.
fn may_be_token(raw: &RawValue) -> bool {
    text_of(raw).is_some_and(|text| text.len() <= token::MAX_BYTES && !text.chars().any(char::is_control))
}

/// Validates the items of one request; holds what they have in common.
pub struct Checker<'a> {
    project: ProjectId,
    space: IdSpace,
    received_ms: i64,
    skew_ms: i64,
    idempotency_key: Option<&'a str>,
    trace: Option<TraceContext>,
}

impl<'a> Checker<'a> {
    pub fn new(cx: &Context<'a>, sent_at: Option<&RawValue>) -> Result<Self, ApiError> {
        let key = cx.header("idempotency-key");
        if key.is_some_and(|k| k.len() > MAX_TEXT) || (key.is_none() && cx.headers.get("idempotency-key").is_some()) {
            return Err(ApiError::invalid("Idempotency-Key", "must have 1 to 200 ASCII characters"));
        }
        let space = cx.caller.id_space();
        Ok(Self { trace: cx.trace, space, ..Self::of(cx.project, cx.received_ms, key, sent_at)? })
    }

    /// Returns a checker for items that were sent with a public key.
    pub fn of(
        project: ProjectId,
        received_ms: i64,
        idempotency_key: Option<&'a str>,
        sent_at: Option<&RawValue>,
    ) -> Result<Self, ApiError> {
        let sent_at = match sent_at {
            None => None,
            Some(raw) => Some(time_of(raw).ok_or_else(|| ApiError::invalid("sentAt", time::ALLOWED))?),
        };
        let skew_ms = time::skew(sent_at, received_ms);
        Ok(Self { project, space: IdSpace::PublicKey, received_ms, skew_ms, idempotency_key, trace: None })
    }

    /// Validates an item of a batch. Fails with its problems in one line.
    pub fn check_batch_item<'i>(&self, item: &Item<'i>, index: usize) -> Result<Checked<'i>, String> {
        let text = item.kind.and_then(text_of);
        let kind = KINDS.iter().find(|(name, _)| text.as_deref() == Some(name)).map(|(_, kind)| *kind);
        let kind = kind.ok_or("type: must be one of `track`, `identify`, `screen`, `alias`")?;
        self.check(item, kind, Some(index)).map_err(|problems| join_problems(&problems))
    }

    pub fn check<'i>(&self, item: &Item<'i>, kind: Kind, index: Option<usize>) -> Result<Checked<'i>, Vec<Problem>> {
        let mut problems = Vec::new();
        let user_id = text(item.user_id, "user_id", &mut problems);
        let anonymous_id = text(item.anonymous_id, "anonymous_id", &mut problems);
        let client_id = text(item.id, "id", &mut problems);
        // An empty hash counts as no proof, which is reported where one is required.
        text(item.user_hash.filter(|raw| raw.get() != "\"\""), "user_hash", &mut problems);
        if item.user_token.is_some_and(|raw| !may_be_token(raw)) {
            problems.push(Problem::new("user_token", TOKEN_ALLOWED));
        }
        let timestamp_ms = item.timestamp.and_then(|raw| {
            let found = time_of(raw);
            if found.is_none() {
                problems.push(Problem::new("timestamp", time::ALLOWED));
            }
            found
        });
        let content = match kind {
            Kind::Track => {
                let name = required(item.event, "event", &mut problems);
                Content::Track { name, properties: properties_of(item.properties, &mut problems) }
            }
            Kind::Screen => {
                let name = required(item.name, "name", &mut problems);
                let properties = with_name(&properties_of(item.properties, &mut problems), &name);
                Content::Track { name: Cow::Borrowed(SCREEN_EVENT), properties: Cow::Owned(properties) }
            }
            Kind::Identify => Content::Identify { properties: properties_of(item.properties, &mut problems) },
            Kind::Alias => {
                if item.user_id.is_none() {
                    problems.push(Problem::new("user_id", "is required"));
                }
                Content::Alias { previous_id: required(item.previous_id, "previous_id", &mut problems) }
            }
        };
        if kind != Kind::Alias && item.user_id.is_none() && item.anonymous_id.is_none() {
            problems.push(Problem::new("user_id", "is required, or else anonymous_id"));
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let derived = match (&client_id, self.idempotency_key) {
            (None, Some(key)) => Some(index.map_or(Cow::Borrowed(key), |i| Cow::Owned(ids::batch_item_id(key, i)))),
            _ => client_id,
        };
        let ids = match kind {
            Kind::Track | Kind::Screen => ids::of_event(self.project, self.space, derived.as_deref(), self.received_ms),
            Kind::Identify | Kind::Alias => {
                ids::of_update(self.project, self.space, derived.as_deref(), self.received_ms)
            }
        };
        Ok(Checked {
            public_id: ids.public,
            user_id,
            // An alias uses only `user_id` and `previous_id`.
            anonymous_id: anonymous_id.filter(|_| kind != Kind::Alias),
            timestamp_ms: time::happened(timestamp_ms, self.skew_ms, self.received_ms),
            content,
            unproven: false,
            project: self.project,
            row: ids.row,
            dedupe: ids.dedupe,
            received_ms: self.received_ms,
            trace: self.trace,
        })
    }
}

/// Returns the properties' text, borrowed from the body.
fn properties_of<'a>(raw: Option<&'a RawValue>, problems: &mut Vec<Problem>) -> Cow<'a, str> {
    let Some(raw) = raw else { return Cow::Borrowed(EMPTY) };
    if let Some(why) = properties::find_violation(raw.get()) {
        problems.push(Problem::new("properties", why));
        return Cow::Borrowed(EMPTY);
    }
    Cow::Borrowed(raw.get())
}

/// Adds `name` to the properties. It comes last and so overrides an existing key.
fn with_name(properties: &str, name: &str) -> String {
    let inner = properties.strip_suffix('}').unwrap_or("{");
    let comma = if inner[1..].trim_ascii().is_empty() { "" } else { "," };
    let name = serde_json::Value::from(name);
    format!("{inner}{comma}\"name\":{name}}}")
}

fn required<'a>(raw: Option<&'a RawValue>, field: &str, problems: &mut Vec<Problem>) -> Cow<'a, str> {
    if raw.is_none() {
        problems.push(Problem::new(field, "is required"));
    }
    text(raw, field, problems).unwrap_or_default()
}

/// Returns a name or ID of 1 to 200 characters without control characters, or reports a problem.
fn text<'a>(raw: Option<&'a RawValue>, field: &str, problems: &mut Vec<Problem>) -> Option<Cow<'a, str>> {
    let found = text_of(raw?).filter(|t| is_valid_text(t));
    if found.is_none() {
        problems.push(Problem::new(field, TEXT_ALLOWED));
    }
    found
}

fn is_valid_text(text: &str) -> bool {
    // Most texts are short and plain ASCII, which needs no decoding.
    if (1..=MAX_TEXT).contains(&text.len()) && text.bytes().all(|b| (b' '..0x7f).contains(&b)) {
        return true;
    }
    !text.is_empty()
        && (text.len() <= MAX_TEXT || text.chars().count() <= MAX_TEXT)
        && !text.chars().any(char::is_control)
}

/// Returns a string's content, copied only if it contains escapes.
pub(super) fn text_of(raw: &RawValue) -> Option<Cow<'_, str>> {
    let inner = raw.get().strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') { serde_json::from_str(raw.get()).ok().map(Cow::Owned) } else { Some(Cow::Borrowed(inner)) }
}

fn time_of(raw: &RawValue) -> Option<i64> {
    time::parse(&text_of(raw)?)
}

#[cfg(test)]
mod tests;
