//! A user's subscription preferences. Changes are published to the event stream, like those of the profile.

use database::Connection;
use domain::subscription::{GROUPS_MAX, Source};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value, json};
use store_profiles::subscriptions::{self, Subscription};
use uuid::Uuid;
use wire::event::{Body, Choice, Subscribe, id_bytes};

use super::change::{apply, find, record_audit};
use crate::context::Context;
use crate::http::body::MAX_BYTES;
use crate::http::error::ApiError;
use crate::http::fields::{Element, Fields};
use crate::http::respond::{Reply, ok};
use crate::resources::{path_params, time_format};

#[derive(Serialize)]
struct SubscriptionsView {
    groups: Vec<SubscriptionView>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SubscriptionView {
    id: Uuid,
    name: String,
    subscribed: bool,
    /// How the user made this choice; `None` if the group's default applies.
    source: Option<&'static str>,
    #[serde(serialize_with = "time_format::maybe_time")]
    changed_at: Option<Timestamp>,
}

impl From<Subscription> for SubscriptionView {
    fn from(subscription: Subscription) -> Self {
        Self {
            id: subscription.group.id,
            subscribed: subscription.is_subscribed(),
            source: subscription.chosen.map(|(_, source, _)| source.as_str()),
            changed_at: subscription.chosen.map(|(.., at)| at),
            name: subscription.group.name,
        }
    }
}

/// Fields of the response that a request may not set.
const READ_ONLY: &[&str] = &["name", "source", "changedAt"];

/// `GET /users/:id/subscriptions`
pub async fn get(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let user = find(cx, &path_params::text(segment, "user")?).await?;
    reply(cx, user.id).await
}

/// `PUT /users/:id/subscriptions`
pub async fn change(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let id = path_params::text(segment, "user")?;
    let body = cx.read_json(MAX_BYTES).await?;
    let user = find(cx, &id).await?;
    let existing = subscriptions::of_user(&cx.database().await?, cx.project, user.id).await?;
    let chosen = chosen(&body, &existing)?;
    // Repeating a stored choice is not a change.
    let is_change = |(id, subscribed): &(Uuid, bool)| {
        let before = existing.iter().find(|s| s.group.id == *id).and_then(|s| s.chosen);
        before.is_none_or(|(before, ..)| before != *subscribed)
    };
    let choices: Vec<(Uuid, bool)> = chosen.into_iter().filter(is_change).collect();
    if !choices.is_empty() {
        if cx.caller.is_session() {
            record_audit(cx, "user.subscriptions_updated", &user, json!({ "groups": choices.len() })).await?;
        }
        let choice = |(group, subscribed): (Uuid, bool)| Choice { group_id: id_bytes(group), subscribed };
        let body = Subscribe {
            user_id: id_bytes(user.id),
            choices: choices.into_iter().map(choice).collect(),
            source: Source::Api.as_str().to_owned(),
            ..Subscribe::default()
        };
        apply(cx, &user, Body::Subscribe(body)).await?;
    }
    reply(cx, user.id).await
}

async fn reply(cx: &Context<'_>, user: Uuid) -> Result<Reply, ApiError> {
    ok(&SubscriptionsView { groups: of(cx, &cx.database().await?, user).await? })
}

/// Returns a user's preference for each of the project's groups.
pub(super) async fn of(cx: &Context<'_>, db: &Connection, user: Uuid) -> Result<Vec<SubscriptionView>, ApiError> {
    let found = subscriptions::of_user(db, cx.project, user).await?;
    Ok(found.into_iter().map(SubscriptionView::from).collect())
}

/// Reads `{ groups: [{ id, subscribed }] }`. If a group occurs twice, the last one counts.
fn chosen(body: &Map<String, Value>, existing: &[Subscription]) -> Result<Vec<(Uuid, bool)>, ApiError> {
    let mut fields = Fields::of(body);
    if fields.is_null("groups") || !fields.has("groups") {
        fields.problem("groups", "is required");
    }
    let elements = fields.array("groups", 0..=GROUPS_MAX).unwrap_or_default();
    let mut chosen: Vec<(Uuid, bool)> = Vec::with_capacity(elements.len());
    for (id, subscribed) in elements.iter().filter_map(|element| read_choice(element, existing)) {
        chosen.retain(|(before, _)| *before != id);
        chosen.push((id, subscribed));
    }
    fields.finish()?;
    Ok(chosen)
}

fn read_choice(element: &Element<'_>, existing: &[Subscription]) -> Option<(Uuid, bool)> {
    let mut fields = element.object()?;
    fields.read_only(READ_ONLY);
    fields.not_null(&["id", "subscribed"]);
    for name in ["id", "subscribed"] {
        if !fields.has(name) {
            fields.problem(name, "is required");
        }
    }
    let subscribed = fields.boolean("subscribed");
    let id = fields.element("id").filter(|element| !element.value().is_null()).and_then(|element| {
        let id = element.value().as_str().and_then(|text| Uuid::try_parse(text).ok());
        let found = id.filter(|id| existing.iter().any(|subscription| subscription.group.id == *id));
        if found.is_none() {
            element.problem("no such subscription group in this project");
        }
        found
    });
    fields.done();
    Some((id?, subscribed?))
}
