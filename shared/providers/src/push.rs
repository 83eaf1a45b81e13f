//! A push for one device.

use domain::push_token::Platform;
use serde_json::{Value, json};
use uuid::Uuid;

/// How long push services keep a push for an offline device, in seconds: three days.
pub const TTL_SECS: i64 = 259_200;
/// Maximum payload size in bytes.
pub const MAX_PAYLOAD_BYTES: usize = 4_096;

/// A push ready to be sent to one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Push {
    /// The same at every attempt, so that a device replaces the first copy with a repeat.
    pub id: Uuid,
    pub title: String,
    pub body: String,
    /// URL that a tap opens; `None` opens the app or the site itself.
    pub url: Option<String>,
    pub platform: Platform,
    /// The device's token, or a browser's subscription as JSON.
    pub token: String,
}

impl Push {
    /// Returns the payload, `{title, body, messageId, url?}`. Each platform gets its own form of it.
    pub fn payload(&self) -> Value {
        self.with_url(json!({ "title": self.title, "body": self.body, "messageId": self.id }))
    }

    /// Returns the data for the app, apart from the displayed texts: `{messageId, url?}`.
    pub fn data(&self) -> Value {
        self.with_url(json!({ "messageId": self.id }))
    }

    /// Whether the payload exceeds [`MAX_PAYLOAD_BYTES`].
    pub fn is_too_large(&self) -> bool {
        // JSON escapes take at most six bytes per byte; field names, quotes and the ID fit into the remainder.
        let texts = self.title.len() + self.body.len() + self.url.as_ref().map_or(0, String::len);
        6 * texts + 128 > MAX_PAYLOAD_BYTES && self.payload().to_string().len() > MAX_PAYLOAD_BYTES
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
    fn payload_is_measured_as_encoded() {
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
            let most = (MAX_PAYLOAD_BYTES - empty) / encoded;
            assert!(!push(text.repeat(most)).is_too_large(), "{text:?}");
            assert!(push(text.repeat(most + 1)).is_too_large(), "{text:?}");
        }
    }
}
