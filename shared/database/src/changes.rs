//! The change sequence, by which caches notice changes that other processes made.

use deadpool_postgres::GenericClient;

use crate::StoreError;

/// The kinds of rows that are cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Topic {
    Project,
    ApiKey,
    Automation,
    Template,
    Channel,
    Segment,
    /// Users whose rows were removed or restored by something other than recording.
    User,
    /// The event subscriptions of webhook endpoints.
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
        Self::User,
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
            Self::User => "person",
            Self::Webhook => "webhook",
        }
    }
}

/// Advances a topic and returns the new sequence, for the row's `changed_seq`.
///
/// Call it in the transaction of the change: the topic's row stays locked until the transaction ends, so that sequences
/// become visible in order.
pub async fn next(tx: &impl GenericClient, topic: Topic) -> Result<i64, StoreError> {
    let row =
        tx.query_one("UPDATE change SET seq = seq + 1 WHERE topic = $1 RETURNING seq", &[&topic.as_str()]).await?;
    Ok(row.try_get("seq")?)
}

/// Returns the newest sequence of each of `topics`, in that order; 0 for a topic without a row.
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
