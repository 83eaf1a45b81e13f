//! Applies bounces, complaints and unsubscriptions to the suppression list.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use database::{StoreError, Transaction};
use domain::message::{Channel, DeliveryState};
use domain::suppression::{ADDRESS_CHANNELS, Address, Reason};
use jiff::Timestamp;
use kernel::ids::ProjectId;
use serde_json::Value;
use store_profiles::users::recipient;
use store_profiles::users::record::ProjectUserId;
use store_sending::suppressions::{self, MessageRecipient, Suppression};
use uuid::Uuid;

use crate::ingest::item::{Action, Item};
use crate::record::batch_users::BatchUsers;

/// Webhook kind of an unsubscription. Our own unsubscribe links publish the same kind.
pub const UNSUBSCRIBED: &str = "message.unsubscribed";
/// Provider names for a temporary bounce, after which a later message may arrive.
const SOFT_BOUNCE_TYPES: [&str; 5] = ["soft", "transient", "temporary", "softbounce", "soft_bounce"];

/// What an item reports about the address of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressReport {
    Bounced {
        soft: bool,
    },
    Complained,
    /// `channel` is set if the link or webhook names it.
    Unsubscribed {
        channel: Option<Channel>,
    },
    Arrived,
}

impl AddressReport {
    /// Returns the report in an item and the ID of its message.
    ///
    /// Only an unsubscription may lack a message ID: it can name a user instead.
    pub fn of(item: &Item) -> Option<(Option<Uuid>, Self)> {
        let Action::Webhook { kind, properties } = &item.action else { return None };
        if kind != UNSUBSCRIBED && DeliveryState::from_webhook_kind(kind).is_none() {
            // Any other webhook: do not parse its properties.
            return None;
        }
        let about: Value = serde_json::from_str(properties.as_str()).ok()?;
        let report = Self::from_webhook(kind, &about)?;
        let message = about.get("messageId").and_then(|id| Uuid::try_parse(id.as_str()?).ok());
        (message.is_some() || matches!(report, Self::Unsubscribed { .. })).then_some((message, report))
    }

    fn from_webhook(kind: &str, about: &Value) -> Option<Self> {
        if kind == UNSUBSCRIBED {
            let channel = about.get("channel").and_then(|channel| Channel::parse(channel.as_str()?));
            return Some(Self::Unsubscribed { channel });
        }
        Some(match DeliveryState::from_webhook_kind(kind)? {
            DeliveryState::Bounced => Self::Bounced { soft: is_soft(about) },
            DeliveryState::Complained => Self::Complained,
            DeliveryState::Delivered | DeliveryState::Opened | DeliveryState::Clicked => Self::Arrived,
            _ => return None,
        })
    }
}

/// Reads `bounceType`, `bounce_type` or `type`. A bounce without any of them is hard.
fn is_soft(about: &Value) -> bool {
    let kind = ["bounceType", "bounce_type", "type"].into_iter().find_map(|name| about.get(name)?.as_str());
    kind.is_some_and(|kind| SOFT_BOUNCE_TYPES.contains(&kind.to_lowercase().as_str()))
}

/// An item, the ID of its message if it names one, and the report.
pub type ItemReport<'a> = (&'a Item, Option<Uuid>, AddressReport);

