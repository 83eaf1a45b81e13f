//! A push for one device.

use domain::push_token::Platform;
use serde_json::{Value, json};
use uuid::Uuid;

/// How long a device that is away may take to come back, in seconds: three days.
pub const TTL_SECS: i64 = 259_200;
/// Bytes of a payload at most.
pub const PAYLOAD_MAX: usize = 4_096;

/// A push ready to go to one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Push {
    /// The same at every attempt, so that a device shows a repeat in the place of the first copy.
    pub id: Uuid,
    pub title: String,
    pub body: String,
    /// What it opens when it is tapped; without one the app or the site itself.
    pub url: Option<String>,
    pub platform: Platform,
    /// The device's token, or the JSON of a browser's subscription.
    pub token: String,
}

impl Push {
    /// What every device gets in one form or another: `{title, body, messageId, url?}`.
    pub fn payload(&self) -> Value {
        self.with_url(json!({ "title": self.title, "body": self.body, "messageId": self.id }))
    }

    /// What an app gets beside the texts that are shown: `{messageId, url?}`.
    pub fn data(&self) -> Value {
        self.with_url(json!({ "messageId": self.id }))
    }

    /// Whether its payload has more than [`PAYLOAD_MAX`] bytes.
    pub fn is_too_large(&self) -> bool {
        // JSON escapes a byte by six at most; names, quotes and the id take less than the rest.
        let texts = self.title.len() + self.body.len() + self.url.as_ref().map_or(0, String::len);
        6 * texts + 128 > PAYLOAD_MAX && self.payload().to_string().len() > PAYLOAD_MAX
    }

    fn with_url(&self, mut object: Value) -> Value {
        if let Some(url) = &self.url {
            object["url"] = json!(url);
        }
        object
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_measured_as_it_is_encoded() {
        let push = |title: String| Push {
            id: Uuid::max(),
            title,
            body: String::new(),
            url: Some("/".to_owned()),
            platform: Platform::Ios,
            token: String::new(),
        };
        let empty = push(String::new()).payload().to_string().len();
        assert!(empty <= 128 - "/".len());
        for (text, encoded) in [("a", 1), ("\u{1}", 6), ("\"", 2), ("é", 2)] {
            let most = (PAYLOAD_MAX - empty) / encoded;
            assert!(!push(text.repeat(most)).is_too_large(), "{text:?}");
            assert!(push(text.repeat(most + 1)).is_too_large(), "{text:?}");
        }
    }
}
