//! Suppression: checked for each message before it is sent, and extended by providers' permanent refusals.

use std::collections::HashMap;

use database::StoreError;
use deadpool_postgres::Transaction;
use domain::message::{Channel, Lane};
use domain::recipient::Recipient;
use domain::subscription::{GROUP_DELETED, UNSUBSCRIBED_FROM_GROUP};
use domain::suppression::{Address, Reason, international};
use kernel::ids::ProjectId;
use serde_json::Value;
use store_profiles::subscriptions;
use store_sending::messages::claim::ClaimedMessage;
use store_sending::suppressions::{self, Suppression};
use uuid::Uuid;

use crate::App;
use crate::channels::Rules;
use providers::Outcome;

/// Status reason of a message to a user without an external ID, where the channels send to known users only.
const ANONYMOUS_USER: &str = "anonymous_user";
/// Status reason of a campaign's message whose user gets another message of the same sending.
pub const MERGED: &str = "merged";

/// Returns the entries of the suppression list that concern a user: their address on the channel, the same address as
/// earlier versions stored it, and the user as such.
pub fn addresses(channel: Channel, user: &Recipient) -> impl Iterator<Item = Address> {
    let stored_before = user.email.as_deref().filter(|_| channel == Channel::Email);
    let stored_before = stored_before.map(|email| Address { channel, text: email.trim().to_lowercase() });
    let own = address(channel, user);
    let stored_before = stored_before.filter(|before| own.as_ref() != Some(before));
    own.into_iter().chain(stored_before).chain([Address::for_user(channel, user.id)])
}

/// Returns the user's own address on a channel, normalised.
pub fn address(channel: Channel, user: &Recipient) -> Option<Address> {
    match channel {
        Channel::Email => user.email.as_deref().map(Address::email),
        Channel::Sms => phone(user).and_then(international).map(|number| Address::number(&number)),
        Channel::Push | Channel::InApp => None,
    }
}

/// Returns why a message is not sent where the channels send to known users only. The address of an anonymous user is
/// unverified input from a browser; devices and the inbox are the user's own.
pub fn anonymous_reason(message: &ClaimedMessage, user: &Recipient, rules: &Rules) -> Option<&'static str> {
    let is_addressed = matches!(message.channel, Channel::Email | Channel::Sms);
    let is_suppressed =
        rules.known_users_only && is_addressed && message.lane != Lane::Direct && user.external_id.is_none();
    is_suppressed.then_some(ANONYMOUS_USER)
}

fn phone(user: &Recipient) -> Option<&str> {
    user.properties.get("phone").and_then(Value::as_str)
}

/// Returns why a message is suppressed for its user; of several reasons, the gravest.
pub fn reason(message: &ClaimedMessage, user: &Recipient, listed: &HashMap<Address, Vec<Reason>>) -> Option<Reason> {
    let reasons = addresses(message.channel, user).filter_map(|address| listed.get(&address)).flatten();
    reasons.copied().filter(|reason| reason.blocks_lane(message.lane)).min()
}

/// Returns the users' subscriptions to the groups of their messages. Runs no query if no message has a group.
pub async fn subscribed<'a>(
    tx: &Transaction<'_>,
    project: ProjectId,
    claimed: &[ClaimedMessage],
    recipient: impl Fn(&ClaimedMessage) -> Option<&'a Recipient>,
) -> Result<HashMap<(Uuid, Uuid), bool>, StoreError> {
    let pair = |message: &ClaimedMessage| Some((recipient(message)?.id, message.subscription_group_id?));
    let mut pairs: Vec<(Uuid, Uuid)> = claimed.iter().filter_map(pair).collect();
    pairs.sort_unstable();
    pairs.dedup();
    subscriptions::subscribed(tx, project, &pairs).await
}

/// Returns why a message of a group is suppressed for its user. If the group was deleted, the subscriptions are unknown.
pub fn group_reason(
    message: &ClaimedMessage,
    user: &Recipient,
    subscribed: &HashMap<(Uuid, Uuid), bool>,
) -> Option<&'static str> {
    match subscribed.get(&(user.id, message.subscription_group_id?)) {
        Some(true) => None,
        Some(false) => Some(UNSUBSCRIBED_FROM_GROUP),
        None => Some(GROUP_DELETED),
    }
}