/// Returns the link unsubscriptions whose addresses had already unsubscribed.
///
/// They are not recorded as events and start nothing, because users and mail programs follow links repeatedly.
/// [`store`] still puts the address on the list, in case it was removed in the meantime.
pub async fn repeated(
    tx: &Transaction<'_>,
    items: &[&Item],
    users: &BatchUsers,
) -> Result<HashSet<(ProjectId, Uuid)>, StoreError> {
    let mut by_link: BTreeMap<ProjectId, Vec<ItemReport<'_>>> = BTreeMap::new();
    for item in items {
        if let Action::Webhook { kind, properties } = &item.action
            && kind == UNSUBSCRIBED
            && serde_json::from_str::<Value>(properties.as_str()).is_ok_and(|about| about["source"] == "link")
            && let Some((message, report)) = AddressReport::of(item)
        {
            by_link.entry(item.project).or_default().push((item, message, report));
        }
    }
    let mut repeated = HashSet::new();
    for (project, reports) in by_link {
        let messages: Vec<Uuid> = reports.iter().filter_map(|(_, message, _)| *message).collect();
        let addresses = addresses(tx, project, &messages, users).await?;
        let of = |report: &ItemReport<'_>| addresses_of(report, &addresses, users);
        let named: BTreeSet<Address> = reports.iter().flat_map(of).collect();
        let listed = suppressions::reasons(tx, project, &named.into_iter().collect::<Vec<_>>()).await?;
        let mut left: HashSet<Address> = HashSet::new();
        left.extend(
            listed.into_iter().filter(|(_, why)| why.contains(&Reason::Unsubscribed)).map(|(address, _)| address),
        );
        for item in items.iter().filter(|item| item.project == project) {
            if matches!(&item.action, Action::Subscribe(chosen) if chosen.resubscribe) {
                // Clears all addresses, not only this user's: at worst a repeat is recorded as an event.
                left.clear();
            }
            let addresses = reports.iter().find(|(of, ..)| std::ptr::eq(*of, *item)).map(of).unwrap_or_default();
            if !addresses.is_empty() && addresses.iter().all(|address| left.contains(address)) {
                repeated.insert((project, item.id));
            }
            left.extend(addresses);
        }
    }
    Ok(repeated)
}

/// Returns the users who may be put on the list by user ID rather than by address.
///
/// They must be locked: this prevents a concurrent merge and reveals an earlier one.
pub async fn users_to_lock(tx: &Transaction<'_>, items: &[&Item]) -> Result<Vec<ProjectUserId>, StoreError> {
    let mut messages: BTreeMap<ProjectId, Vec<Uuid>> = BTreeMap::new();
    for item in items {
        if let Some((Some(message), report)) = AddressReport::of(item)
            && report != AddressReport::Arrived
        {
            messages.entry(item.project).or_default().push(message);
        }
    }
    let mut users = Vec::new();
    for (project, messages) in messages {
        let recipients = suppressions::recipients(tx, project, &messages).await?;
        let themselves =
            recipients.into_values().filter(|r| r.address.is_none() || !ADDRESS_CHANNELS.contains(&r.channel));
        users.extend(themselves.map(|recipient| (project, recipient.user_id)));
    }
    Ok(users)
}

