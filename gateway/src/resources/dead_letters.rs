//! Dead letters: messages that failed for external reasons, and items that could not be recorded. Both can be retried.

use std::collections::HashMap;

use bus::wake;
use database::StoreError;
use domain::message::Channel;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value, json};
use store_profiles::users::read::{self as users, UserSummary};
use store_sending::dead_letters::{self, DeadFilter, DeadLetter, DeadLetterKind};
use store_sending::erasures;
use uuid::Uuid;

use crate::context::Context;
use crate::http::body;
use crate::http::error::ApiError;
use crate::http::fields::{Element, Fields, Text};
use crate::http::respond::{Reply, ok};
use crate::resources::paging::NumberedPage;
use crate::resources::{audit_log, time_format};

/// Maximum number of each kind to replay per request.
const MAX_REPLAYED: i64 = 10_000;
/// Maximum number of IDs per request.
const MAX_IDS: usize = 1_000;
const ID: Text = Text::line(36);
/// A reason code.
const REASON: Text = Text::line(100);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DeadLetterView {
    id: Uuid,
    kind: &'static str,
    reason: String,
    name: Option<String>,
    channel: Option<&'static str>,
    message_id: Option<Uuid>,
    template_id: Option<Uuid>,
    user_id: Option<String>,
    anonymous_id: Option<String>,
    attempts: i32,
    #[serde(serialize_with = "time_format::time")]
    created_at: Timestamp,
    #[serde(serialize_with = "time_format::time")]
    failed_at: Timestamp,
}

impl DeadLetterView {
    fn new(letter: DeadLetter, users: &HashMap<Uuid, UserSummary>) -> Self {
        let user = letter.user_id.and_then(|id| users.get(&id)).cloned().unwrap_or_default();
        Self {
            id: letter.id,
            kind: letter.kind.as_str(),
            reason: letter.reason,
            name: letter.name,
            channel: letter.channel.map(Channel::as_str),
            message_id: letter.message_id,
            template_id: letter.template_id,
            user_id: user.external_id,
            anonymous_id: user.anonymous_id,
            attempts: letter.attempts,
            created_at: letter.created_at,
            failed_at: letter.died_at,
        }
    }
}

/// `GET /dead-letters`
pub async fn list(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let query = cx.query()?;
    let page = NumberedPage::of(&query)?;
    let filter = DeadFilter {
        ids: None,
        kind: query.choice("kind", &kinds())?,
        channel: query.get("channel").map(channel).transpose()?,
        reason: query.get("reason").map(str::to_owned),
    };
    let mut db = cx.database().await?;
    let mut letters = dead_letters::list(&mut db, cx.project, &filter, &page.start, page.rows()).await?;
    let end = page.cut(&mut letters, |letter| letter.id);
    let total = dead_letters::total(&db, cx.project, &filter).await?;
    let ids: Vec<Uuid> = letters.iter().filter_map(|letter| letter.user_id).collect();
    let erased = erasures::under_way(&db, cx.project, &ids).await?;
    let is_erased =
        |letter: &DeadLetter| letter.user_id.and_then(|id| erased.get(&id)).is_some_and(|at| letter.created_at <= *at);
    letters.retain(|letter| !is_erased(letter));
    let users = users::summaries(&db, cx.project, &ids).await?;
    end.reply("deadLetters", letters.into_iter().map(|letter| DeadLetterView::new(letter, &users)), total)
}

