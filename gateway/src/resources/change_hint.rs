//! Notifies other processes that a cached resource has changed, so that they poll at once instead of within half a
//! second.

use bus::Bus;
use database::changes::Topic;

/// Publishes a hint. It may be lost: the change sequence in the database is authoritative.
pub async fn announce(bus: &Bus, topic: Topic) {
    if bus.is_connected() {
        let _ = bus.client.publish(bus.names.changed(topic.as_str()), bytes::Bytes::new()).await;
    }
}
