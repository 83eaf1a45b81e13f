//! Applies receipts of sent messages: events that the SDKs record on devices, and webhooks from providers and the
//! project's own systems.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use automation::TriggerType;
use database::{StoreError, Transaction};
use domain::message::{Channel, DeliveryState};
use domain::webhook;
use jiff::Timestamp;
use kernel::ids::ProjectId;
use kernel::metric_name::Metric;
use serde::Deserialize;
use store_profiles::users::record::{self as users, PersonKey};
use store_sending::messages::receipts::{self, Receipt};
use store_sending::suppressions;
use store_sending::webhook_deliveries::tell::MessageNews;
use uuid::Uuid;

use crate::automations::matching::Index;
use crate::ingest::item::{Action, Item};
use crate::record::endpoints::Asked;
use crate::record::new_event::NewEvent;
use crate::record::people::People;
use crate::record::suppression::{self, Told, ToldOf};

/// Returns the delivery state that an SDK's push event reports.
fn of_event(name: &str) -> Option<DeliveryState> {
    match name {
        "push_received" => Some(DeliveryState::Delivered),
        "push_opened" => Some(DeliveryState::Opened),
        _ => None,
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct About {
    message_id: Uuid,
    /// Used only if it is a string.
    #[serde(default)]
    reason: serde_json::Value,
    /// The clicked URL. Used only if it is a string.
    #[serde(default)]
    url: serde_json::Value,
}

/// Returns the receipt in an item, if it has one.
fn told(item: &Item) -> Option<Receipt> {
    let (state, properties) = match &item.action {
        Action::Track { name, properties } => (of_event(name)?, properties),
        Action::Webhook { kind, properties } => (DeliveryState::told_by(kind)?, properties),
        _ => return None,
    };
    // Event properties are arbitrary: without a message ID, this is an ordinary event.
    let about: About = serde_json::from_str(properties.as_str()).ok()?;
    let reason = about.reason.as_str().map(|text| text.chars().take(REASON_MAX).collect());
    let url = about.url.as_str().filter(|url| state == DeliveryState::Clicked && (1..=URL_MAX).contains(&url.len()));
    Some(Receipt { message: about.message_id, state, at: item.timestamp, reason, url: url.map(str::to_owned) })
}

/// Maximum length of a stored reason, in characters.
const REASON_MAX: usize = 500;
/// Maximum length of a counted URL, in bytes. Longer URLs are not tracked either.
const URL_MAX: usize = 1_500;

/// Messages and the states that they reached for the first time.
pub type Reached = HashSet<(ProjectId, Uuid, DeliveryState)>;

/// Applies the items' receipts to their messages and to the suppression list. Returns the states reached for the first
/// time.
pub async fn store(
    tx: &Transaction<'_>,
    items: &[&Item],
    people: &People,
    now: Timestamp,
) -> Result<Reached, StoreError> {
    let mut by_project: BTreeMap<ProjectId, Vec<(&Item, Receipt)>> = BTreeMap::new();
    for item in items {
        if let Some(receipt) = told(item) {
            by_project.entry(item.project).or_default().push((item, receipt));
        }
    }
    let mut reached = Reached::new();
    for (project, told) in by_project {
        let told = without_others_pushes(tx, project, told, people).await?;
        let of_project = receipts::apply(tx, project, &told, now).await?;
        metrics::counter!(Metric::WebhooksIgnored).increment(of_project.unknown as u64);
        reached.extend(of_project.reached.into_iter().map(|(message, state)| (project, message, state)));
    }
    let mut of_addresses: BTreeMap<ProjectId, Vec<ToldOf<'_>>> = BTreeMap::new();
    for item in items {
        if let Some((message, told)) = Told::of(item) {
            of_addresses.entry(item.project).or_default().push((item, message, told));
        }
    }
    for (project, told) in of_addresses {
        suppression::store(tx, project, &told, people).await?;
    }
    Ok(reached)
}

/// Drops receipts from events unless the message is a push to the event's own user.
///
/// Anyone who has a public key can send such an event.
async fn without_others_pushes(
    tx: &Transaction<'_>,
    project: ProjectId,
    told: Vec<(&Item, Receipt)>,
    people: &People,
) -> Result<Vec<Receipt>, StoreError> {
    let is_event = |item: &Item| matches!(item.action, Action::Track { .. });
    let messages: Vec<Uuid> =
        told.iter().filter(|(item, _)| is_event(item)).map(|(_, receipt)| receipt.message).collect();
    let recipients = suppressions::recipients(tx, project, &messages).await?;
    let users: BTreeSet<PersonKey> = recipients.values().map(|of| (project, of.user_id)).collect();
    let found = users::find(tx, &users.into_iter().collect::<Vec<_>>()).await?;
    let merged: HashMap<Uuid, Uuid> = found.iter().filter_map(|user| Some((user.key.1, user.merged_into?))).collect();
    let is_own_push = |item: &Item, message: Uuid| {
        let (Some(of), Some((_, user))) = (recipients.get(&message), people.of(item)) else { return false };
        let (_, recipient) = people.resolve((project, of.user_id));
        of.channel == Channel::Push && (recipient == user || merged.get(&of.user_id) == Some(&user))
    };
    let counts = |(item, receipt): &(&Item, Receipt)| !is_event(item) || is_own_push(item, receipt.message);
    Ok(told.into_iter().filter(counts).map(|(_, receipt)| receipt).collect())
}

/// A receipt that an automation waits for, with the message's user. It is not recorded as an event.
pub struct Awaited<'a> {
    item: &'a Item,
    kind: &'a str,
    properties: &'a str,
    message: Uuid,
    state: DeliveryState,
    /// The user before merges are followed.
    pub person: PersonKey,
}

/// Finds the receipts that automations wait for. Without any, which is the usual case, it runs no query.
pub async fn awaited<'a>(
    tx: &Transaction<'_>,
    index: &Index,
    items: &[&'a Item],
) -> Result<Vec<Awaited<'a>>, StoreError> {
    let mut found = Vec::new();
    for item in items.iter().copied() {
        let Action::Webhook { kind, properties } = &item.action else { continue };
        let starts = || index.started_by(item.project, Some(TriggerType::Webhook), kind).next().is_some();
        if DeliveryState::told_by(kind).is_some()
            && (starts() || index.listeners(item.project, kind).are_possible())
            && let Some(Receipt { message, state, .. }) = told(item)
        {
            let person = (item.project, Uuid::nil());
            found.push(Awaited { item, kind, properties: properties.as_str(), message, state, person });
        }
    }
    let projects: HashSet<ProjectId> = found.iter().map(|awaited| awaited.item.project).collect();
    for project in projects {
        let of_project = || found.iter().filter(|awaited| awaited.item.project == project);
        let messages: Vec<Uuid> = of_project().map(|awaited| awaited.message).collect();
        let recipients = suppressions::recipients(tx, project, &messages).await?;
        for awaited in found.iter_mut().filter(|awaited| awaited.item.project == project) {
            awaited.person.1 = recipients.get(&awaited.message).map_or(Uuid::nil(), |of| of.user_id);
        }
    }
    // The user of a message that is no longer stored is unknown.
    found.retain(|awaited| awaited.person.1 != Uuid::nil());
    Ok(found)
}

