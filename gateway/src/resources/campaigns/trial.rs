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
use store_profiles::users::read as people;
use store_profiles::users::user_ref::{IdType, UserRef};
use store_sending::campaigns::{self, Campaign};
use store_sending::messages::read;
use tokio::time::Instant;
use uuid::Uuid;
use wire::send::DirectMessage;

use super::{check_templates, note, path_params};
use crate::context::Context;
use crate::http::body;
use crate::http::error::{ApiError, Problem};
use crate::http::respond::{Reply, accepted};
use crate::ingest::prefer::Wait;
use crate::resources::messages::send::{DirectInput, direct_message, outcome, publish_all};
use crate::resources::{id_type, idempotency};
use input::Asked;

/// A recipient of a test.
struct Target {
    /// ID as given in the request.
    user: Option<String>,
    to: Option<String>,
    /// The user for whom the message is rendered.
    person: Uuid,
}

/// A test message.
struct Trial {
    /// ID as given in the request.
    user: Option<String>,
    to: Option<String>,
    variant: Option<String>,
    template_id: Option<Uuid>,
    person: Uuid,
}

#[derive(Serialize)]
struct TestView {
    messages: Vec<TrialView>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TrialView {
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
    let wait = Wait::asked(cx)?.seconds();
    let id_type = id_type::of(&cx.query()?)?;
    let body = cx.read_json(body::MAX_BYTES).await?;
    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    let campaign = campaigns::get(&tx, cx.project, id).await?.ok_or_else(|| ApiError::no_such("campaign"))?;
    let asked = input::asked(&body, &campaign)?;
    check_templates(cx, &tx, &campaign).await?;
    let trials = trials(cx, &tx, &campaign, (asked, id_type)).await?;
    // Message IDs derive from the ID stored for the idempotency key, so a repeated request finds the same messages.
    let fresh = ids::fresh(cx.received_ms);
    let first = match idempotency::made_before(cx, &tx, &format!("test of campaign {id}"), fresh).await? {
        Some(made) => made,
        None => {
            let details = json!({ "messages": trials.len() });
            note(cx, &tx, "campaign.tested", &campaign, details).await?;
            fresh
        }
    };
    let ids: Vec<Uuid> = (0..trials.len()).map(|n| message_id(first, n)).collect();
    let stored = if first == fresh { HashMap::new() } else { stored(cx, &tx, &ids).await? };
    tx.commit().await.map_err(StoreError::from)?;
    drop(db);
    let unstored = trials.iter().zip(&ids).filter(|(_, id)| !stored.contains_key(*id));
    let messages: Vec<DirectMessage> = unstored
        .map(|(trial, id)| direct_message(cx.project, *id, vec![trial.person], &content(&campaign, trial)))
        .collect();
    if !messages.is_empty() {
        publish_all(cx, campaign.channel, messages).await?;
    }
    let until = wait.map(|seconds| started + Duration::from_secs(seconds));
    let mut shown = Vec::with_capacity(trials.len());
    for (trial, id) in trials.into_iter().zip(ids) {
        let message = match until {
            Some(until) => outcome(cx, id, until).await,
            None => None,
        };
        let by_now = message.map(|m| (m.status, m.status_reason)).or_else(|| stored.get(&id).cloned());
        let (status, status_reason) = by_now.unwrap_or((DeliveryState::Queued, None));
        let Trial { user, to, variant, .. } = trial;
        shown.push(TrialView { id, user_id: user, to, variant, status: status.as_str(), status_reason });
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
fn content(campaign: &Campaign, trial: &Trial) -> DirectInput {
    let mut content = json!({ "test": true });
    if let Some(to) = &trial.to {
        content["to"] = to.as_str().into();
    }
    DirectInput {
        user: String::new(),
        channel: campaign.channel,
        content,
        template_id: trial.template_id,
        data: campaign.data(),
    }
}

/// Combines every target with every requested template.
async fn trials(
    cx: &Context<'_>,
    tx: &Transaction<'_>,
    campaign: &Campaign,
    (asked, id_type): (Asked, IdType),
) -> Result<Vec<Trial>, ApiError> {
    let mut problems = Vec::new();
    let mut targets = Vec::new();
    for (i, user) in asked.user_ids.into_iter().enumerate() {
        match people::find_id(tx, cx.project, UserRef::new(&user, id_type)).await? {
            Some(person) => targets.push(Target { user: Some(user), to: None, person }),
            None => problems.push(Problem::new(format!("userIds[{i}]"), "no such user in this project")),
        }
    }
    let seen_as = match &asked.as_user {
        None => Some(Uuid::nil()),
        Some(user) => people::find_id(tx, cx.project, UserRef::new(user, id_type)).await?,
    };
    if seen_as.is_none() {
        problems.push(Problem::new("asUserId", "no such user in this project"));
    }
    if !problems.is_empty() {
        return Err(ApiError::Invalid(problems));
    }
    let person = seen_as.unwrap_or_default();
    targets.extend(asked.to.into_iter().map(|to| Target { user: None, to: Some(to), person }));
    let variants = &campaign.settings.variants;
    let mut templates: Vec<(Option<String>, Option<Uuid>)> = variants
        .iter()
        .filter(|variant| asked.variant.as_ref().is_none_or(|name| *name == variant.name))
        .map(|variant| (Some(variant.name.clone()), Some(variant.template_id)))
        .collect();
    if variants.is_empty() {
        templates.push((None, campaign.template_id));
    }
    let mut trials = Vec::with_capacity(targets.len() * templates.len());
    for Target { user, to, person } in targets {
        for (variant, template_id) in &templates {
            let (user, to, variant) = (user.clone(), to.clone(), variant.clone());
            trials.push(Trial { user, to, variant, template_id: *template_id, person });
        }
    }
    Ok(trials)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeat_gets_the_same_ids_and_each_message_its_own() {
        let first = ids::fresh(1_790_000_000_000);
        assert_eq!(message_id(first, 1), message_id(first, 1));
        assert_ne!(message_id(first, 0), message_id(first, 1));
        assert_eq!(ids::time_ms(message_id(first, 7)), ids::time_ms(first));
    }
}
