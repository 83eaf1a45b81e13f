//! Links in messages that only this installation can make, and whose holder needs no key: what they are about stands in
//! them, signed. Pure.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use uuid::Uuid;

use crate::ids::ProjectId;
use crate::secrets::{MasterKeys, TAG};

/// What a link is for; one for one thing is none for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Unsubscribe,
}

impl Purpose {
    fn place(self) -> &'static str {
        match self {
            Self::Unsubscribe => "link:unsubscribe",
        }
    }

    /// Where its links lead, below the installation's address.
    pub fn path(self) -> &'static str {
        match self {
            Self::Unsubscribe => "/unsubscribe/",
        }
    }
}

/// A message and whom it was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    pub project: ProjectId,
    pub message: Uuid,
    pub user: Uuid,
}

/// Bytes of what a link is about.
const ABOUT: usize = 48;

impl About {
    fn to_bytes(self) -> [u8; ABOUT] {
        let mut bytes = [0; ABOUT];
        for (place, id) in bytes.chunks_exact_mut(16).zip([self.project.0, self.message, self.user]) {
            place.copy_from_slice(id.as_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (project, rest) = bytes.split_first_chunk::<16>()?;
        let (message, user) = rest.split_first_chunk::<16>()?;
        let user: [u8; 16] = user.try_into().ok()?;
        let [project, message, user] = [*project, *message, user].map(Uuid::from_bytes);
        Some(Self { project: ProjectId(project), message, user })
    }
}

/// The link, the same for the same message. `base` is the installation's address without a slash at its end.
pub fn url(keys: &MasterKeys, base: &str, purpose: Purpose, about: About) -> String {
    let bytes = about.to_bytes();
    let tag = keys.sign(about.project, purpose.place(), &bytes);
    format!("{base}{}{}", purpose.path(), URL_SAFE_NO_PAD.encode([&bytes[..], &tag[..]].concat()))
}

/// What the last part of a link is about; `None` of one that was not made here for this.
pub fn read(keys: &MasterKeys, purpose: Purpose, token: &str) -> Option<About> {
    let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
    let (about, tag) = bytes.split_at_checked(ABOUT).filter(|(_, tag)| tag.len() == TAG)?;
    let read = About::from_bytes(about)?;
    keys.has_signed(read.project, purpose.place(), about, tag).then_some(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    const NEW: &str = "ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

    fn about(n: u128) -> About {
        About { project: ProjectId(Uuid::from_u128(n)), message: Uuid::from_u128(2), user: Uuid::from_u128(3) }
    }

    fn token(keys: &MasterKeys, about: About) -> String {
        let url = url(keys, "https://example.com", Purpose::Unsubscribe, about);
        url.strip_prefix("https://example.com/unsubscribe/").unwrap().to_owned()
    }

    #[test]
    fn only_what_was_made_here_is_read() {
        let keys = MasterKeys::parse(OLD).unwrap();
        let made = token(&keys, about(1));
        assert_eq!(read(&keys, Purpose::Unsubscribe, &made), Some(about(1)));
        assert_eq!(made, token(&keys, about(1)), "a mail says the same at every attempt");
        // Every single character counts.
        for at in 0..made.len() {
            let mut forged = made.clone().into_bytes();
            forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
            let forged = String::from_utf8(forged).unwrap();
            // The last one holds bits that say nothing; then it is no such text at all.
            assert_eq!(read(&keys, Purpose::Unsubscribe, &forged), None, "{at}");
        }
        for wrong in ["", "x", "!", &made[1..], &format!("{made}AAAA")] {
            assert_eq!(read(&keys, Purpose::Unsubscribe, wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_link_outlives_the_rotation_of_keys() {
        let made = token(&MasterKeys::parse(OLD).unwrap(), about(1));
        let both = MasterKeys::parse(&format!("{NEW},{OLD}")).unwrap();
        assert!(read(&both, Purpose::Unsubscribe, &made).is_some());
        assert_eq!(read(&MasterKeys::parse(NEW).unwrap(), Purpose::Unsubscribe, &made), None);
    }
}
