//! What bounces, complaints and unsubscriptions mean for the suppression list.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use jiff::Timestamp;
use serde_json::Value;
use shared::ids::ProjectId;
use shared::send::{Channel, DeliveryState};
use shared::store::suppressions::{self, Recipient, Suppression};
use shared::store::users::recipient;
use shared::store::users::record::PersonKey;
use shared::store::{StoreError, Transaction};
use shared::suppression::{Address, Reason, international};
use uuid::Uuid;

use crate::item::{Action, Item};
use crate::people::People;

/// The kind of the webhook that takes somebody off; our own links tell of it in the same way.
pub const UNSUBSCRIBED: &str = "message.unsubscribed";
/// What providers call a bounce that may not happen the next time.
const SOFT: [&str; 5] = ["soft", "transient", "temporary", "softbounce", "soft_bounce"];

/// What an item says about the address that a message went to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    Bounced { softly: bool },
    Complained,
    Unsubscribed,
    Arrived,
}

impl Told {
    /// What an item tells, and of which message. Who unsubscribes may be named in the place of a message.
    pub fn of(item: &Item) -> Option<(Option<Uuid>, Self)> {
        let Action::Webhook { kind, properties } = &item.action else { return None };
        if kind != UNSUBSCRIBED && DeliveryState::told_by(kind).is_none() {
            // Any other webhook: what it says need not be read.
            return None;
        }
        let about: Value = serde_json::from_str(properties.as_str()).ok()?;
        let told = Self::by(kind, &about)?;
        let message = about.get("messageId").and_then(|id| Uuid::try_parse(id.as_str()?).ok());
        (message.is_some() || told == Self::Unsubscribed).then_some((message, told))
    }

    fn by(kind: &str, about: &Value) -> Option<Self> {
        if kind == UNSUBSCRIBED {
            return Some(Self::Unsubscribed);
        }
        Some(match DeliveryState::told_by(kind)? {
            DeliveryState::Bounced => Self::Bounced { softly: is_soft(about) },
            DeliveryState::Complained => Self::Complained,
            DeliveryState::Delivered | DeliveryState::Opened | DeliveryState::Clicked => Self::Arrived,
            _ => return None,
        })
    }
}

/// `bounceType` or `type`; a bounce that says nothing about itself is a hard one.
fn is_soft(about: &Value) -> bool {
    let kind = ["bounceType", "bounce_type", "type"].into_iter().find_map(|name| about.get(name)?.as_str());
    kind.is_some_and(|kind| SOFT.contains(&kind.to_lowercase().as_str()))
}

/// An item, its message if it names one, and what it tells.
pub type ToldOf<'a> = (&'a Item, Option<Uuid>, Told);

/// Of those who unsubscribed by a link: the items of who had done so already. They are kept as no event and start nothing, for
/// links are called again and again, by mail programs too. On the list the address is put all the same: nobody who just wants
/// nothing any more gets messages because somebody took the address off meanwhile.
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
        let of = |told: &ToldOf<'_>| address(told, &addresses, people);
        let named: BTreeSet<Address> = told.iter().filter_map(of).collect();
        let listed = suppressions::reasons(tx, project, &named.into_iter().collect::<Vec<_>>()).await?;
        let mut left: HashSet<Address> = HashSet::new();
        left.extend(
            listed.into_iter().filter(|(_, why)| why.contains(&Reason::Unsubscribed)).map(|(address, _)| address),
        );
        for item in items.iter().filter(|item| item.project == project) {
            if matches!(&item.action, Action::Subscribe(chosen) if chosen.resubscribe) {
                // Whoever that is: at worst one counts twice.
                left.clear();
            }
            let address = told.iter().find(|(of, ..)| std::ptr::eq(*of, *item)).and_then(of);
            if address.is_some_and(|address| !left.insert(address)) {
                repeated.insert((project, item.id));
            }
        }
    }
    Ok(repeated)
}

/// The people who are to be locked because they may come onto the list themselves, and not an address of theirs: meanwhile
/// nobody merges them, and a merge before is seen.
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
        let themselves = recipients.into_values().filter(|r| r.address.is_none() || !has_addresses(r.channel));
        people.extend(themselves.map(|recipient| (project, recipient.user_id)));
    }
    Ok(people)
}

fn has_addresses(channel: Channel) -> bool {
    matches!(channel, Channel::Email | Channel::Sms)
}

/// Keeps what was told of one project's messages.
pub async fn store(
    tx: &Transaction<'_>,
    project: ProjectId,
    told: &[ToldOf<'_>],
    people: &People,
) -> Result<(), StoreError> {
    let messages: Vec<Uuid> = told.iter().filter_map(|(_, message, _)| *message).collect();
    let addresses = addresses(tx, project, &messages, people).await?;
    let arrived = told.iter().filter(|(_, _, told)| *told == Told::Arrived);
    let arrived: Vec<Address> = arrived.filter_map(|told| address(told, &addresses, people)).collect();
    suppressions::arrived(tx, project, &arrived).await?;
    let mut new = Vec::new();
    for of @ (item, message, told) in told {
        let Some(address) = address(of, &addresses, people) else { continue };
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
            Told::Unsubscribed => Reason::Unsubscribed,
        };
        let told = Suppression::new(project, address, reason, item.timestamp);
        new.push(Suppression { message_id: *message, ..told });
    }
    suppressions::put(tx, project, &new).await?;
    suppressions::said_again(tx, project, &new).await
}

/// Whoever wanted nothing at all wants messages again: takes them off as themselves and where the message went to. No other
/// address is known to be theirs, whatever their profile calls it.
pub async fn take_back(
    tx: &Transaction<'_>,
    (project, person): PersonKey,
    message: Option<Uuid>,
    until: Timestamp,
) -> Result<(), StoreError> {
    let went_to = suppressions::recipients(tx, project, message.as_slice()).await?.into_values();
    let mut own: Vec<Address> =
        went_to.filter_map(|to| Some(Address { channel: to.channel, text: to.address? })).collect();
    own.extend(Channel::ALL.map(|channel| Address::person(channel, person)));
    suppressions::take_back(tx, project, &own, until).await
}

/// The address that something was told of, by its message's.
fn address((item, message, told): &ToldOf<'_>, of: &HashMap<Uuid, UsersAddress>, people: &People) -> Option<Address> {
    // A message that is kept no more, or none at all: then the person is known, and mail is what is meant.
    let person = || people.of(item).map(|(_, id)| Address::person(Channel::Email, id));
    let went_to = message.and_then(|id| of.get(&id)).map(|(_, address)| address.clone());
    went_to.or_else(|| person().filter(|_| *told == Told::Unsubscribed))
}

/// A message's recipient and the address that it went to.
type UsersAddress = (Uuid, Address);

/// Where messages went to; of one that was not sent yet, where it would go now.
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
            let person = loaded.get(&user_id);
            let email = person.and_then(|p| p.email.as_deref()).map(Address::email);
            let phone = || person.and_then(|p| p.properties.get("phone")?.as_str()).and_then(international);
            let own = if channel == Channel::Email { email } else { phone().map(|n| Address::number(&n)) };
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
            ("message.unsubscribed", json!({}), Some(Told::Unsubscribed)),
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
