//! Telling the other processes that a cached resource was changed, so that they look now and not within half a second.

use bus::Bus;
use database::changes::Topic;

/// Only a hint: the change sequence in the database is what counts.
pub async fn announce(bus: &Bus, topic: Topic) {
    if bus.is_connected() {
        let _ = bus.client.publish(bus.names.changed(topic.as_str()), bytes::Bytes::new()).await;
    }
}
