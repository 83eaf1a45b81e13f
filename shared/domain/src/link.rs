//! Signed links in messages. Only this installation can create them, they contain the IDs that they refer to, and
//! they need no API key. Pure.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use uuid::Uuid;

use crate::message::Channel;
use kernel::ids::ProjectId;
use secrets::{MasterKeys, TAG};

/// The purpose of a link. A link for one purpose is invalid for any other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Unsubscribe,
    /// The page with the user's subscription preferences.
    Preferences,
    /// The pixel that reports that a mail was opened.
    Open,
    /// A redirect to another page.
    Click,
}

impl Purpose {
    pub const ALL: [Self; 4] = [Self::Unsubscribe, Self::Preferences, Self::Open, Self::Click];

    fn signing_context(self) -> &'static str {
        match self {
            Self::Unsubscribe => "link:unsubscribe",
            Self::Preferences => "link:preferences",
            Self::Open => "link:open",
            Self::Click => "link:click",
        }
    }

    /// Returns the path of its links, relative to the installation's base URL.
    pub fn path(self) -> &'static str {
        match self {
            Self::Unsubscribe => "/unsubscribe/",
            Self::Preferences => "/preferences/",
            Self::Open => "/o/",
            Self::Click => "/c/",
        }
    }
}

/// A message and its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkClaims {
    pub project: ProjectId,
    pub message: Uuid,
    pub user: Uuid,
    /// The group that the link unsubscribes from; `None` for all messages.
    pub group: Option<Uuid>,
    /// The message's channel, so that the link works after the message's row is deleted. `None` in links of earlier
    /// versions.
    pub channel: Option<Channel>,
}

impl LinkClaims {
    fn text(&self) -> &'static str {
        self.channel.map_or("", Channel::as_str)
    }

    fn of([project, message, user]: [Uuid; 3], group: Option<Uuid>, text: &str) -> Option<Self> {
        let channel = if text.is_empty() { None } else { Some(Channel::parse(text)?) };
        Some(Self { project: ProjectId(project), message, user, group, channel })
    }
}

/// A message, for tracking links. They may be forwarded with the message, so they do not identify the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackingClaims {
    pub project: ProjectId,
    pub message: Uuid,
}

/// Length of an ID in bytes.
const ID: usize = 16;

/// Returns the unsubscribe link, always the same for the same message. `base` is the installation's URL without a
/// trailing slash.
pub fn unsubscribe(keys: &MasterKeys, base: &str, about: LinkClaims) -> String {
    let ids = [about.project.0, about.message, about.user];
    let ids: Vec<Uuid> = ids.into_iter().chain(about.group).collect();
    signed_link(keys, base, Purpose::Unsubscribe, about.project, &ids, about.text())
}

/// Returns the link to the user's subscription preferences, independent of the message's group.
pub fn preferences(keys: &MasterKeys, base: &str, about: LinkClaims) -> String {
    let ids = [about.project.0, about.message, about.user];
    signed_link(keys, base, Purpose::Preferences, about.project, &ids, about.text())
}

/// Returns the URL of the open-tracking pixel in a mail.
pub fn open(keys: &MasterKeys, base: &str, sent: TrackingClaims) -> String {
    signed_link(keys, base, Purpose::Open, sent.project, &[sent.project.0, sent.message], "")
}

/// Returns a link that redirects to a page. The signature includes the page's URL, so that the link cannot be forged to
/// redirect elsewhere.
pub fn click(keys: &MasterKeys, base: &str, sent: TrackingClaims, page: &str) -> String {
    signed_link(keys, base, Purpose::Click, sent.project, &[sent.project.0, sent.message], page)
}

/// Reads the token of an unsubscribe link, its last path segment. Returns `None` unless this installation signed it
/// for this purpose.
pub fn read_unsubscribe(keys: &MasterKeys, token: &str) -> Option<LinkClaims> {
    if let Some(([project, message, user, group], text)) = read(keys, Purpose::Unsubscribe, token) {
        return LinkClaims::of([project, message, user], Some(group), &text);
    }
    let (ids, text) = read(keys, Purpose::Unsubscribe, token)?;
    LinkClaims::of(ids, None, &text)
}

/// Reads the token of a preferences link, like [`read_unsubscribe`]; it has no group.
pub fn read_preferences(keys: &MasterKeys, token: &str) -> Option<LinkClaims> {
    let (ids, text) = read(keys, Purpose::Preferences, token)?;
    LinkClaims::of(ids, None, &text)
}

/// Reads the token of an open-tracking link, like [`read_unsubscribe`].
pub fn read_open(keys: &MasterKeys, token: &str) -> Option<TrackingClaims> {
    let ([project, message], text) = read(keys, Purpose::Open, token)?;
    text.is_empty().then_some(TrackingClaims { project: ProjectId(project), message })
}

