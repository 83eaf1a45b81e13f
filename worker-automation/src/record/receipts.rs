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
use store_profiles::users::record::{self as user_rows, ProjectUserId};
use store_sending::messages::receipts::{self, Receipt};
use store_sending::suppressions;
use store_sending::webhook_deliveries::enqueue::MessageEvent;
use uuid::Uuid;

use crate::automations::matching::Index;
use crate::ingest::item::{Action, Item};
use crate::record::batch_users::BatchUsers;
use crate::record::endpoints::EventSubscriptions;
use crate::record::new_event::NewEvent;
use crate::record::suppression::{self, AddressReport, ItemReport};

/// Returns the delivery state that an SDK's push event reports.
fn push_event_state(name: &str) -> Option<DeliveryState> {
    match name {
        "push_received" => Some(DeliveryState::Delivered),
        "push_opened" => Some(DeliveryState::Opened),
        _ => None,
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MessageProperties {
    message_id: Uuid,
    /// Used only if it is a string.
    #[serde(default)]
    reason: serde_json::Value,
    /// The clicked URL. Used only if it is a string.
    #[serde(default)]
    url: serde_json::Value,
}

/// Returns the receipt in an item, if it has one.
fn receipt_of(item: &Item) -> Option<Receipt> {
    let (state, properties) = match &item.action {
        Action::Track { name, properties } => (push_event_state(name)?, properties),
        Action::Webhook { kind, properties } => (DeliveryState::from_webhook_kind(kind)?, properties),
        _ => return None,
    };
    // Event properties are arbitrary: without a message ID, this is an ordinary event.
    let about: MessageProperties = serde_json::from_str(properties.as_str()).ok()?;
    let reason = about.reason.as_str().map(|text| text.chars().take(MAX_REASON_CHARS).collect());
    let url =
        about.url.as_str().filter(|url| state == DeliveryState::Clicked && (1..=MAX_URL_BYTES).contains(&url.len()));
    Some(Receipt { message: about.message_id, state, at: item.timestamp, reason, url: url.map(str::to_owned) })
}

/// Maximum length of a stored reason, in characters.
const MAX_REASON_CHARS: usize = 500;
/// Maximum length of a counted URL, in bytes. Longer URLs are not tracked either.
const MAX_URL_BYTES: usize = 1_500;

/// Messages and the states that they reached for the first time.
pub type Reached = HashSet<(ProjectId, Uuid, DeliveryState)>;

/// Applies the items' receipts to their messages and to the suppression list. Returns the states reached for the first
/// time.
pub async fn store(
    tx: &Transaction<'_>,
    items: &[&Item],
    users: &BatchUsers,
    now: Timestamp,
) -> Result<Reached, StoreError> {
    let mut by_project: BTreeMap<ProjectId, Vec<(&Item, Receipt)>> = BTreeMap::new();
    for item in items {
        if let Some(receipt) = receipt_of(item) {
            by_project.entry(item.project).or_default().push((item, receipt));
        }
    }
    let mut reached = Reached::new();
    for (project, reports) in by_project {
        let reports = drop_receipts_of_other_users(tx, project, reports, users).await?;
        let of_project = receipts::apply(tx, project, &reports, now).await?;
        metrics::counter!(Metric::WebhooksIgnored).increment(of_project.unknown as u64);
        reached.extend(of_project.reached.into_iter().map(|(message, state)| (project, message, state)));
    }
    let mut reports_by_project: BTreeMap<ProjectId, Vec<ItemReport<'_>>> = BTreeMap::new();
    for item in items {
        if let Some((message, report)) = AddressReport::of(item) {
            reports_by_project.entry(item.project).or_default().push((item, message, report));
        }
    }
    for (project, reports) in reports_by_project {
        suppression::store(tx, project, &reports, users).await?;
    }
    Ok(reached)
}

/// Drops receipts from events unless the message is a push to the event's own user.
///
/// Anyone who has a public key can send such an event.
async fn drop_receipts_of_other_users(
    tx: &Transaction<'_>,
    project: ProjectId,
    reports: Vec<(&Item, Receipt)>,
    users: &BatchUsers,
) -> Result<Vec<Receipt>, StoreError> {
    let is_event = |item: &Item| matches!(item.action, Action::Track { .. });
    let messages: Vec<Uuid> =
        reports.iter().filter(|(item, _)| is_event(item)).map(|(_, receipt)| receipt.message).collect();
    let recipients = suppressions::recipients(tx, project, &messages).await?;
    let recipient_keys: BTreeSet<ProjectUserId> = recipients.values().map(|of| (project, of.user_id)).collect();
    let found = user_rows::find(tx, &recipient_keys.into_iter().collect::<Vec<_>>()).await?;
    let merged: HashMap<Uuid, Uuid> = found.iter().filter_map(|user| Some((user.key.1, user.merged_into?))).collect();
    let is_own_push = |item: &Item, message: Uuid| {
        let (Some(of), Some((_, user))) = (recipients.get(&message), users.of(item)) else { return false };
        let (_, recipient) = users.resolve((project, of.user_id));
        of.channel == Channel::Push && (recipient == user || merged.get(&of.user_id) == Some(&user))
    };
    let counts = |(item, receipt): &(&Item, Receipt)| !is_event(item) || is_own_push(item, receipt.message);
    Ok(reports.into_iter().filter(counts).map(|(_, receipt)| receipt).collect())
}

/// A receipt that an automation waits for, with the message's user. It is not recorded as an event.
pub struct AwaitedReceipt<'a> {
    item: &'a Item,
    kind: &'a str,
    properties: &'a str,
    message: Uuid,
    state: DeliveryState,
    /// The user before merges are followed.
    pub user: ProjectUserId,
}

/// Finds the receipts that automations wait for. Without any, which is the usual case, it runs no query.
pub async fn awaited<'a>(
    tx: &Transaction<'_>,
    index: &Index,
    items: &[&'a Item],
) -> Result<Vec<AwaitedReceipt<'a>>, StoreError> {
    let mut found = Vec::new();
    for item in items.iter().copied() {
        let Action::Webhook { kind, properties } = &item.action else { continue };
        let starts = || index.started_by(item.project, Some(TriggerType::Webhook), kind).next().is_some();
        if DeliveryState::from_webhook_kind(kind).is_some()
            && (starts() || index.listeners(item.project, kind).exist())
            && let Some(Receipt { message, state, .. }) = receipt_of(item)
        {
            let user = (item.project, Uuid::nil());
            found.push(AwaitedReceipt { item, kind, properties: properties.as_str(), message, state, user });
        }
    }
    let projects: HashSet<ProjectId> = found.iter().map(|awaited| awaited.item.project).collect();
    for project in projects {
        let of_project = || found.iter().filter(|awaited| awaited.item.project == project);
        let messages: Vec<Uuid> = of_project().map(|awaited| awaited.message).collect();
        let recipients = suppressions::recipients(tx, project, &messages).await?;
        for awaited in found.iter_mut().filter(|awaited| awaited.item.project == project) {
            awaited.user.1 = recipients.get(&awaited.message).map_or(Uuid::nil(), |of| of.user_id);
        }
    }
    // The user of a message that is no longer stored is unknown.
    found.retain(|awaited| awaited.user.1 != Uuid::nil());
    Ok(found)
}

