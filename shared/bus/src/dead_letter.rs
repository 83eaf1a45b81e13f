//! Stores messages that can never be applied, with the reason, so that they do not block others.

use async_nats::HeaderMap;
use bytes::Bytes;

use super::{Bus, PublishError, Publisher};

pub const REASON: &str = "Rekindle-Reason";
pub const SOURCE: &str = "Rekindle-Source";

/// Publishes a payload to the dead-letter stream. Its source may advance only after `Ok`.
pub async fn publish(bus: &Bus, from: &str, source: &str, reason: &str, payload: Bytes) -> Result<(), PublishError> {
    let mut headers = HeaderMap::new();
    headers.insert(SOURCE, clean(source));
    headers.insert(REASON, clean(reason));
    Publisher::new(bus.clone()).publish_with(bus.names.dead(from), headers, payload).await.map(|_| ())
}

/// Makes a text fit for a header: without control characters, at most 500 characters.
fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(500).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn reason_is_sanitized_for_header() {
        assert_eq!(super::clean("a\r\nX: b"), "a  X: b");
    }
}