/// Returns the reason to suppress the address permanently, if the refusal gives one.
pub fn permanent_reason(channel: Channel, outcome: &Outcome) -> Option<Reason> {
    /// The mailbox does not exist, has moved, or is disabled (RFC 3463, RFC 7505).
    const NO_SUCH_MAILBOX: [&str; 4] = ["5.1.1", "5.1.6", "5.1.10", "5.2.1"];
    /// The number no longer exists.
    const UNKNOWN_NUMBER: &str = "30005:";
    /// The recipient opted out.
    const OPTED_OUT: &str = "21610:";
    let says = |text: &str, code: &str| text.split_whitespace().any(|word| word == code);
    match (channel, outcome) {
        (Channel::Email, Outcome::Rejected(why)) if NO_SUCH_MAILBOX.iter().any(|code| says(why, code)) => {
            Some(Reason::Bounced)
        }
        (Channel::Sms, Outcome::Gone(why)) if says(why, UNKNOWN_NUMBER) => Some(Reason::Bounced),
        (Channel::Sms, Outcome::Gone(why)) if says(why, OPTED_OUT) => Some(Reason::Unsubscribed),
        _ => None,
    }
}

/// Adds an address to the suppression list after such a refusal. An error does not hold up the message: the next one gets the same
/// refusal.
pub async fn suppress_address(app: &App, message: &ClaimedMessage, address: &str, outcome: &Outcome) {
    let Some(reason) = permanent_reason(message.channel, outcome) else { return };
    let address = Address { channel: message.channel, text: address.to_owned() };
    let new = Suppression::new(message.project, address, reason, app.clock.now());
    let new = Suppression { message_id: Some(message.id), note: codes(outcome.text()), ..new };
    let project: ProjectId = message.project;
    let stored = async { suppressions::put(&app.store.connection().await?, project, &[new]).await };
    if let Err(error) = stored.await {
        tracing::warn!(%project, %error, "cannot put an address on the suppression list");
    }
}

/// The codes that a refusal begins with, such as `550 5.1.1`. The text after them may name the user, and an entry of the list
/// outlives their erasure.
fn codes(text: &str) -> String {
    let is_code = |word: &&str| word.trim_end_matches(':').bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let codes = text.split_whitespace().take_while(is_code);
    codes.take(3).collect::<Vec<_>>().join(" ").trim_end_matches(':').chars().take(30).collect()
}

#[cfg(test)]
mod tests {
    use kernel::clock::from_ms;

    use super::*;

    #[test]
    fn only_permanent_refusals_suppress_an_address() {
        let rejected = |text: &str| Outcome::Rejected(text.to_owned());
        let gone = |text: &str| Outcome::Gone(text.to_owned());
        for (channel, outcome, reason) in [
            (Channel::Email, rejected("550 5.1.1 no such user"), Some(Reason::Bounced)),
            (Channel::Email, rejected("550 5.7.1 looks like spam"), None),
            (Channel::Email, rejected("552 5.2.2 mailbox full"), None),
            (Channel::Email, Outcome::unavailable("450 5.1.1"), None),
            (Channel::Sms, gone("400 21610: Attempt to send to unsubscribed recipient"), Some(Reason::Unsubscribed)),
            (Channel::Sms, gone("400 30005: Unknown destination handset"), Some(Reason::Bounced)),
            (Channel::Push, gone("410 Unregistered"), None),
        ] {
            assert_eq!(permanent_reason(channel, &outcome), reason, "{outcome:?}");
        }
    }

    #[test]
    fn note_contains_only_codes() {
        for (text, note) in [
            ("550 5.1.1 <ann@example.com>: Recipient address rejected", "550 5.1.1"),
            ("400 30005: Unknown destination handset +15005550006", "400 30005"),
            ("Ann Smith does not work here 5.1.1", ""),
            ("", ""),
        ] {
            assert_eq!(codes(text), note, "{text}");
        }
    }

