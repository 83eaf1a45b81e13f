//! Where what can never be applied goes, with its reason, so that the rest goes on.

use async_nats::HeaderMap;
use bytes::Bytes;

use super::{Bus, PublishError, Publisher};

pub const REASON: &str = "Rekindle-Reason";
pub const SOURCE: &str = "Rekindle-Source";

/// Puts a payload into the dead-letter stream; only after `Ok` may its source move on.
pub async fn bury(bus: &Bus, from: &str, source: &str, reason: &str, payload: Bytes) -> Result<(), PublishError> {
    let mut headers = HeaderMap::new();
    headers.insert(SOURCE, clean(source));
    headers.insert(REASON, clean(reason));
    Publisher::new(bus.clone()).publish_with(bus.names.dead(from), headers, payload).await.map(|_| ())
}

/// A header's value must hold no line breaks and should stay short.
fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(500).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_reason_cannot_break_a_header() {
        assert_eq!(super::clean("a\r\nX: b"), "a  X: b");
    }
}