/// Stores the reports about one project's messages.
pub async fn store(
    tx: &Transaction<'_>,
    project: ProjectId,
    reports: &[ItemReport<'_>],
    users: &BatchUsers,
) -> Result<(), StoreError> {
    let messages: Vec<Uuid> = reports.iter().filter_map(|(_, message, _)| *message).collect();
    let addresses = addresses(tx, project, &messages, users).await?;
    let arrived = reports.iter().filter(|(_, _, report)| *report == AddressReport::Arrived);
    let arrived: Vec<Address> = arrived.flat_map(|report| addresses_of(report, &addresses, users)).collect();
    suppressions::reset_soft_bounces(tx, project, &arrived).await?;
    let mut new = Vec::new();
    for of @ (item, message, report) in reports {
        for address in addresses_of(of, &addresses, users) {
            let reason = match report {
                AddressReport::Arrived => continue,
                AddressReport::Bounced { soft: true } => {
                    let Some((user, _)) = message.and_then(|id| addresses.get(&id)) else { continue };
                    if !suppressions::record_soft_bounce(tx, (project, *user), &address).await? {
                        continue;
                    }
                    Reason::Bounced
                }
                AddressReport::Bounced { soft: false } => Reason::Bounced,
                AddressReport::Complained => Reason::Complained,
                AddressReport::Unsubscribed { .. } => Reason::Unsubscribed,
            };
            let suppression = Suppression::new(project, address, reason, item.timestamp);
            new.push(Suppression { message_id: *message, ..suppression });
        }
    }
    suppressions::put(tx, project, &new).await?;
    suppressions::renew_unsubscriptions(tx, project, &new).await
}

/// Ends a user's unsubscription from everything.
///
/// Removes the user's own entries and that of the address the message went to. If the message's row was deleted,
/// removes those of the user's current addresses that the message's link unsubscribed. No other address in a profile is
/// known to be the user's.
pub async fn resubscribe(
    tx: &Transaction<'_>,
    (project, user_id): ProjectUserId,
    message: Option<Uuid>,
    until: Timestamp,
) -> Result<(), StoreError> {
    let recipients = suppressions::recipients(tx, project, message.as_slice()).await?;
    let mut own = Vec::new();
    if let Some(message) = message.filter(|message| !recipients.contains_key(message))
        && let Some(user) = recipient::load(tx, project, &[user_id]).await?.remove(&user_id)
    {
        own = suppressions::unsubscribed_by(tx, project, message, &user).await?;
    }
    own.extend(recipients.into_values().filter_map(|to| Some(Address { channel: to.channel, text: to.address? })));
    own.extend(Channel::ALL.map(|channel| Address::for_user(channel, user_id)));
    suppressions::resubscribe(tx, project, &own, until).await
}

/// Returns the addresses that a report concerns: normally the one the message went to.
///
/// Without the message's row, only an unsubscription counts, and it applies to the user: on the channel it names; on
/// every channel with addresses if it names a message but no channel (a link made by an earlier version); or on email
/// if it names neither.
fn addresses_of(
    (item, message, report): &ItemReport<'_>,
    of: &HashMap<Uuid, RecipientAddress>,
    users: &BatchUsers,
) -> Vec<Address> {
    if let Some((_, address)) = message.and_then(|id| of.get(&id)) {
        return vec![address.clone()];
    }
    let (AddressReport::Unsubscribed { channel }, Some((_, user))) = (report, users.of(item)) else {
        return Vec::new();
    };
    let channels = match (channel, message) {
        (Some(channel), _) => vec![*channel],
        (None, Some(_)) => ADDRESS_CHANNELS.to_vec(),
        (None, None) => vec![Channel::Email],
    };
    channels.into_iter().map(|channel| Address::for_user(channel, user)).collect()
}

/// A message's recipient and the address that it went to.
type RecipientAddress = (Uuid, Address);

/// Returns the recipient and address of each message. For an unsent message, this is the user's current address.
async fn addresses(
    tx: &Transaction<'_>,
    project: ProjectId,
    messages: &[Uuid],
    users: &BatchUsers,
) -> Result<HashMap<Uuid, RecipientAddress>, StoreError> {
    let recipients = suppressions::recipients(tx, project, messages).await?;
    let unsent = recipients.values().filter(|r| r.address.is_none()).map(|r| r.user_id);
    let loaded = recipient::load(tx, project, &unsent.collect::<Vec<_>>()).await?;
    let themselves = |channel, user_id| Address::for_user(channel, users.resolve((project, user_id)).1);
    let address = |MessageRecipient { user_id, channel, address }: MessageRecipient| match (channel, address) {
        (Channel::Email | Channel::Sms, Some(text)) => Address { channel, text },
        (Channel::Push | Channel::InApp, _) => themselves(channel, user_id),
        (Channel::Email | Channel::Sms, None) => {
            let own = loaded.get(&user_id).and_then(|user| user.address(channel));
            own.unwrap_or_else(|| themselves(channel, user_id))
        }
    };
    Ok(recipients.into_iter().map(|(message, recipient)| (message, (recipient.user_id, address(recipient)))).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn webhook_kinds_map_to_address_reports() {
        let hard = AddressReport::Bounced { soft: false };
        for (kind, about, report) in [
            ("message.unsubscribed", json!({}), Some(AddressReport::Unsubscribed { channel: None })),
            ("message.unsubscribed", json!({"channel": "fax"}), Some(AddressReport::Unsubscribed { channel: None })),
            (
                "message.unsubscribed",
                json!({"channel": "SMS"}),
                Some(AddressReport::Unsubscribed { channel: Some(Channel::Sms) }),
            ),
            ("message.complained", json!({}), Some(AddressReport::Complained)),
            ("message.bounced", json!({}), Some(hard)),
            ("message.bounced", json!({"type": "hard"}), Some(hard)),
            ("message.bounced", json!({"type": "Permanent"}), Some(hard)),
            ("message.bounced", json!({"bounceType": "Transient"}), Some(AddressReport::Bounced { soft: true })),
            ("message.bounced", json!({"type": "soft"}), Some(AddressReport::Bounced { soft: true })),
            ("message.delivered", json!({}), Some(AddressReport::Arrived)),
            ("message.clicked", json!({}), Some(AddressReport::Arrived)),
            ("message.failed", json!({}), None),
            ("payment.failed", json!({}), None),
        ] {
            assert_eq!(AddressReport::from_webhook(kind, &about), report, "{kind} {about}");
        }
    }
}