/// Reads the token of a click-tracking link, like [`read_unsubscribe`]; also returns the URL of the page.
pub fn read_click(keys: &MasterKeys, token: &str) -> Option<(TrackingClaims, String)> {
    let ([project, message], page) = read(keys, Purpose::Click, token)?;
    (!page.is_empty()).then_some((TrackingClaims { project: ProjectId(project), message }, page))
}

/// Creates a link. Its token is the base64url of IDs, signature and text; the signature covers IDs and text.
fn signed_link(
    keys: &MasterKeys,
    base: &str,
    purpose: Purpose,
    project: ProjectId,
    ids: &[Uuid],
    text: &str,
) -> String {
    let ids: Vec<u8> = ids.iter().flat_map(Uuid::as_bytes).copied().collect();
    let tag = keys.sign(project, purpose.signing_context(), &[&ids, text.as_bytes()].concat());
    let token = URL_SAFE_NO_PAD.encode([&ids, &tag[..], text.as_bytes()].concat());
    format!("{base}{}{token}", purpose.path())
}

/// Verifies a token and returns its IDs, the first of which is the project's, and its text.
fn read<const N: usize>(keys: &MasterKeys, purpose: Purpose, token: &str) -> Option<([Uuid; N], String)> {
    let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
    let (about, rest) = bytes.split_at_checked(N * ID)?;
    let (tag, text) = rest.split_at_checked(TAG)?;
    let mut ids = [Uuid::nil(); N];
    for (id, bytes) in ids.iter_mut().zip(about.chunks_exact(ID)) {
        *id = Uuid::from_slice(bytes).ok()?;
    }
    let signed = keys.has_signed(ProjectId(*ids.first()?), purpose.signing_context(), &[about, text].concat(), tag);
    signed.then(|| String::from_utf8(text.to_vec()).ok())?.map(|text| (ids, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    const NEW: &str = "ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    const BASE: &str = "https://example.com";
    const SENT: TrackingClaims = TrackingClaims { project: ProjectId(Uuid::from_u128(1)), message: Uuid::from_u128(2) };
    const PAGE: &str = "https://shop.example/a?b=c&d=e#f";

    fn about(n: u128) -> LinkClaims {
        let (message, user) = (Uuid::from_u128(2), Uuid::from_u128(3));
        LinkClaims { project: ProjectId(Uuid::from_u128(n)), message, user, group: None, channel: None }
    }

    fn token(keys: &MasterKeys, about: LinkClaims) -> String {
        let url = unsubscribe(keys, BASE, about);
        url.strip_prefix("https://example.com/unsubscribe/").unwrap().to_owned()
    }

    /// Returns copies of a text, each with one character replaced. Unused bits in the last character make such a copy
    /// invalid base64.
    fn forged(made: &str) -> impl Iterator<Item = String> {
        (0..made.len()).map(|at| {
            let mut forged = made.as_bytes().to_vec();
            forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
            String::from_utf8(forged).unwrap()
        })
    }

    #[test]
    fn only_signed_tokens_are_read() {
        let keys = MasterKeys::parse(OLD).unwrap();
        let made = token(&keys, about(1));
        assert_eq!(read_unsubscribe(&keys, &made), Some(about(1)));
        assert_eq!(made, token(&keys, about(1)), "a retried email contains the same link");
        for forged in forged(&made) {
            assert_eq!(read_unsubscribe(&keys, &forged), None, "{forged}");
        }
        for wrong in ["", "x", "!", &made[1..], &format!("{made}AAAA")] {
            assert_eq!(read_unsubscribe(&keys, wrong), None, "{wrong}");
        }
    }

    #[test]
    fn group_is_signed() {
        let keys = MasterKeys::parse(OLD).unwrap();
        let of_group = LinkClaims { group: Some(Uuid::from_u128(4)), ..about(1) };
        let made = token(&keys, of_group);
        assert_eq!(read_unsubscribe(&keys, &made), Some(of_group));
        for forged in forged(&made) {
            assert_eq!(read_unsubscribe(&keys, &forged), None, "{forged}");
        }
        // The group can neither be removed nor added to a link that has none.
        let (with, without) = (bytes(&made), bytes(&token(&keys, about(1))));
        let group = &with[3 * ID..4 * ID];
        let cut = [&with[..3 * ID], &with[4 * ID..]].concat();
        let moved = [&with[..3 * ID], &with[4 * ID..], group].concat();
        let put = [&without[..3 * ID], group, &without[3 * ID..]].concat();
        for forged in [cut, moved, put, [&without[..], group].concat()] {
            assert_eq!(read_unsubscribe(&keys, &URL_SAFE_NO_PAD.encode(forged)), None);
        }
    }

    #[test]
    fn link_contains_channel_and_links_without_one_stay_valid() {
        let keys = MasterKeys::parse(OLD).unwrap();
        let last = |url: String| url.rsplit('/').next().unwrap().to_owned();
        for channel in Channel::ALL.map(Some).into_iter().chain([None]) {
            for group in [None, Some(Uuid::from_u128(4))] {
                let about = LinkClaims { group, channel, ..about(1) };
                let made = last(unsubscribe(&keys, BASE, about));
                assert_eq!(read_unsubscribe(&keys, &made), Some(about));
                assert!(forged(&made).all(|forged| read_unsubscribe(&keys, &forged).is_none()), "{made}");
                let made = last(preferences(&keys, BASE, about));
                assert_eq!(read_preferences(&keys, &made), Some(LinkClaims { group: None, ..about }));
                assert!(forged(&made).all(|forged| read_preferences(&keys, &forged).is_none()), "{made}");
            }
        }
        // The channel can be neither removed, added nor replaced, and a group cannot become part of it.
        let of = |about| bytes(&token(&keys, about));
        let (with, without) = (of(LinkClaims { channel: Some(Channel::Sms), ..about(1) }), of(about(1)));
        let end = without.len();
        let of_group = of(LinkClaims { group: Some(Uuid::from_u128(4)), channel: Some(Channel::Sms), ..about(1) });
        let (ids, rest) = of_group.split_at(3 * ID);
        let (group, rest) = rest.split_at(ID);
        let moved = [ids, &rest[..TAG], group, &rest[TAG..]].concat();
        let exchanged = [&with[..end], b"EMAIL"].concat();
        for forged in [with[..end].to_vec(), [&without[..], b"SMS"].concat(), exchanged, moved] {
            assert_eq!(read_unsubscribe(&keys, &URL_SAFE_NO_PAD.encode(forged)), None);
        }
    }

    fn bytes(token: &str) -> Vec<u8> {
        URL_SAFE_NO_PAD.decode(token).unwrap()
    }

    #[test]
    fn click_link_leads_only_to_signed_page() {
        let keys = MasterKeys::parse(OLD).unwrap();
        let url = click(&keys, BASE, SENT, PAGE);
        let made = url.strip_prefix("https://example.com/c/").unwrap();
        assert_eq!(read_click(&keys, made), Some((SENT, PAGE.to_owned())));
        for forged in forged(made) {
            assert_eq!(read_click(&keys, &forged), None, "{forged}");
        }
        // Another page with the same signature, no page, and the same page for another project.
        let bytes = URL_SAFE_NO_PAD.decode(made).unwrap();
        let (signed, page) = bytes.split_at(2 * ID + TAG);
        let mut other = bytes.clone();
        other[..ID].copy_from_slice(Uuid::from_u128(9).as_bytes());
        for forged in
            [[signed, b"https://evil.example/"].concat(), [signed, page, b"x"].concat(), signed.to_vec(), other]
        {
            assert_eq!(read_click(&keys, &URL_SAFE_NO_PAD.encode(forged)), None);
        }
    }

    #[test]
    fn link_is_valid_for_one_purpose() {
        let keys = MasterKeys::parse(OLD).unwrap();
        let last = |url: String| url.rsplit('/').next().unwrap().to_owned();
        let (unsubscribed, opened) = (last(unsubscribe(&keys, "", about(1))), last(open(&keys, "", SENT)));
        let (clicked, chosen) = (last(click(&keys, "", SENT, PAGE)), last(preferences(&keys, "", about(1))));
        assert_eq!(read_preferences(&keys, &chosen), Some(about(1)));
        assert_eq!((read_preferences(&keys, &unsubscribed), read_unsubscribe(&keys, &chosen)), (None, None));
        assert_eq!(read_open(&keys, &opened), Some(SENT));
        assert_eq!((read_open(&keys, &unsubscribed), read_open(&keys, &clicked)), (None, None));
        assert_eq!((read_click(&keys, &unsubscribed), read_click(&keys, &opened)), (None, None));
        assert_eq!((read_unsubscribe(&keys, &opened), read_unsubscribe(&keys, &clicked)), (None, None));
    }

    #[test]
    fn tracking_link_does_not_identify_user() {
        let keys = MasterKeys::parse(OLD).unwrap();
        for url in [open(&keys, "", SENT), click(&keys, "", SENT, PAGE)] {
            let bytes = URL_SAFE_NO_PAD.decode(url.rsplit('/').next().unwrap()).unwrap();
            let rest = &bytes[2 * ID + TAG..];
            assert_eq!(&bytes[..2 * ID], [Uuid::from_u128(1).into_bytes(), Uuid::from_u128(2).into_bytes()].concat());
            assert!(rest.is_empty() || rest == PAGE.as_bytes());
        }
    }

    #[test]
    fn link_survives_key_rotation() {
        let made = token(&MasterKeys::parse(OLD).unwrap(), about(1));
        let both = MasterKeys::parse(&format!("{NEW},{OLD}")).unwrap();
        assert!(read_unsubscribe(&both, &made).is_some());
        assert_eq!(read_unsubscribe(&MasterKeys::parse(NEW).unwrap(), &made), None);
    }
}
