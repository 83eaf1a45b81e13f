//! The change sequence, by which caches notice what was changed elsewhere.

use deadpool_postgres::GenericClient;

use crate::StoreError;

/// What caches keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Topic {
    Project,
    ApiKey,
    Automation,
    Template,
    Channel,
    Segment,
    /// People whose rows were removed or put back by something else than recording.
    Person,
    /// What endpoints of webhooks ask for.
    Webhook,
}

impl Topic {
    pub const ALL: [Self; 8] = [
        Self::Project,
        Self::ApiKey,
        Self::Automation,
        Self::Template,
        Self::Channel,
        Self::Segment,
        Self::Person,
        Self::Webhook,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::ApiKey => "api_key",
            Self::Automation => "automation",
            Self::Template => "template",
            Self::Channel => "channel",
            Self::Segment => "segment",
            Self::Person => "person",
            Self::Webhook => "webhook",
        }
    }
}

/// Moves a topic on and returns the new sequence, for the row's `changed_seq`. To be called in the transaction of the
/// change: the row stays locked until its end, so that sequences become visible in order.
pub async fn next(tx: &impl GenericClient, topic: Topic) -> Result<i64, StoreError> {
    let row =
        tx.query_one("UPDATE change SET seq = seq + 1 WHERE topic = $1 RETURNING seq", &[&topic.as_str()]).await?;
    Ok(row.try_get("seq")?)
}

/// The newest sequence of every topic asked for, in that order.
pub async fn current(db: &impl GenericClient, topics: &[Topic]) -> Result<Vec<i64>, StoreError> {
    let names: Vec<&str> = topics.iter().map(|t| t.as_str()).collect();
    let statement = db.prepare_cached("SELECT topic, seq FROM change WHERE topic = ANY($1)").await?;
    let rows = db.query(&statement, &[&names]).await?;
    let mut found = std::collections::HashMap::new();
    for row in rows {
        found.insert(row.try_get::<_, String>("topic")?, row.try_get::<_, i64>("seq")?);
    }
    Ok(names.iter().map(|name| found.get(*name).copied().unwrap_or(0)).collect())
}
