//! `POST /campaigns/:id/test`: sends test messages of a campaign to reviewers. They are not part of any send and
//! appear neither in the campaign nor in its report.

mod input;

use std::collections::HashMap;
use std::time::Duration;

use database::StoreError;
use deadpool_postgres::Transaction;
use domain::message::DeliveryState;
use kernel::ids;
use serde::Serialize;
use serde_json::json;
use store_profiles::users::read as users;
use store_profiles::users::user_ref::{IdType, UserRef};
use store_sending::campaigns::{self, Campaign};
use store_sending::messages::read;
use tokio::time::Instant;
use uuid::Uuid;
use wire::send::DirectMessage;

use super::{check_templates, path_params, record_audit};
use crate::context::Context;
use crate::http::body;
use crate::http::error::{ApiError, Problem};
use crate::http::respond::{Reply, accepted};
use crate::ingest::prefer::Wait;
use crate::resources::messages::send::{DirectInput, direct_message, outcome, publish_all};
use crate::resources::{id_type, idempotency};
use input::TestRequest;

/// A recipient of a test.
struct Target {
    /// ID as given in the request.
    user: Option<String>,
    to: Option<String>,
    /// The user for whom the message is rendered.
    recipient: Uuid,
}

/// A test message.
struct TestMessage {
    /// ID as given in the request.
    user: Option<String>,
    to: Option<String>,
    variant: Option<String>,
    template_id: Option<Uuid>,
    recipient: Uuid,
}

