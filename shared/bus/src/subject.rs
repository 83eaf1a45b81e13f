//! Every stream, subject and consumer name, built in one place.

use uuid::Uuid;

use domain::message::{Channel, Lane};
use kernel::ids::ProjectId;

/// The names under one prefix, so that several installations or tests can share a broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    prefix: String,
}

impl Names {
    pub fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned() }
    }

    /// What users do, commands and timers.
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

    /// Where readiness probes publish: in the same stream, so that a full one is noticed; read by nobody.
    pub fn ingest_canary(&self) -> String {
        format!("{}ingest.canary", self.prefix)
    }

    /// Erasures that were carried out, kept for as long as a backup from before one may be restored.
    pub fn ingest_erasures(&self) -> String {
        format!("{}ingest.erasures", self.prefix)
    }

    /// The durable consumer of a partition: stable, so that its lag can be watched from outside.
    pub fn ingest_consumer(&self, partition: u16) -> String {
        format!("{}ingest-{partition}", self.prefix)
    }

    pub fn send_stream(&self) -> String {
        format!("{}SEND", self.prefix)
    }

    pub fn send_all(&self) -> String {
        format!("{}send.>", self.prefix)
    }

    /// Direct messages of a channel, until they are recorded.
    pub fn send(&self, channel: Channel) -> String {
        self.send_lane(channel, Lane::Direct)
    }

    /// Earlier versions published references to recorded messages of every lane.
    pub fn send_lane(&self, channel: Channel, lane: Lane) -> String {
        format!("{}send.{}.{}", self.prefix, channel.slug(), lane.as_str())
    }

    pub fn send_consumer(&self, channel: Channel) -> String {
        format!("{}send-{}-direct", self.prefix, channel.slug())
    }

    /// A hint that queues of a channel have something due.
    pub fn send_due(&self, channel: Channel) -> String {
        format!("{}control.send.{}", self.prefix, channel.slug())
    }

    /// What could not be applied, with the reason in its headers.
    pub fn dead_stream(&self) -> String {
        format!("{}DEAD", self.prefix)
    }

    pub fn dead_all(&self) -> String {
        format!("{}dead.>", self.prefix)
    }

    /// `from` is the stream that the message came by: `ingest` or `send`.
    pub fn dead(&self, from: &str) -> String {
        format!("{}dead.{from}", self.prefix)
    }

    /// The durable consumer by which dead letters come into the database.
    pub fn dead_consumer(&self) -> String {
        format!("{}dead-letters", self.prefix)
    }

    /// A hint that caches should look for changes of a topic now instead of within half a second.
    pub fn changed(&self, topic: &str) -> String {
        format!("{}control.changed.{topic}", self.prefix)
    }

    /// A hint that a person's inbox has changed, for those who watch it; a subject for each, so that nobody hears of others.
    pub fn inbox(&self, project: ProjectId, user: Uuid) -> String {
        format!("{}control.inbox.{project}.{user}", self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_carry_the_prefix() {
        let names = Names::new("t1_");
        assert_eq!(names.ingest(3), "t1_ingest.3");
        assert_eq!(names.send(Channel::InApp), "t1_send.in_app.direct");
        assert_eq!(names.send_consumer(Channel::Email), "t1_send-email-direct");
        assert_eq!(names.send_due(Channel::Email), "t1_control.send.email");
        assert_eq!(Names::new("").ingest_stream(), "INGEST");
    }
}
