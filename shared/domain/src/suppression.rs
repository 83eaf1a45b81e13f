//! Suppressed addresses: the reasons, and which messages each reason blocks. Pure.

use uuid::Uuid;

use crate::email;
use crate::message::{Channel, Lane};
use kernel::ids::ProjectId;

/// Number of consecutive soft bounces that count as a hard bounce.
pub const SOFT_BOUNCES: i32 = 5;

/// The channels that send to an address of the user.
pub const ADDRESS_CHANNELS: [Channel; 2] = [Channel::Email, Channel::Sms];

/// Why an address is suppressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// Messages to it bounced.
    Bounced,
    /// The project added it to the list.
    Manual,
    /// Its owner reported a message as spam.
    Complained,
    /// Its owner unsubscribed.
    Unsubscribed,
}

impl Reason {
    pub const ALL: [Self; 4] = [Self::Bounced, Self::Manual, Self::Complained, Self::Unsubscribed];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bounced => "bounced",
            Self::Manual => "manual",
            Self::Complained => "complained",
            Self::Unsubscribed => "unsubscribed",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|r| r.as_str() == text)
    }

    /// Returns whether it blocks the messages of a lane.
    ///
    /// A user who unsubscribed or complained still needs direct messages such as password resets. Bounced
    /// addresses, and those that the project added, receive nothing.
    pub fn blocks_lane(self, lane: Lane) -> bool {
        match self {
            Self::Bounced | Self::Manual => true,
            Self::Complained | Self::Unsubscribed => lane != Lane::Direct,
        }
    }

    /// Returns the status reason of a suppressed message.
    pub fn status_reason(self) -> &'static str {
        match self {
            Self::Bounced => "bounced_before",
            Self::Manual => "suppressed",
            Self::Complained => "complained_before",
            Self::Unsubscribed => "unsubscribed",
        }
    }
}

/// A normalized address of a channel, so that every spelling of it matches.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    pub channel: Channel,
    pub text: String,
}

impl Address {
    pub fn email(text: &str) -> Self {
        Self { channel: Channel::Email, text: email::normalized(text) }
    }

    /// Returns the spellings under which the list may contain this address: unchanged, normalized, and with the
    /// domain in Punycode. Earlier versions stored domains as given, in lower case.
    pub fn spellings(&self) -> Vec<String> {
        let mut spellings = vec![self.text.clone()];
        if self.channel == Channel::Email {
            let normal = email::normalized(&self.text);
            spellings.extend(email::with_ascii_domain(&normal));
            spellings.push(normal);
            spellings.sort_unstable();
            spellings.dedup();
        }
        spellings
    }

    /// Creates an address from a phone number in international form.
    pub fn number(text: &str) -> Self {
        Self { channel: Channel::Sms, text: text.to_owned() }
    }

    /// Creates an address that represents a user, whatever their actual address is.
    pub fn for_user(channel: Channel, user: Uuid) -> Self {
        Self { channel, text: user.to_string() }
    }

    /// Returns the ID under which sends to the address are counted.
    pub fn key(&self, project: ProjectId) -> Uuid {
        Uuid::new_v5(&project.0, format!("address:{}:{}", self.channel.as_str(), self.text).as_bytes())
    }

    /// Returns the ID of its entry on the suppression list.
    pub fn id(&self, project: ProjectId, reason: Reason) -> Uuid {
        let name = format!("suppression:{}:{}:{}", self.channel.as_str(), reason.as_str(), self.text);
        Uuid::new_v5(&project.0, name.as_bytes())
    }
}

/// Returns a phone number in international form: `+`, the country code and the rest.
///
/// Separators between digits are removed. Returns `None` for a number without a country code, because its country
/// is unknown, and for anything that is not a phone number.
pub fn international(text: &str) -> Option<String> {
    /// Number of digits, including the country code (E.164).
    const DIGITS: std::ops::RangeInclusive<usize> = 8..=15;
    let text = text.trim();
    let rest = text.strip_prefix('+').or_else(|| text.strip_prefix("00"))?;
    let between = |c: char| c.is_whitespace() || "-.()/\u{2010}\u{2011}\u{2013}".contains(c);
    let digits: String = rest.chars().filter(|c| !between(*c)).collect();
    let is_number = digits.bytes().all(|b| b.is_ascii_digit()) && !digits.starts_with('0');
    (is_number && DIGITS.contains(&digits.len())).then(|| format!("+{digits}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn direct_messages_reach_unsubscribed_users() {
        for (reason, direct) in [
            (Reason::Bounced, true),
            (Reason::Manual, true),
            (Reason::Complained, false),
            (Reason::Unsubscribed, false),
        ] {
            assert_eq!(reason.blocks_lane(Lane::Direct), direct);
            assert!(reason.blocks_lane(Lane::Automation) && reason.blocks_lane(Lane::Campaign));
            assert_eq!(Reason::parse(reason.as_str()), Some(reason));
        }
    }

    #[test]
    fn all_spellings_of_an_address_are_equal() {
        assert_eq!(Address::email(" Ann@Example.COM "), Address::email("ann@example.com"));
        assert_eq!(Address::email("ann@xn--bcher-kva.example"), Address::email("Ann@Bücher.example"));
        let project = ProjectId(Uuid::from_u128(1));
        let id = |address: &Address, reason| address.id(project, reason);
        let ann = Address::email("ann@example.com");
        assert_eq!(id(&ann, Reason::Bounced), id(&Address::email("ANN@example.com"), Reason::Bounced));
        assert_ne!(id(&ann, Reason::Bounced), id(&ann, Reason::Manual));
    }

    #[test]
    fn spellings_include_every_form_of_domain() {
        let both = ["ann@bücher.example", "ann@xn--bcher-kva.example"];
        assert_eq!(Address::email(both[1]).spellings(), both);
        let stored_before = Address { channel: Channel::Email, text: both[1].to_owned() };
        assert_eq!(stored_before.spellings(), both);
        assert_eq!(Address::email("ann@example.com").spellings(), ["ann@example.com"]);
        let user = Uuid::from_u128(7);
        assert_eq!(Address::for_user(Channel::Email, user).spellings(), [user.to_string()]);
        assert_eq!(Address::number("+15005550006").spellings(), ["+15005550006"]);
    }

    #[test]
    fn only_international_numbers_are_accepted() {
        for (text, number) in [
            ("+4915112345678", Some("+4915112345678")),
            (" +49 (151) 123-456.78 ", Some("+4915112345678")),
            ("0049 151 12345678", Some("+4915112345678")),
            ("+1 500 555 0006", Some("+15005550006")),
            ("0151 12345678", None),
            ("15005550006", None),
            ("+0151 12345678", None),
            ("+49 call me", None),
            ("+1234567", None),
            ("+1234567890123456", None),
            ("+49151１２３45678", None),
            ("+", None),
            ("", None),
            ("+15005550006\nBcc: +15005550007", None),
        ] {
            assert_eq!(international(text).as_deref(), number, "{text:?}");
        }
    }
}
