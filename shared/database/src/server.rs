//! Properties and settings of the PostgreSQL server.

use deadpool_postgres::GenericClient;
use jiff::Timestamp;

use crate::StoreError;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// 170002 for 17.2.
    pub version: i32,
    /// Which of `fsync`, `full_page_writes` and `synchronous_commit` are off, so that committed data may not be on
    /// disk.
    pub unsafe_settings: Vec<String>,
    pub max_connections: i64,
    /// Current number of sessions, in all databases.
    pub sessions: i64,
    pub now: Timestamp,
    /// TLS version of this session, such as `TLSv1.3`; `None` without TLS.
    pub tls: Option<String>,
    pub standbys: Standbys,
}

/// The servers that receive this server's WAL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standbys {
    /// How many of them each commit waits for; 0 if `synchronous_standby_names` is empty.
    pub awaited: i64,
    /// How many are streaming and count for synchronous commits: `sync_state` `sync` or `quorum`.
    pub in_sync: i64,
    /// All receivers of WAL, including base backups.
    pub connected: i64,
    /// How many of them hide their state because this role lacks `pg_read_all_stats`: all or none.
    pub unseen: i64,
}

pub async fn describe(db: &impl GenericClient) -> Result<Server, StoreError> {
    // `FIRST 2 (…)`, `ANY 2 (…)` and `2 (…)` wait for two standbys, a bare list of names for one.
    let sql = "SELECT current_setting('server_version_num')::int AS version, \
               (SELECT coalesce(array_agg(name::text ORDER BY name), '{}') FROM pg_settings \
                WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit') AND setting = 'off') \
               AS unsafe_settings, current_setting('max_connections')::bigint AS max_connections, \
               (SELECT coalesce(sum(numbackends), 0)::bigint FROM pg_stat_database) AS sessions, \
               clock_timestamp() AS now, \
               (SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid() AND ssl) AS tls, \
               CASE current_setting('synchronous_standby_names') WHEN '' THEN 0 ELSE coalesce(substring(\
                   current_setting('synchronous_standby_names') \
                   FROM '(?i)^[[:space:]]*(?:(?:FIRST|ANY)[[:space:]]+)?([0-9]+)[[:space:]]*[(]')::bigint, 1) END \
               AS awaited, r.in_sync, r.connected, r.unseen \
               FROM (SELECT count(*) FILTER (WHERE sync_state IN ('sync', 'quorum')), \
               count(*), count(*) FILTER (WHERE sync_state IS NULL) FROM pg_stat_replication) AS r (in_sync, connected, unseen)";
    let row = db.query_one(sql, &[]).await?;
    Ok(Server {
        version: row.try_get("version")?,
        unsafe_settings: row.try_get("unsafe_settings")?,
        max_connections: row.try_get("max_connections")?,
        sessions: row.try_get("sessions")?,
        now: row.try_get("now")?,
        tls: row.try_get("tls")?,
        standbys: Standbys {
            awaited: row.try_get("awaited")?,
            in_sync: row.try_get("in_sync")?,
            connected: row.try_get("connected")?,
            unseen: row.try_get("unseen")?,
        },
    })
}