/// Returns the receipts to report to automations: every click, and every other state only when a message first reaches
/// it.
///
/// Drops the receipts of users who no longer exist.
pub fn new_receipts<'a>(
    awaited: Vec<AwaitedReceipt<'a>>,
    mut reached: Reached,
    users: &BatchUsers,
) -> Vec<NewEvent<'a>> {
    let mut is_new = |awaited: &AwaitedReceipt<'_>| {
        let is_first = reached.remove(&(awaited.item.project, awaited.message, awaited.state));
        is_first || awaited.state == DeliveryState::Clicked
    };
    let reports = awaited.into_iter().filter(|awaited| is_new(awaited)).map(|awaited| {
        let AwaitedReceipt { item, kind, properties, user, .. } = awaited;
        NewEvent { item, user: users.resolve(user), name: kind, properties }
    });
    reports.filter(|event| users.profile(event.user).is_some()).collect()
}

/// Returns the notifications for webhook endpoints, by project: every click, and every other state only once, as for
/// automations.
pub fn endpoint_notifications(
    subscriptions: &EventSubscriptions,
    items: &[&Item],
    reached: &Reached,
) -> BTreeMap<ProjectId, Vec<MessageEvent>> {
    let mut found: BTreeMap<ProjectId, Vec<MessageEvent>> = BTreeMap::new();
    if subscriptions.is_empty() {
        return found;
    }
    let mut left = reached.clone();
    for item in items {
        let Some(Receipt { message, state, at, reason, url }) = receipt_of(item) else { continue };
        let is_first = left.remove(&(item.project, message, state));
        let Some(kind) = webhook::type_of(state).filter(|_| is_first || state == DeliveryState::Clicked) else {
            continue;
        };
        if subscriptions.includes(item.project, kind) {
            found.entry(item.project).or_default().push(MessageEvent { message, kind, at, reason, url });
        }
    }
    found
}
