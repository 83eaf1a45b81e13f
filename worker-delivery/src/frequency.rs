//! The frequency cap: how many messages that nobody asked for may still go to people.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use deadpool_postgres::Transaction;
use jiff::Timestamp;
use shared::ids::ProjectId;
use shared::send::{Channel, Lane};
use shared::sending_rules::FrequencyCap;
use shared::store::StoreError;
use shared::store::messages::claim::Claimed;
use shared::store::messages::frequency;
use shared::store::users::read;
use shared::store::users::recipient::Recipient;
use uuid::Uuid;

use crate::channels::Sender;

/// What people have had, and what goes to them of one slice.
#[derive(Default)]
pub struct Frequency {
    /// Within the time that a channel's cap counts.
    had: HashMap<(Channel, Uuid), i64>,
    going: HashMap<Uuid, i64>,
}

/// The cap that holds for a message.
fn cap_of(message: &Claimed, senders: &HashMap<Channel, Arc<Sender>>) -> Option<FrequencyCap> {
    senders.get(&message.channel)?.rules.cap.filter(|_| message.lane != Lane::Direct)
}

impl Frequency {
    /// Counts for those for whom there is a cap. They are locked until the transaction's end, so that two who claim for
    /// one person at the same time see each other's claims: whoever comes second counts what the first has claimed.
    pub async fn load<'r>(
        tx: &Transaction<'_>,
        project: ProjectId,
        claimed: &[Claimed],
        recipient: impl Fn(&Claimed) -> Option<&'r Recipient>,
        senders: &HashMap<Channel, Arc<Sender>>,
        now: Timestamp,
    ) -> Result<Self, StoreError> {
        let mut capped: HashMap<Channel, (FrequencyCap, BTreeSet<Uuid>)> = HashMap::new();
        for message in claimed {
            if let (Some(cap), Some(person)) = (cap_of(message, senders), recipient(message)) {
                capped.entry(message.channel).or_insert_with(|| (cap, BTreeSet::new())).1.insert(person.id);
            }
        }
        let mut counted = Self::default();
        if capped.is_empty() {
            return Ok(counted);
        }
        let everyone: BTreeSet<Uuid> = capped.values().flat_map(|(_, people)| people).copied().collect();
        let everyone: Vec<Uuid> = everyone.into_iter().collect();
        frequency::lock(tx, project, &everyone).await?;
        let (ids, whose) = read::all_ids_of(tx, project, &everyone).await?;
        let names: HashMap<Uuid, Uuid> = ids.into_iter().zip(whose).collect();
        let own: Vec<Uuid> = claimed.iter().map(|message| message.id).collect();
        for (channel, (cap, people)) in capped {
            let ids: Vec<Uuid> = names.iter().filter(|(_, of)| people.contains(of)).map(|(id, _)| *id).collect();
            let had = frequency::had_since(tx, project, &ids, cap.within.before(now), &own, now).await?;
            for (id, count) in had {
                if let Some(person) = names.get(&id) {
                    *counted.had.entry((channel, *person)).or_default() += count;
                }
            }
        }
        Ok(counted)
    }

    /// Whether a message may go to a person under a cap; then it counts for those of the slice that follow.
    pub fn has_room(&mut self, cap: FrequencyCap, channel: Channel, person: Uuid) -> bool {
        let going = self.going.entry(person).or_default();
        let had = self.had.get(&(channel, person)).copied().unwrap_or(0);
        let has_room = had + *going < cap.max;
        *going += i64::from(has_room);
        has_room
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests {
    use shared::rule::time::Span;

    use super::*;

    #[test]
    fn what_goes_on_one_channel_counts_for_the_others() {
        let cap = |max| FrequencyCap { max, within: Span::parse("1d").unwrap() };
        let (ann, bob) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let mut had = Frequency { had: HashMap::from([((Channel::Push, ann), 1)]), ..Frequency::default() };
        assert!(had.has_room(cap(3), Channel::Push, ann));
        assert!(had.has_room(cap(2), Channel::Email, ann));
        // One before and two of this slice on the one, two of this slice on the other.
        assert!(!had.has_room(cap(3), Channel::Push, ann) && !had.has_room(cap(2), Channel::Email, ann));
        assert!(had.has_room(cap(3), Channel::Email, ann), "those that did not go count for nothing");
        assert!(had.has_room(cap(1), Channel::Email, bob) && !had.has_room(cap(1), Channel::Email, bob));
        assert!(!had.has_room(cap(0), Channel::Sms, Uuid::from_u128(3)));
    }
}
