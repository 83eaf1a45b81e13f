//! Applies bounces, complaints and unsubscriptions to the suppression list.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use database::{StoreError, Transaction};
use domain::message::{Channel, DeliveryState};
use domain::suppression::{Address, Reason, WITH_ADDRESSES};
use jiff::Timestamp;
use kernel::ids::ProjectId;
use serde_json::Value;
use store_profiles::users::recipient;
use store_profiles::users::record::PersonKey;
use store_sending::suppressions::{self, Recipient, Suppression};
use uuid::Uuid;

use crate::ingest::item::{Action, Item};
use crate::record::people::People;

/// Webhook kind of an unsubscription. Our own unsubscribe links publish the same kind.
pub const UNSUBSCRIBED: &str = "message.unsubscribed";
/// Provider names for a temporary bounce, after which a later message may arrive.
const SOFT: [&str; 5] = ["soft", "transient", "temporary", "softbounce", "soft_bounce"];

/// What an item reports about the address of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    Bounced {
        softly: bool,
    },
    Complained,
    /// `channel` is set if the link or webhook names it.
    Unsubscribed {
        channel: Option<Channel>,
    },
    Arrived,
}

impl Told {
    /// Returns the report in an item and the ID of its message.
    ///
    /// Only an unsubscription may lack a message ID: it can name a user instead.
    pub fn of(item: &Item) -> Option<(Option<Uuid>, Self)> {
        let Action::Webhook { kind, properties } = &item.action else { return None };
        if kind != UNSUBSCRIBED && DeliveryState::told_by(kind).is_none() {
            // Any other webhook: do not parse its properties.
            return None;
        }
        let about: Value = serde_json::from_str(properties.as_str()).ok()?;
        let told = Self::by(kind, &about)?;
        let message = about.get("messageId").and_then(|id| Uuid::try_parse(id.as_str()?).ok());
        (message.is_some() || matches!(told, Self::Unsubscribed { .. })).then_some((message, told))
    }

    fn by(kind: &str, about: &Value) -> Option<Self> {
        if kind == UNSUBSCRIBED {
            let channel = about.get("channel").and_then(|channel| Channel::parse(channel.as_str()?));
            return Some(Self::Unsubscribed { channel });
        }
        Some(match DeliveryState::told_by(kind)? {
            DeliveryState::Bounced => Self::Bounced { softly: is_soft(about) },
            DeliveryState::Complained => Self::Complained,
            DeliveryState::Delivered | DeliveryState::Opened | DeliveryState::Clicked => Self::Arrived,
            _ => return None,
        })
    }
}

/// Reads `bounceType`, `bounce_type` or `type`. A bounce without any of them is hard.
fn is_soft(about: &Value) -> bool {
    let kind = ["bounceType", "bounce_type", "type"].into_iter().find_map(|name| about.get(name)?.as_str());
    kind.is_some_and(|kind| SOFT.contains(&kind.to_lowercase().as_str()))
}

/// An item, the ID of its message if it names one, and the report.
pub type ToldOf<'a> = (&'a Item, Option<Uuid>, Told);

