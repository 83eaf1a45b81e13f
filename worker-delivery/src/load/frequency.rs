//! Frequency cap: how many messages of automations and campaigns a user, or an address, may be sent.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use database::StoreError;
use deadpool_postgres::Transaction;
use domain::message::{Channel, Lane};
use domain::recipient::Recipient;
use jiff::Timestamp;
use kernel::ids::ProjectId;
use rules::sending_rules::FrequencyCap;
use store_profiles::users::read;
use store_sending::capped_sends::{self, CappedSend};
use store_sending::messages::claim::ClaimedMessage;
use uuid::Uuid;

use crate::channels::ChannelSender;
use crate::load::suppressed;

/// Sends that count against the cap, by recipient: a user, or the key of an address. Sends of the batch are added as they are
/// admitted.
#[derive(Default)]
pub struct Frequency {
    times: Vec<Timestamp>,
    by_recipient: HashMap<Uuid, Vec<usize>>,
}

/// Returns the cap that applies to a message.
fn cap_of(message: &ClaimedMessage, senders: &HashMap<Channel, Arc<ChannelSender>>) -> Option<FrequencyCap> {
    senders.get(&message.channel)?.rules.cap.filter(|_| message.lane != Lane::Direct)
}

impl Frequency {
    /// Loads the sends to the recipients of capped messages, other than those of these claims. The recipients are locked until
    /// the end of the transaction, so that of two workers that claim for one of them, the second one counts the first one's claims.
    pub async fn load<'r>(
        tx: &Transaction<'_>,
        project: ProjectId,
        claimed: &[ClaimedMessage],
        recipient: impl Fn(&ClaimedMessage) -> Option<&'r Recipient>,
        senders: &HashMap<Channel, Arc<ChannelSender>>,
        now: Timestamp,
    ) -> Result<Self, StoreError> {
        let (mut users, mut addresses, mut since) = (BTreeSet::new(), BTreeSet::new(), now);
        for message in claimed {
            if let (Some(cap), Some(user)) = (cap_of(message, senders), recipient(message)) {
                users.insert(user.id);
                addresses.extend(suppressed::address(message.channel, user).map(|address| address.key(project)));
                since = since.min(cap.within.before(now));
            }
        }
        let mut loaded = Self::default();
        if users.is_empty() {
            return Ok(loaded);
        }
        let (users, addresses): (Vec<Uuid>, Vec<Uuid>) = (users.into_iter().collect(), addresses.into_iter().collect());
        capped_sends::lock(tx, project, &[&users[..], &addresses].concat()).await?;
        let read::OwnedIds { ids, owners: whose } = read::all_ids_of(tx, project, &users).await?;
        let sends = capped_sends::since(tx, project, &ids, &addresses, since).await?;
        let resolved: HashMap<Uuid, Uuid> = ids.into_iter().zip(whose).collect();
        for send in sends.iter().filter(|send| claimed.iter().all(|message| message.id != send.message)) {
            let user = resolved.get(&send.user).copied().unwrap_or(send.user);
            loaded.count(send.at, [Some(user), send.address]);
        }
        Ok(loaded)
    }

    fn count(&mut self, at: Timestamp, recipients: [Option<Uuid>; 2]) {
        for recipient in recipients.into_iter().flatten() {
            self.by_recipient.entry(recipient).or_default().push(self.times.len());
        }
        self.times.push(at);
    }

    /// Returns the send to record if a message may go out under a cap; it then counts for the messages after it.
    pub fn admit(
        &mut self,
        cap: FrequencyCap,
        project: ProjectId,
        message: &ClaimedMessage,
        user: &Recipient,
        now: Timestamp,
    ) -> Option<CappedSend> {
        let address = suppressed::address(message.channel, user).map(|address| address.key(project));
        let send = CappedSend { message: message.id, user: user.id, address, at: now };
        self.is_below_cap(cap, [Some(send.user), address], now).then(|| {
            self.count(now, [Some(send.user), address]);
            send
        })
    }

    /// Whether fewer sends than the cap allows went to either of these recipients. A send to both counts once.
    fn is_below_cap(&self, cap: FrequencyCap, recipients: [Option<Uuid>; 2], now: Timestamp) -> bool {
        let since = cap.within.before(now);
        let sends = recipients.iter().flatten().filter_map(|recipient| self.by_recipient.get(recipient)).flatten();
        let counted: BTreeSet<usize> = sends.copied().filter(|send| self.times[*send] >= since).collect();
        (counted.len() as i64) < cap.max
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests {
    use kernel::clock::from_ms;
    use rules::time::Span;

    use super::*;

    #[test]
    fn sends_to_the_user_or_the_address_count_once_within_the_period() {
        let now = from_ms(200_000_000);
        let cap = |max| FrequencyCap { max, within: Span::parse("1d").unwrap() };
        let [ann, eve, mailbox] = [1, 2, 3].map(|n| Some(Uuid::from_u128(n)));
        let mut frequency = Frequency::default();
        frequency.count(now, [ann, mailbox]);
        frequency.count(from_ms(199_000_000), [ann, None]);
        frequency.count(from_ms(100_000_000), [ann, mailbox]);
        assert!(
            frequency.is_below_cap(cap(3), [ann, mailbox], now) && !frequency.is_below_cap(cap(2), [ann, mailbox], now)
        );
        // Another user with the same address.
        assert!(
            frequency.is_below_cap(cap(2), [eve, mailbox], now) && !frequency.is_below_cap(cap(1), [eve, mailbox], now)
        );
        assert!(frequency.is_below_cap(cap(1), [eve, None], now) && !frequency.is_below_cap(cap(0), [eve, None], now));
        frequency.count(now, [eve, mailbox]);
        assert!(
            !frequency.is_below_cap(cap(3), [ann, mailbox], now),
            "a send to the address counts for every user of it"
        );
    }
}
