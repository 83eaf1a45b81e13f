//! Builds the name of every stream, subject and consumer.

use uuid::Uuid;

use domain::message::{Channel, Lane};
use kernel::ids::ProjectId;

/// Names with a prefix, so that several installations or tests can share a broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    prefix: String,
}

impl Names {
    pub fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned() }
    }

    /// The stream of user events, commands and timers.
    pub fn ingest_stream(&self) -> String {
        format!("{}INGEST", self.prefix)
    }

    /// All subjects of the ingest stream.
    pub fn ingest_all(&self) -> String {
        format!("{}ingest.>", self.prefix)
    }

    pub fn ingest(&self, partition: u16) -> String {
        format!("{}ingest.{partition}", self.prefix)
    }

    /// The subject of readiness probes. It belongs to the same stream, so that a full stream is detected; nothing reads
    /// it.
    pub fn ingest_canary(&self) -> String {
        format!("{}ingest.canary", self.prefix)
    }

    /// The subject of completed erasures, kept for as long as an earlier backup may be restored.
    pub fn ingest_erasures(&self) -> String {
        format!("{}ingest.erasures", self.prefix)
    }

    /// The durable consumer of a partition. Its name is stable, so that its lag can be monitored.
    pub fn ingest_consumer(&self, partition: u16) -> String {
        format!("{}ingest-{partition}", self.prefix)
    }

    pub fn send_stream(&self) -> String {
        format!("{}SEND", self.prefix)
    }

    pub fn send_all(&self) -> String {
        format!("{}send.>", self.prefix)
    }

    /// Direct messages of a channel that are not recorded yet.
    pub fn send(&self, channel: Channel) -> String {
        self.send_lane(channel, Lane::Direct)
    }

    /// Earlier versions also published references to recorded messages of every lane.
    pub fn send_lane(&self, channel: Channel, lane: Lane) -> String {
        format!("{}send.{}.{}", self.prefix, channel.slug(), lane.as_str())
    }

    pub fn send_consumer(&self, channel: Channel) -> String {
        format!("{}send-{}-direct", self.prefix, channel.slug())
    }

    /// A hint that queues of a channel have due messages.
    pub fn send_due(&self, channel: Channel) -> String {
        format!("{}control.send.{}", self.prefix, channel.slug())
    }

    /// The stream of messages that could not be applied, with the reason in their headers.
    pub fn dead_stream(&self) -> String {
        format!("{}DEAD", self.prefix)
    }

    pub fn dead_all(&self) -> String {
        format!("{}dead.>", self.prefix)
    }

    /// `from` is the stream from which the message came: `ingest` or `send`.
    pub fn dead(&self, from: &str) -> String {
        format!("{}dead.{from}", self.prefix)
    }

    /// The durable consumer that copies dead letters to the database.
    pub fn dead_consumer(&self) -> String {
        format!("{}dead-letters", self.prefix)
    }

    /// A hint that caches should check a topic for changes now rather than within half a second.
    pub fn changed(&self, topic: &str) -> String {
        format!("{}control.changed.{topic}", self.prefix)
    }

    /// A hint that a user's inbox has changed. Each inbox has its own subject, so that a subscriber gets no hints about
    /// others.
    pub fn inbox(&self, project: ProjectId, user: Uuid) -> String {
        format!("{}control.inbox.{project}.{user}", self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_prefix() {
        let names = Names::new("t1_");
        assert_eq!(names.ingest(3), "t1_ingest.3");
        assert_eq!(names.send(Channel::InApp), "t1_send.in_app.direct");
        assert_eq!(names.send_consumer(Channel::Email), "t1_send-email-direct");
        assert_eq!(names.send_due(Channel::Email), "t1_control.send.email");
        assert_eq!(Names::new("").ingest_stream(), "INGEST");
    }
}