/// Returns the link unsubscriptions whose addresses had already unsubscribed.
///
/// They are not recorded as events and start nothing, because users and mail programs follow links repeatedly.
/// [`store`] still puts the address on the list, in case it was removed in the meantime.
pub async fn repeated(
    tx: &Transaction<'_>,
    items: &[&Item],
    people: &People,
) -> Result<HashSet<(ProjectId, Uuid)>, StoreError> {
    let mut by_link: BTreeMap<ProjectId, Vec<ToldOf<'_>>> = BTreeMap::new();
    for item in items {
        if let Action::Webhook { kind, properties } = &item.action
            && kind == UNSUBSCRIBED
            && serde_json::from_str::<Value>(properties.as_str()).is_ok_and(|about| about["source"] == "link")
            && let Some((message, told)) = Told::of(item)
        {
            by_link.entry(item.project).or_default().push((item, message, told));
        }
    }
    let mut repeated = HashSet::new();
    for (project, told) in by_link {
        let messages: Vec<Uuid> = told.iter().filter_map(|(_, message, _)| *message).collect();
        let addresses = addresses(tx, project, &messages, people).await?;
        let of = |told: &ToldOf<'_>| addresses_of(told, &addresses, people);
        let named: BTreeSet<Address> = told.iter().flat_map(of).collect();
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
            let addresses = told.iter().find(|(of, ..)| std::ptr::eq(*of, *item)).map(of).unwrap_or_default();
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
pub async fn people(tx: &Transaction<'_>, items: &[&Item]) -> Result<Vec<PersonKey>, StoreError> {
    let mut messages: BTreeMap<ProjectId, Vec<Uuid>> = BTreeMap::new();
    for item in items {
        if let Some((Some(message), told)) = Told::of(item)
            && told != Told::Arrived
        {
            messages.entry(item.project).or_default().push(message);
        }
    }
    let mut people = Vec::new();
    for (project, messages) in messages {
        let recipients = suppressions::recipients(tx, project, &messages).await?;
        let themselves =
            recipients.into_values().filter(|r| r.address.is_none() || !WITH_ADDRESSES.contains(&r.channel));
        people.extend(themselves.map(|recipient| (project, recipient.user_id)));
    }
    Ok(people)
}

/// Stores the reports about one project's messages.
pub async fn store(
    tx: &Transaction<'_>,
    project: ProjectId,
    told: &[ToldOf<'_>],
    people: &People,
) -> Result<(), StoreError> {
    let messages: Vec<Uuid> = told.iter().filter_map(|(_, message, _)| *message).collect();
    let addresses = addresses(tx, project, &messages, people).await?;
    let arrived = told.iter().filter(|(_, _, told)| *told == Told::Arrived);
    let arrived: Vec<Address> = arrived.flat_map(|told| addresses_of(told, &addresses, people)).collect();
    suppressions::arrived(tx, project, &arrived).await?;
    let mut new = Vec::new();
    for of @ (item, message, told) in told {
        for address in addresses_of(of, &addresses, people) {
            let reason = match told {
                Told::Arrived => continue,
                Told::Bounced { softly: true } => {
                    let Some((user, _)) = message.and_then(|id| addresses.get(&id)) else { continue };
                    if !suppressions::bounced_softly(tx, (project, *user), &address).await? {
                        continue;
                    }
                    Reason::Bounced
                }
                Told::Bounced { softly: false } => Reason::Bounced,
                Told::Complained => Reason::Complained,
                Told::Unsubscribed { .. } => Reason::Unsubscribed,
            };
            let suppression = Suppression::new(project, address, reason, item.timestamp);
            new.push(Suppression { message_id: *message, ..suppression });
        }
    }
    suppressions::put(tx, project, &new).await?;
    suppressions::said_again(tx, project, &new).await
}

/// Ends a user's unsubscription from everything.
///
/// Removes the user's own entries and that of the address the message went to. If the message's row was deleted,
/// removes those of the user's current addresses that the message's link unsubscribed. No other address in a profile is
/// known to be the user's.
pub async fn take_back(
    tx: &Transaction<'_>,
    (project, person): PersonKey,
    message: Option<Uuid>,
    until: Timestamp,
) -> Result<(), StoreError> {
    let went_to = suppressions::recipients(tx, project, message.as_slice()).await?;
    let mut own = Vec::new();
    if let Some(message) = message.filter(|message| !went_to.contains_key(message))
        && let Some(user) = recipient::load(tx, project, &[person]).await?.remove(&person)
    {
        own = suppressions::unsubscribed_by(tx, project, message, &user).await?;
    }
    own.extend(went_to.into_values().filter_map(|to| Some(Address { channel: to.channel, text: to.address? })));
    own.extend(Channel::ALL.map(|channel| Address::person(channel, person)));
    suppressions::take_back(tx, project, &own, until).await
}

/// Returns the addresses that a report concerns: normally the one the message went to.
///
/// Without the message's row, only an unsubscription counts, and it applies to the user: on the channel it names; on
/// every channel with addresses if it names a message but no channel (a link made by an earlier version); or on email
/// if it names neither.
fn addresses_of((item, message, told): &ToldOf<'_>, of: &HashMap<Uuid, UsersAddress>, people: &People) -> Vec<Address> {
    if let Some((_, address)) = message.and_then(|id| of.get(&id)) {
        return vec![address.clone()];
    }
    let (Told::Unsubscribed { channel }, Some((_, user))) = (told, people.of(item)) else { return Vec::new() };
    let channels = match (channel, message) {
        (Some(channel), _) => vec![*channel],
        (None, Some(_)) => WITH_ADDRESSES.to_vec(),
        (None, None) => vec![Channel::Email],
    };
    channels.into_iter().map(|channel| Address::person(channel, user)).collect()
}

/// A message's recipient and the address that it went to.
type UsersAddress = (Uuid, Address);

/// Returns the recipient and address of each message. For an unsent message, this is the user's current address.
async fn addresses(
    tx: &Transaction<'_>,
    project: ProjectId,
    messages: &[Uuid],
    people: &People,
) -> Result<HashMap<Uuid, UsersAddress>, StoreError> {
    let recipients = suppressions::recipients(tx, project, messages).await?;
    let unsent = recipients.values().filter(|r| r.address.is_none()).map(|r| r.user_id);
    let loaded = recipient::load(tx, project, &unsent.collect::<Vec<_>>()).await?;
    let themselves = |channel, user_id| Address::person(channel, people.resolve((project, user_id)).1);
    let address = |Recipient { user_id, channel, address }: Recipient| match (channel, address) {
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
    fn kinds_tell_what_they_mean_for_the_address() {
        let hard = Told::Bounced { softly: false };
        for (kind, about, told) in [
            ("message.unsubscribed", json!({}), Some(Told::Unsubscribed { channel: None })),
            ("message.unsubscribed", json!({"channel": "fax"}), Some(Told::Unsubscribed { channel: None })),
            (
                "message.unsubscribed",
                json!({"channel": "SMS"}),
                Some(Told::Unsubscribed { channel: Some(Channel::Sms) }),
            ),
            ("message.complained", json!({}), Some(Told::Complained)),
            ("message.bounced", json!({}), Some(hard)),
            ("message.bounced", json!({"type": "hard"}), Some(hard)),
            ("message.bounced", json!({"type": "Permanent"}), Some(hard)),
            ("message.bounced", json!({"bounceType": "Transient"}), Some(Told::Bounced { softly: true })),
            ("message.bounced", json!({"type": "soft"}), Some(Told::Bounced { softly: true })),
            ("message.delivered", json!({}), Some(Told::Arrived)),
            ("message.clicked", json!({}), Some(Told::Arrived)),
            ("message.failed", json!({}), None),
            ("payment.failed", json!({}), None),
        ] {
            assert_eq!(Told::by(kind, &about), told, "{kind} {about}");
        }
    }
}