    fn message_to(user: &Recipient) -> ClaimedMessage {
        ClaimedMessage {
            project: ProjectId(Uuid::from_u128(1)),
            id: Uuid::from_u128(2),
            user_id: user.id,
            channel: Channel::Email,
            lane: Lane::Campaign,
            sending: None,
            template_id: None,
            subscription_group_id: None,
            content: Value::Null,
            data: Value::Null,
            attempt: 1,
            failures: 0,
            ambiguous: 0,
            lapsed: false,
            created_at: from_ms(0),
            released_at: from_ms(0),
            trace: None,
        }
    }

    #[test]
    fn suppressions_match_by_address_and_by_user() {
        let mut user = Recipient::without_profile(Uuid::from_u128(3), from_ms(0));
        user.email = Some(" Ann@Example.com".to_owned());
        let message = |lane| ClaimedMessage { lane, ..message_to(&user) };
        let listed = |address, reasons: &[Reason]| HashMap::from([(address, reasons.to_vec())]);
        let ann = Address::email("ann@example.com");
        let spelled = Recipient { email: Some("Ann@ｅxample.com".to_owned()), ..user.clone() };
        let stored_before = Address { channel: Channel::Email, text: "ann@ｅxample.com".to_owned() };
        let expected = [ann.clone(), stored_before, Address::for_user(Channel::Email, user.id)];
        assert_eq!(addresses(Channel::Email, &spelled).collect::<Vec<_>>(), expected);
        let both = [Reason::Unsubscribed, Reason::Bounced];
        for (listed, lane, found) in [
            (listed(ann.clone(), &[Reason::Unsubscribed]), Lane::Campaign, Some(Reason::Unsubscribed)),
            (listed(ann.clone(), &[Reason::Unsubscribed]), Lane::Direct, None),
            (listed(ann.clone(), &both), Lane::Direct, Some(Reason::Bounced)),
            (listed(ann, &both), Lane::Automation, Some(Reason::Bounced)),
            (listed(Address::for_user(Channel::Email, user.id), &[Reason::Manual]), Lane::Direct, Some(Reason::Manual)),
            (listed(Address::for_user(Channel::Push, user.id), &[Reason::Manual]), Lane::Direct, None),
            (listed(Address::email("eve@example.com"), &both), Lane::Direct, None),
        ] {
            assert_eq!(reason(&message(lane), &user, &listed), found);
        }
    }

    #[test]
    fn anonymous_users_get_no_marketing_if_only_known_users_are_sent_to() {
        let (known_only, all) = (Rules { known_users_only: true, ..Rules::default() }, Rules::default());
        let anonymous = Recipient::without_profile(Uuid::from_u128(3), from_ms(0));
        let known = Recipient { external_id: Some("ann".to_owned()), ..anonymous.clone() };
        let of = |channel, lane| ClaimedMessage { channel, lane, ..message_to(&anonymous) };
        for (message, user, rules, found) in [
            (of(Channel::Email, Lane::Campaign), &anonymous, &known_only, Some("anonymous_user")),
            (of(Channel::Sms, Lane::Automation), &anonymous, &known_only, Some("anonymous_user")),
            (of(Channel::Email, Lane::Campaign), &known, &known_only, None),
            (of(Channel::Email, Lane::Campaign), &anonymous, &all, None),
            (of(Channel::Email, Lane::Direct), &anonymous, &known_only, None),
            (of(Channel::Push, Lane::Campaign), &anonymous, &known_only, None),
            (of(Channel::InApp, Lane::Campaign), &anonymous, &known_only, None),
        ] {
            assert_eq!(anonymous_reason(&message, user, rules), found, "{message:?}");
        }
    }

    #[test]
    fn group_message_is_sent_to_subscribers_only() {
        let user = Recipient::without_profile(Uuid::from_u128(3), from_ms(0));
        let group = Uuid::from_u128(4);
        let of = |subscription_group_id| ClaimedMessage { subscription_group_id, ..message_to(&user) };
        let found = |known: &[bool]| known.iter().map(|is| ((user.id, group), *is)).collect::<HashMap<_, _>>();
        assert_eq!(group_reason(&of(None), &user, &found(&[])), None);
        assert_eq!(group_reason(&of(Some(group)), &user, &found(&[true])), None);
        assert_eq!(group_reason(&of(Some(group)), &user, &found(&[false])), Some("unsubscribed_from_group"));
        assert_eq!(group_reason(&of(Some(group)), &user, &found(&[])), Some("subscription_group_deleted"));
    }
}