/// Returns the receipts to report to automations: every click, and every other state only when a message first reaches
/// it.
///
/// Drops the receipts of users who no longer exist.
pub fn news<'a>(awaited: Vec<Awaited<'a>>, mut reached: Reached, people: &People) -> Vec<NewEvent<'a>> {
    let mut is_news = |awaited: &Awaited<'_>| {
        let is_first = reached.remove(&(awaited.item.project, awaited.message, awaited.state));
        is_first || awaited.state == DeliveryState::Clicked
    };
    let told = awaited.into_iter().filter(|awaited| is_news(awaited)).map(|awaited| {
        let Awaited { item, kind, properties, person, .. } = awaited;
        NewEvent { item, person: people.resolve(person), name: kind, properties }
    });
    told.filter(|event| people.profile(event.person).is_some()).collect()
}

/// Returns the notifications for webhook endpoints, by project: every click, and every other state only once, as for
/// automations.
pub fn for_endpoints(asked: &Asked, items: &[&Item], reached: &Reached) -> BTreeMap<ProjectId, Vec<MessageNews>> {
    let mut found: BTreeMap<ProjectId, Vec<MessageNews>> = BTreeMap::new();
    if asked.is_empty() {
        return found;
    }
    let mut left = reached.clone();
    for item in items {
        let Some(Receipt { message, state, at, reason, url }) = told(item) else { continue };
        let is_first = left.remove(&(item.project, message, state));
        let Some(kind) = webhook::type_of(state).filter(|_| is_first || state == DeliveryState::Clicked) else {
            continue;
        };
        if asked.asks(item.project, kind) {
            found.entry(item.project).or_default().push(MessageNews { message, kind, at, reason, url });
        }
    }
    found
}
