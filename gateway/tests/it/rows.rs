//! Rows as the workers write them.

use kernel::ids::{self, ProjectId, UserKey};
use store_profiles::users::search;
use uuid::Uuid;

use crate::fixture::Gateway;
use crate::setup::Tenant;

/// Writes users and events.
pub struct Rows<'g> {
    pub gateway: &'g Gateway,
    pub project: ProjectId,
}

impl Rows<'_> {
    pub fn known(&self, id: &str) -> Uuid {
        UserKey::External(id).internal_id(self.project)
    }

    pub fn anonymous(&self, id: &str) -> Uuid {
        UserKey::Anonymous(id).internal_id(self.project)
    }

    /// Inserts an identified user who was created and last seen `age_secs` ago; returns the internal ID.
    pub async fn user(&self, id: &str, email: Option<&str>, name: Option<&str>, age_secs: i64) -> Uuid {
        let sql = "INSERT INTO users (project_id, id, external_id, email, name, properties, created_at, last_seen_at, updated_at) \
                   SELECT $1, $2, $3, $4, $5, '{\"plan\": \"pro\"}', t, t, t FROM (SELECT now() - $6::bigint * interval '1 second' AS t) AS t";
        let internal = self.known(id);
        self.gateway.sql.execute(sql, &[&self.project, &internal, &id, &email, &name, &age_secs]).await.unwrap();
        let mut db = self.gateway.app.store.connection().await.unwrap();
        let tx = db.transaction().await.unwrap();
        let text = search::index_text(Some(id), email, name).unwrap();
        search::put(&tx, &[((self.project, internal), text)]).await.unwrap();
        tx.commit().await.unwrap();
        self.counted("user_count", 1).await;
        self.seen(internal).await;
        internal
    }

    /// Inserts an anonymous user, merged into another if `into` is given; returns the internal ID.
    pub async fn visitor(&self, id: &str, into: Option<Uuid>) -> Uuid {
        let sql = "INSERT INTO users (project_id, id, anonymous_id, merged_into, merged_at, created_at, last_seen_at, updated_at) \
                   VALUES ($1, $2, $3, $4, CASE WHEN $4::uuid IS NOT NULL THEN now() END, now(), now(), now())";
        let internal = self.anonymous(id);
        self.gateway.sql.execute(sql, &[&self.project, &internal, &id, &into]).await.unwrap();
        self.counted("user_count", i64::from(into.is_none())).await;
        self.seen(internal).await;
        internal
    }

    async fn seen(&self, user: Uuid) {
        let sql = "INSERT INTO user_seen_count (project_id, day, lane, count) \
                   SELECT project_id, seen_day, 0, 1 FROM users WHERE project_id = $1 AND id = $2 AND merged_into IS NULL \
                   ON CONFLICT (project_id, day, lane) DO UPDATE SET count = user_seen_count.count + 1";
        self.gateway.sql.execute(sql, &[&self.project, &user]).await.unwrap();
    }

    async fn counted(&self, table: &str, by: i64) {
        let sql = format!(
            "INSERT INTO {table} (project_id, lane, count) VALUES ($1, 0, $2) \
             ON CONFLICT (project_id, lane) DO UPDATE SET count = {table}.count + excluded.count"
        );
        self.gateway.sql.execute(&sql, &[&self.project, &by]).await.unwrap();
    }

    /// Inserts an event of `age_ms` ago; returns its row ID.
    pub async fn event(&self, user: Uuid, name: &str, age_ms: i64) -> Uuid {
        let id = ids::fresh(self.gateway.app.clock.now_ms() - age_ms);
        self.event_with_id(id, None, user, name).await;
        id
    }

    pub async fn event_with_id(&self, id: Uuid, client_id: Option<Uuid>, user: Uuid, name: &str) {
        let sql = "INSERT INTO events (project_id, id, client_id, name, user_id, properties, ts, received_at) \
                   VALUES ($1, $2, $3, $4, $5, '{\"n\": 1}', to_timestamp(1790000000.25), now())";
        self.gateway.sql.execute(sql, &[&self.project, &id, &client_id, &name, &user]).await.unwrap();
        if let Some(client_id) = client_id {
            let sql = "INSERT INTO client_id (project_id, id, event_id, created_at) VALUES ($1, $2, $3, now())";
            self.gateway.sql.execute(sql, &[&self.project, &client_id, &id]).await.unwrap();
        }
        let sql = "INSERT INTO event_count_sum AS s (project_id, day, name, count) VALUES ($1, current_date, $2, 1) \
                   ON CONFLICT (project_id, day, name) DO UPDATE SET count = s.count + 1";
        self.gateway.sql.execute(sql, &[&self.project, &name]).await.unwrap();
    }

    /// Inserts an event whose row ID is derived from a client's UUIDv7.
    pub async fn event_of_client_id(&self, row: Uuid, client_id: Uuid, user: Uuid, name: &str) {
        let sql = "INSERT INTO events (project_id, id, client_id, name, user_id, properties, ts, received_at) \
                   VALUES ($1, $2, $3, $4, $5, '{}', now(), now())";
        self.gateway.sql.execute(sql, &[&self.project, &row, &client_id, &name, &user]).await.unwrap();
    }

    /// Inserts many events at once, without counters.
    pub async fn bulk(&self, user: Uuid, name: &str, count: i64) {
        let base = self.gateway.app.clock.now_ms() - count - 1_000;
        let ids: Vec<Uuid> = (0..count).map(|i| ids::fresh(base + i)).collect();
        let sql = "INSERT INTO events (project_id, id, name, user_id, properties, ts, received_at) \
                   SELECT $1, i, $3, $4, '{}', now(), now() FROM unnest($2::uuid[]) AS i";
        self.gateway.sql.execute(sql, &[&self.project, &ids, &name, &user]).await.unwrap();
    }
}

/// Inserts many users; the newest has the highest number.
pub async fn fill_users(gateway: &Gateway, project: &Tenant, count: i64) {
    let sql = "INSERT INTO users (project_id, id, external_id, properties, created_at, last_seen_at, updated_at) \
               SELECT $1, md5($1::uuid::text || n)::uuid, 'user-' || n, jsonb_build_object('n', n), t, \
               CASE WHEN n % 100 = 0 THEN now() ELSE t END, t \
               FROM generate_series(1, $2::bigint) n, LATERAL (SELECT now() - interval '300 days' + (n / 3) * interval '1 second' AS t) t";
    gateway.sql.execute(sql, &[&project.id, &count]).await.unwrap();
    let sql = "INSERT INTO user_search SELECT project_id, id, created_at, chr(1) || external_id FROM users WHERE project_id = $1";
    gateway.sql.execute(sql, &[&project.id]).await.unwrap();
}
