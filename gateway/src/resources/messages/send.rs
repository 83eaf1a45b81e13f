//! `POST /messages`: publishes a direct message on the direct lane, which does not wait for bulk messages.

use std::time::Duration;

use bytes::Bytes;
use database::StoreError;
use domain::message::Channel;
use kernel::ids::{self, ProjectId};
use prost::Message as _;
use serde::Serialize;
use serde_json::json;
use store_profiles::client_ids;
use store_profiles::users::user_ref::UserRef;
use store_projects::templates;
use store_sending::messages::read::{self, Message};
use tokio::time::{Instant, sleep};
use trace::{Kind, Span};
use uuid::Uuid;
use wire::event::{id_bytes, trace_bytes};
use wire::send::{DirectMessage, SendChunk, VERSION};

pub use super::input::DirectInput;
use super::{input, mjml};
use crate::context::Context;
use crate::http::body;
use crate::http::error::ApiError;
use crate::http::respond::{Reply, accepted};
use crate::ingest::prefer::Wait;
use crate::resources::users::NOT_INTERNAL;
use crate::resources::{audit_log, id_type, idempotency};

/// How often a waiting request polls for the outcome.
const POLL: Duration = Duration::from_millis(50);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SentView {
    id: Uuid,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    status_reason: Option<String>,
}

impl SentView {
    fn queued(id: Uuid) -> Self {
        Self { id, status: "queued", status_reason: None }
    }

    fn of(message: Message) -> Self {
        Self { id: message.id, status: message.status.as_str(), status_reason: message.status_reason }
    }
}

/// `POST /messages`
pub async fn send(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let started = Instant::now();
    let key = idempotency::key(cx)?;
    let wait = Wait::from_headers(cx)?.seconds();
    let id_type = id_type::of(&cx.query()?)?;
    let sent = cx.read_json(body::MAX_BYTES).await?;
    let mut input = input::direct(&sent)?;
    let users = UserRef::new(&input.user, id_type);
    if !users.is_well_formed() {
        return Err(ApiError::invalid("userId", NOT_INTERNAL));
    }
    let users = users.candidates(cx.project);
    check_template(cx, &input).await?;
    mjml::compile(cx, &sent, &mut input).await?;
    let (id, stored) = message_id(cx, key).await?;
    if stored.is_none() {
        if cx.caller.is_session() {
            record_audit(cx, id, &input).await?;
        }
        publish(cx, id, users, &input).await?;
    }
    let Some(seconds) = wait else { return accepted(&stored.map_or_else(|| SentView::queued(id), SentView::of)) };
    let outcome = outcome(cx, id, started + Duration::from_secs(seconds)).await;
    let view = outcome.map_or_else(|| SentView::queued(id), SentView::of);
    Ok(accepted(&view)?.with("preference-applied", format!("wait={seconds}")))
}

async fn check_template(cx: &Context<'_>, input: &DirectInput) -> Result<(), ApiError> {
    let Some(id) = input.template_id else { return Ok(()) };
    let problem = match templates::get(&cx.database().await?, cx.project, id).await? {
        Some(template) if template.channel == input.channel => return Ok(()),
        Some(other) => format!("is a template for channel {}", other.channel.as_str()),
        None => "no such template in this project".to_owned(),
    };
    Err(ApiError::invalid("templateId", problem))
}

/// Returns a new ID, or the ID first assigned to the key, with the message if its row exists. Such a message is not
/// published again.
///
/// Ledger IDs contain a timestamp, so an ID cannot be derived from the key alone: the database decides which request
/// was first.
async fn message_id(cx: &Context<'_>, key: Option<&str>) -> Result<(Uuid, Option<Message>), ApiError> {
    let fresh = ids::fresh(cx.received_ms);
    let Some(key) = key else { return Ok((fresh, None)) };
    let key = client_ids::resource_key(cx.project, "message", key);
    let (db, now) = (cx.database().await?, kernel::clock::from_ms(cx.received_ms));
    let first = client_ids::claim_or_get(&db, cx.project, key, fresh, now).await?;
    if first == fresh {
        return Ok((fresh, None));
    }
    let stored = read::get(&db, cx.project, first).await?;
    if stored.is_none() {
        idempotency::check_in_flight(cx, first)?;
    }
    Ok((first, stored))
}

/// Records a message sent from a login session in the audit log; messages sent with API keys are only in the ledger.
///
/// Call it before publishing, so that no message is sent without an entry. The entry omits the content.
async fn record_audit(cx: &Context<'_>, id: Uuid, input: &DirectInput) -> Result<(), ApiError> {
    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    let details = json!({ "channel": input.channel.as_str(), "templateId": input.template_id });
    audit_log::record(cx, &tx, "message.sent", (id, ""), details).await?;
    tx.commit().await.map_err(StoreError::from)?;
    Ok(())
}

/// Publishes a message and returns once the broker has acknowledged it. May be repeated: the row of an ID is written
/// once.
pub async fn publish(cx: &Context<'_>, id: Uuid, users: Vec<Uuid>, input: &DirectInput) -> Result<(), ApiError> {
    publish_all(cx, input.channel, vec![direct_message(cx.project, id, users, input)]).await
}

/// Returns the message in its wire format. Its acceptance time is that of its ID.
pub fn direct_message(project: ProjectId, id: Uuid, users: Vec<Uuid>, input: &DirectInput) -> DirectMessage {
    DirectMessage {
        project_id: id_bytes(project.0),
        message_id: id_bytes(id),
        user_ids: users.into_iter().map(id_bytes).collect(),
        channel: input.channel.as_str().to_owned(),
        content: input.content.to_string().into(),
        template_id: input.template_id.map(id_bytes).unwrap_or_default(),
        data: input.data.to_string().into(),
        accepted_ms: ids::time_ms(id),
        trace: Bytes::new(),
    }
}

/// Like [`publish`], for several messages of one channel, in a single broker message: all of them or none.
pub async fn publish_all(cx: &Context<'_>, channel: Channel, mut direct: Vec<DirectMessage>) -> Result<(), ApiError> {
    let mut span = Span::child(cx.trace, "publish SEND", Kind::Producer);
    span.set("messaging.system", "nats");
    direct.iter_mut().for_each(|message| message.trace = trace_bytes(cx.trace));
    let chunk = SendChunk { version: VERSION, refs: Vec::new(), direct };
    let subject = cx.app.bus.names.send(channel);
    let published = cx.app.publisher.publish(subject, Bytes::from(chunk.encode_to_vec())).await;
    if published.is_err() {
        span.fail("not published");
    }
    span.end();
    published?;
    Ok(())
}

/// Polls for the outcome until `until`. Returns `None` if no row was found, which includes database errors, since the
/// message is already queued.
pub async fn outcome(cx: &Context<'_>, id: Uuid, until: Instant) -> Option<Message> {
    let mut seen = None;
    loop {
        if let Ok(db) = cx.database().await
            && let Ok(Some(message)) = read::get(&db, cx.project, id).await
        {
            let known = message.status.is_terminal();
            seen = Some(message);
            if known {
                return seen;
            }
        }
        if Instant::now() + POLL >= until {
            return seen;
        }
        sleep(POLL).await;
    }
}
