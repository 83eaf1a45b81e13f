//! What the server itself is like, and how it is set.

use deadpool_postgres::GenericClient;
use jiff::Timestamp;

use super::StoreError;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// As 170002 for 17.2.
    pub version: i32,
    /// Whether what was committed is on the disk: all of `fsync`, `full_page_writes` and `synchronous_commit`.
    pub unsafe_settings: Vec<String>,
    pub max_connections: i64,
    /// Sessions at this moment, of all databases.
    pub sessions: i64,
    pub now: Timestamp,
    /// As `TLSv1.3`: what this session goes over; none without TLS.
    pub tls: Option<String>,
    /// Whether commits wait for a standby.
    pub is_synchronous: bool,
    /// Servers that receive its log; copies that are being made count as well.
    pub standbys: i64,
}

pub async fn describe(db: &impl GenericClient) -> Result<Server, StoreError> {
    let sql = "SELECT current_setting('server_version_num')::int, \
               (SELECT coalesce(array_agg(name::text ORDER BY name), '{}') FROM pg_settings \
                WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit') AND setting = 'off'), \
               current_setting('max_connections')::bigint, \
               (SELECT coalesce(sum(numbackends), 0)::bigint FROM pg_stat_database), clock_timestamp(), \
               (SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid() AND ssl), \
               current_setting('synchronous_standby_names') <> '', (SELECT count(*) FROM pg_stat_replication)";
    let row = db.query_one(sql, &[]).await?;
    Ok(Server {
        version: row.try_get(0)?,
        unsafe_settings: row.try_get(1)?,
        max_connections: row.try_get(2)?,
        sessions: row.try_get(3)?,
        now: row.try_get(4)?,
        tls: row.try_get(5)?,
        is_synchronous: row.try_get(6)?,
        standbys: row.try_get(7)?,
    })
}