fn kinds() -> [(&'static str, DeadLetterKind); 2] {
    DeadLetterKind::ALL.map(|kind| (kind.as_str(), kind))
}

/// Parses a channel name, ignoring case, as the send endpoint does.
fn channel(text: &str) -> Result<Channel, ApiError> {
    Channel::parse(text).ok_or_else(|| ApiError::invalid("channel", channels_allowed()))
}

fn channels_allowed() -> String {
    format!("must be one of {}", Channel::ALL.map(Channel::as_str).join(", "))
}

#[derive(Serialize)]
struct ReplayView {
    replayed: u64,
    messages: u64,
    items: u64,
    /// Whether more may remain than one request replays.
    more: bool,
}

/// `POST /dead-letters/replay`
pub async fn replay(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let filter = replay_filter(&cx.read_json(body::MAX_BYTES).await?)?;
    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    let replayed = dead_letters::replay(&tx, cx.project, &filter, MAX_REPLAYED, cx.app.clock.now()).await?;
    if replayed.sum() > 0 {
        let details = json!({
            "messages": replayed.messages, "items": replayed.items, "ids": filter.ids,
            "kind": filter.kind.map(DeadLetterKind::as_str), "channel": filter.channel.map(Channel::as_str), "reason": filter.reason,
        });
        audit_log::record_for_project(cx, &tx, "dead_letters.replayed", details).await?;
    }
    tx.commit().await.map_err(StoreError::from)?;
    wake::wake(&cx.app.bus, &replayed.queues).await;
    let is_full = |number: u64| number >= MAX_REPLAYED.unsigned_abs();
    ok(&ReplayView {
        replayed: replayed.sum(),
        messages: replayed.messages,
        items: replayed.items,
        more: is_full(replayed.messages) || is_full(replayed.items),
    })
}

/// Reads which dead letters to replay: those that satisfy every condition in the body, or `all` if there is none.
fn replay_filter(body: &Map<String, Value>) -> Result<DeadFilter, ApiError> {
    let mut fields = Fields::of(body);
    let conditions = ["ids", "kind", "channel", "reason"];
    fields.not_null(&conditions);
    fields.not_null(&["all"]);
    let id = |element: Element<'_>| {
        let id = Uuid::try_parse(element.text(&ID)?);
        if id.is_err() {
            element.problem("must be the ID of a dead letter (UUID)");
        }
        id.ok()
    };
    let ids = fields.array("ids", 1..=MAX_IDS).map(|items| items.into_iter().filter_map(id).collect());
    let kind = fields.choice("kind", &kinds());
    let channel = fields.text("channel", &REASON).map(Channel::parse);
    if channel == Some(None) {
        fields.problem("channel", channels_allowed());
    }
    let reason = fields.text("reason", &REASON).map(str::to_owned);
    let (all, narrowed) = (fields.boolean("all"), conditions.into_iter().any(|name| fields.has(name)));
    if all == Some(false) || (!narrowed && !fields.has("all")) {
        fields.problem("all", "must be true, or select by `ids`, `kind`, `channel` or `reason`");
    }
    fields.finish()?;
    Ok(DeadFilter { ids, kind, channel: channel.flatten(), reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replay_requires_a_selection() {
        let fields = |body: Value| match replay_filter(body.as_object().unwrap()) {
            Ok(_) => Vec::new(),
            Err(error) => error.details().iter().map(|p| p.field.clone()).collect(),
        };
        for body in [
            json!({"all": true}),
            json!({"ids": [Uuid::nil()]}),
            json!({"channel": "email", "reason": "gave_up"}),
            json!({"all": true, "kind": "ITEM"}),
        ] {
            assert!(fields(body.clone()).is_empty(), "{body}");
        }
        for (body, field) in [
            (json!({}), "all"),
            (json!({"all": false}), "all"),
            (json!({"all": null}), "all"),
            (json!({"all": false, "channel": "EMAIL"}), "all"),
            (json!({"kind": "ITEM", "ids": null}), "ids"),
            (json!({"all": "yes", "reason": "gave_up"}), "all"),
            (json!({"ids": []}), "ids"),
            (json!({"ids": ["7"]}), "ids[0]"),
            (json!({"channel": "FAX"}), "channel"),
            (json!({"kind": "message"}), "kind"),
            (json!({"reason": 5}), "reason"),
            (json!({"all": true, "limit": 5}), "limit"),
        ] {
            assert_eq!(fields(body.clone()), [field], "{body}");
        }
    }
}