#[derive(Serialize)]
struct TestView {
    messages: Vec<TestMessageView>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TestMessageView {
    id: Uuid,
    user_id: Option<String>,
    to: Option<String>,
    variant: Option<String>,
    status: &'static str,
    status_reason: Option<String>,
}

/// `POST /campaigns/:id/test`
pub async fn test(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let started = Instant::now();
    let id = path_params::id(segment, "campaign")?;
    let wait = Wait::from_headers(cx)?.seconds();
    let id_type = id_type::of(&cx.query()?)?;
    let body = cx.read_json(body::MAX_BYTES).await?;
    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    let campaign = campaigns::get(&tx, cx.project, id).await?.ok_or_else(|| ApiError::no_such("campaign"))?;
    let request = input::test_request(&body, &campaign)?;
    check_templates(cx, &tx, &campaign).await?;
    let test_messages = test_messages(cx, &tx, &campaign, (request, id_type)).await?;
    // Message IDs derive from the ID stored for the idempotency key, so a repeated request finds the same messages.
    let fresh = ids::fresh(cx.received_ms);
    let first = match idempotency::existing_id(cx, &tx, &format!("test of campaign {id}"), fresh).await? {
        Some(existing) => existing,
        None => {
            let details = json!({ "messages": test_messages.len() });
            record_audit(cx, &tx, "campaign.tested", &campaign, details).await?;
            fresh
        }
    };
    let ids: Vec<Uuid> = (0..test_messages.len()).map(|n| message_id(first, n)).collect();
    let stored = if first == fresh { HashMap::new() } else { stored(cx, &tx, &ids).await? };
    tx.commit().await.map_err(StoreError::from)?;
    drop(db);
    let unstored = test_messages.iter().zip(&ids).filter(|(_, id)| !stored.contains_key(*id));
    let messages: Vec<DirectMessage> = unstored
        .map(|(test_message, id)| {
            direct_message(cx.project, *id, vec![test_message.recipient], &content(&campaign, test_message))
        })
        .collect();
    if !messages.is_empty() {
        publish_all(cx, campaign.channel, messages).await?;
    }
    let until = wait.map(|seconds| started + Duration::from_secs(seconds));
    let mut shown = Vec::with_capacity(test_messages.len());
    for (test_message, id) in test_messages.into_iter().zip(ids) {
        let message = match until {
            Some(until) => outcome(cx, id, until).await,
            None => None,
        };
        let current = message.map(|m| (m.status, m.status_reason)).or_else(|| stored.get(&id).cloned());
        let (status, status_reason) = current.unwrap_or((DeliveryState::Queued, None));
        let TestMessage { user, to, variant, .. } = test_message;
        shown.push(TestMessageView { id, user_id: user, to, variant, status: status.as_str(), status_reason });
    }
    let reply = accepted(&TestView { messages: shown })?;
    Ok(match wait {
        Some(seconds) => reply.with("preference-applied", format!("wait={seconds}")),
        None => reply,
    })
}

/// Returns the status of each message of an earlier request with the same idempotency key, by ID. Fails if a message
/// has no row and is too old to be still in flight, since it must have been deleted.
async fn stored(
    cx: &Context<'_>,
    tx: &Transaction<'_>,
    ids: &[Uuid],
) -> Result<HashMap<Uuid, (DeliveryState, Option<String>)>, ApiError> {
    let states = read::states(tx, cx.project, ids).await?;
    let stored: HashMap<_, _> = states.into_iter().map(|of| (of.id, (of.status, of.reason))).collect();
    for id in ids.iter().filter(|id| !stored.contains_key(*id)) {
        idempotency::check_in_flight(cx, *id)?;
    }
    Ok(stored)
}

fn message_id(first: Uuid, nth: usize) -> Uuid {
    ids::timed_for(ids::time_ms(first), &[first.as_bytes(), &nth.to_be_bytes()])
}

/// Returns the content as for a campaign recipient, except that the message is attempted once, ignores suppressions,
/// and may have its own address.
fn content(campaign: &Campaign, test_message: &TestMessage) -> DirectInput {
    let mut content = json!({ "test": true });
    if let Some(to) = &test_message.to {
        content["to"] = to.as_str().into();
    }
    DirectInput {
        user: String::new(),
        channel: campaign.channel,
        content,
        template_id: test_message.template_id,
        data: campaign.data(),
    }
}

/// Combines every target with every requested template.
async fn test_messages(
    cx: &Context<'_>,
    tx: &Transaction<'_>,
    campaign: &Campaign,
    (request, id_type): (TestRequest, IdType),
) -> Result<Vec<TestMessage>, ApiError> {
    let mut problems = Vec::new();
    let mut targets = Vec::new();
    for (i, user) in request.user_ids.into_iter().enumerate() {
        match users::find_id(tx, cx.project, UserRef::new(&user, id_type)).await? {
            Some(recipient) => targets.push(Target { user: Some(user), to: None, recipient }),
            None => problems.push(Problem::new(format!("userIds[{i}]"), "no such user in this project")),
        }
    }
    let rendered_for = match &request.as_user {
        None => Some(Uuid::nil()),
        Some(user) => users::find_id(tx, cx.project, UserRef::new(user, id_type)).await?,
    };
    if rendered_for.is_none() {
        problems.push(Problem::new("asUserId", "no such user in this project"));
    }
    if !problems.is_empty() {
        return Err(ApiError::Invalid(problems));
    }
    let recipient = rendered_for.unwrap_or_default();
    targets.extend(request.to.into_iter().map(|to| Target { user: None, to: Some(to), recipient }));
    let variants = &campaign.settings.variants;
    let mut templates: Vec<(Option<String>, Option<Uuid>)> = variants
        .iter()
        .filter(|variant| request.variant.as_ref().is_none_or(|name| *name == variant.name))
        .map(|variant| (Some(variant.name.clone()), Some(variant.template_id)))
        .collect();
    if variants.is_empty() {
        templates.push((None, campaign.template_id));
    }
    let mut test_messages = Vec::with_capacity(targets.len() * templates.len());
    for Target { user, to, recipient } in targets {
        for (variant, template_id) in &templates {
            let (user, to, variant) = (user.clone(), to.clone(), variant.clone());
            test_messages.push(TestMessage { user, to, variant, template_id: *template_id, recipient });
        }
    }
    Ok(test_messages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_ids_are_stable_and_distinct() {
        let first = ids::fresh(1_790_000_000_000);
        assert_eq!(message_id(first, 1), message_id(first, 1));
        assert_ne!(message_id(first, 0), message_id(first, 1));
        assert_eq!(ids::time_ms(message_id(first, 7)), ids::time_ms(first));
    }
}
