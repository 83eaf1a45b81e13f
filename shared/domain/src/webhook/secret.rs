//! Secrets of endpoints: `whsec_` and the key in base64. A replaced secret keeps signing for a while next to the
//! new one.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::signature;

const PREFIX: &str = "whsec_";
/// How long a secret keeps signing after it is replaced.
pub const REPLACED_SECRET_LIFETIME: Duration = Duration::from_hours(24);
/// Maximum number of replaced secrets that still sign, however often the secret is rotated.
const MAX_REPLACED: usize = 4;

/// The secrets that sign the calls to one endpoint, or those of a project's automations.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointSecrets {
    current: String,
    /// Newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    replaced: Vec<Replaced>,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Replaced {
    secret: String,
    until: Timestamp,
}

impl EndpointSecrets {
    /// Creates a secret of 32 random bytes.
    pub fn random() -> Self {
        Self { current: random(), replaced: Vec::new() }
    }

    /// Returns the current secret.
    pub fn current(&self) -> &str {
        &self.current
    }

    /// Replaces the current secret by a new one. Replaced secrets keep signing for [`REPLACED_SECRET_LIFETIME`] each.
    #[must_use]
    pub fn rotated(self, now: Timestamp) -> Self {
        let until = now.checked_add(REPLACED_SECRET_LIFETIME).unwrap_or(now);
        let newest = Replaced { secret: self.current, until };
        let alive = self.replaced.into_iter().filter(|replaced| now < replaced.until);
        let replaced = std::iter::once(newest).chain(alive).take(MAX_REPLACED).collect();
        Self { current: random(), replaced }
    }

    /// Returns when the last replaced secret stops signing, or `None` if none signs at `now`.
    pub fn replaced_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.replaced.iter().map(|replaced| replaced.until).filter(|until| now < *until).max()
    }

    /// Returns the value of the header `webhook-signature`: one signature for each active secret, separated by spaces.
    pub fn signatures(&self, now: Timestamp, id: &str, seconds: i64, body: &str) -> String {
        let replaced = self.replaced.iter().filter(|replaced| now < replaced.until).map(|r| r.secret.as_str());
        let all = std::iter::once(self.current.as_str()).chain(replaced);
        let signed: Vec<String> = all.filter_map(|secret| Some(signature(&key(secret)?, id, seconds, body))).collect();
        signed.join(" ")
    }
}

fn random() -> String {
    format!("{PREFIX}{}", STANDARD.encode(rand::random::<[u8; 32]>()))
}

/// Returns the key of a secret.
pub(super) fn key(secret: &str) -> Option<Vec<u8>> {
    STANDARD.decode(secret.strip_prefix(PREFIX)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(hours: i64) -> Timestamp {
        Timestamp::from_second(hours * 3_600).unwrap()
    }

    fn signed(secret: &str) -> String {
        signature(&key(secret).unwrap(), "m", 5, "{}")
    }

    #[test]
    fn secret_matches_specification() {
        let secrets = EndpointSecrets::random();
        assert_eq!(key(secrets.current()).unwrap().len(), 32);
        assert_ne!(secrets.current(), EndpointSecrets::random().current());
        assert_eq!(key("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX").unwrap(), (0..24).collect::<Vec<u8>>());
        assert!(key("AAEC").is_none() && key("whsec_*").is_none());
    }

    #[test]
    fn replaced_secret_signs_for_a_day() {
        let first = EndpointSecrets::random();
        let second = first.clone().rotated(at(0));
        let third = second.clone().rotated(at(10));
        let [a, b, c] = [&first, &second, &third].map(|s| signed(s.current()));
        let of = |secrets: &EndpointSecrets, hours| secrets.signatures(at(hours), "m", 5, "{}");
        assert_eq!(of(&first, 0), a);
        assert_eq!(of(&second, 23), format!("{b} {a}"));
        assert_eq!(of(&second, 24), b);
        assert_eq!(of(&third, 11), format!("{c} {b} {a}"));
        assert_eq!(of(&third, 24), format!("{c} {b}"));
        assert_eq!(of(&third, 34), c);
        assert_eq!([first.replaced_until(at(0)), second.replaced_until(at(1))], [None, Some(at(24))]);
        assert_eq!([third.replaced_until(at(20)), third.replaced_until(at(34))], [Some(at(34)), None]);
        let often = (0..9).fold(first, |secrets, _| secrets.rotated(at(0)));
        assert_eq!(of(&often, 1).split(' ').count(), 1 + MAX_REPLACED);
    }
}
