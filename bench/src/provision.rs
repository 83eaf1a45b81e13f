//! Prepares the database for a load: projects with keys and limits, automations, and identified users.

pub mod delivery;

use std::ops::Range;
use std::time::Duration;

use anyhow::Result;
use database::Store;
use database::config::DatabaseConfig;
use jiff::Timestamp;
use kernel::ids;
use secrets::MasterKeys;
use serde_json::{Value, json};
use store_profiles::users::search;
use store_projects::api_keys;
use tokio_postgres::Client;
use uuid::Uuid;

use crate::copy::{self, JsonText, Row};
use crate::tenants;

/// Master key of benchmark systems. It never seals real secrets.
pub const MASTER_KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
/// Requests per second: enforced, but never reached.
const RATE_LIMIT: i32 = 100_000_000;
/// Automations per project that listen to event names used by loads; the others listen to names that never occur.
///
/// With 50 names in use, 4 % of the events start a run, or find that one has already started.
const LISTENING: u32 = 2;

const PERSON: &str = "project_id uuid, id uuid, external_id text, properties jsonb, created_at timestamptz, \
                      last_seen_at timestamptz, updated_at timestamptz";

/// Creates projects `0..count`, each with a public and a secret key.
pub async fn projects(client: &Client, count: u32, now: Timestamp) -> Result<()> {
    let keys =
        MasterKeys::parse(MASTER_KEY).ok_or_else(|| anyhow::anyhow!("the benchmark's master key is malformed"))?;
    client.batch_execute("BEGIN").await?;
    let project_seq = next(client, "project").await?;
    let mut rows = Vec::new();
    for number in 0..count {
        let id = tenants::project(number);
        let secrets = json!({ "webhook": "0".repeat(64), "identity": "0".repeat(64) });
        let sealed = keys.seal(id, "project", secrets.to_string().as_bytes());
        rows.push(
            Row::new()
                .add(id)
                .add(format!("Bench {number}"))
                .add(RATE_LIMIT)
                .add(sealed)
                .add(now)
                .add(now)
                .add(project_seq),
        );
    }
    copy::rows(client, "project", "project_id uuid, name text, rate_limit int4, secrets bytea, created_at timestamptz, updated_at timestamptz, changed_seq int8", rows).await?;

    let key_seq = next(client, "api_key").await?;
    let mut rows = Vec::new();
    for number in 0..count {
        for (kind, key) in [("public", tenants::public_key(number)), ("secret", tenants::secret_key(number))] {
            let (prefix, hash) = (key[..12].to_owned(), api_keys::hash(&key).to_vec());
            let row =
                Row::new().add(tenants::project(number)).add(tenants::id_of(number, kind)).add("Bench".to_owned());
            rows.push(row.add(kind.to_owned()).add(prefix).add(hash).add(now).add(key_seq));
        }
    }
    copy::rows(client, "api_key", "project_id uuid, id uuid, name text, type text, prefix text, hash bytea, created_at timestamptz, changed_seq int8", rows).await?;

    let channel_seq = next(client, "channel").await?;
    let channels = "INSERT INTO channel (project_id, channel, updated_at, changed_seq) \
                    SELECT project_id, c, $1, $2 FROM project CROSS JOIN unnest(ARRAY['email', 'push', 'sms', 'in_app']) c \
                    ON CONFLICT DO NOTHING";
    client.execute(channels, &[&now, &channel_seq]).await?;
    client.batch_execute("COMMIT").await?;
    Ok(())
}

/// Gives each of the first `projects` projects exactly `each` active automations, replacing those of earlier calls.
pub async fn automations(client: &Client, projects: u32, each: u32, now: Timestamp) -> Result<()> {
    automations_as(client, projects, each, now, automation_of).await
}

/// Like [`automations`], with the triggers and definitions that `of` returns for each number.
pub async fn automations_as(
    client: &Client,
    projects: u32,
    each: u32,
    now: Timestamp,
    of: impl Fn(u32) -> (String, Value),
) -> Result<()> {
    client.batch_execute("BEGIN").await?;
    let seq = next(client, "automation").await?;
    client.execute("UPDATE automation SET active = false, changed_seq = $1 WHERE active", &[&seq]).await?;
    let sql = "SELECT coalesce(max(version), 0) AS version FROM automation";
    let made = client.query_one(sql, &[]).await?.try_get::<_, i32>("version")?;
    let (mut heads, mut versions) = (Vec::new(), Vec::new());
    for number in 0..projects {
        let project = tenants::project(number);
        for automation in 0..each {
            let id = ids::timed_for(
                now.as_millisecond(),
                &[project.0.as_bytes(), &automation.to_be_bytes(), &made.to_be_bytes()],
            );
            let (event, definition) = of(automation);
            let head = Row::new().add(project).add(id).add(format!("Automation {automation}")).add("EVENT".to_owned());
            heads.push(head.add(event).add(true).add(1 + made).add(definition.clone()).add(now).add(now).add(seq));
            versions.push(Row::new().add(project).add(id).add(1 + made).add(definition).add(now));
        }
    }
    copy::rows(client, "automation", "project_id uuid, id uuid, name text, trigger_type text, trigger_event text, active bool, version int4, definition jsonb, created_at timestamptz, updated_at timestamptz, changed_seq int8", heads).await?;
    copy::rows(
        client,
        "automation_version",
        "project_id uuid, automation_id uuid, version int4, definition jsonb, created_at timestamptz",
        versions,
    )
    .await?;
    client.batch_execute("COMMIT").await?;
    Ok(())
}

/// Returns trigger and definition of an automation that waits for a day, so that its run stays active and no user
/// enters twice.
fn automation_of(number: u32) -> (String, Value) {
    let event = if number < LISTENING { tenants::event_name(number * 7) } else { format!("seldom_{number}") };
    let steps = json!([{ "type": "WAIT", "delay": 86_400 }]);
    let definition = json!({ "triggerType": "EVENT", "triggerEvent": event, "reentry": "after_exit", "steps": steps });
    (event, definition)
}

/// Creates identified users before a load: the given user numbers in each of the given projects.
pub async fn users(client: &Client, projects: Range<u32>, users: Range<u32>, now: Timestamp) -> Result<()> {
    if users.is_empty() {
        return Ok(());
    }
    client.batch_execute("BEGIN").await?;
    for number in projects.clone() {
        let project = tenants::project(number);
        let mut writer = std::pin::pin!(copy::writer(client, "users", PERSON).await?);
        for user in users.clone() {
            let (id, name, properties) = (
                tenants::user_id(project, user),
                tenants::external_id(user),
                JsonText(r#"{"plan":"free"}"#.to_owned()),
            );
            writer.as_mut().write(&[&project, &id, &name, &properties, &now, &now, &now]).await?;
        }
        writer.finish().await?;
    }
    let projects: Vec<Uuid> = projects.map(|n| tenants::project(n).0).collect();
    let count = "INSERT INTO user_count (project_id, lane, count) SELECT p, 0, $2 FROM unnest($1::uuid[]) p \
                 ON CONFLICT (project_id, lane) DO UPDATE SET count = user_count.count + excluded.count";
    client.execute(count, &[&projects, &i64::from(users.end - users.start)]).await?;
    seen(client, &projects).await?;
    client.batch_execute("COMMIT").await?;
    Ok(())
}

/// Counts the users of these projects by the day on which they were last seen. None may have been counted yet.
pub async fn seen(client: &Client, projects: &[Uuid]) -> Result<()> {
    let sql = "INSERT INTO user_seen_count AS s (project_id, day, lane, count) SELECT project_id, seen_day, 0, count(*) FROM users \
               WHERE project_id = ANY($1) AND merged_into IS NULL GROUP BY 1, 2 \
               ON CONFLICT (project_id, day, lane) DO UPDATE SET count = excluded.count";
    client.execute(sql, &[&projects]).await?;
    Ok(())
}

/// Writes the missing search data of copied users, then vacuums and analyzes the tables for the planner.
pub async fn searchable(database_url: &str) -> Result<()> {
    let config = DatabaseConfig { url: database_url.to_owned(), pool_size: 1 };
    let store = Store::with_timeout(&config, "bench", Duration::from_hours(1))?;
    let connection = store.connection().await?;
    search::write_missing(&connection).await?;
    for table in ["users", "user_search", "user_count", "user_seen_count"] {
        connection.batch_execute(&format!("VACUUM (ANALYZE) {table}")).await?;
    }
    Ok(())
}

/// Sets a project's rate limit in requests per second. `None` restores the limit that all projects of a load have.
pub async fn rate_limit(client: &Client, project: u32, limit: Option<i32>) -> Result<()> {
    let seq = next(client, "project").await?;
    let sql = "UPDATE project SET rate_limit = $2, changed_seq = $3 WHERE project_id = $1";
    client.execute(sql, &[&tenants::project(project), &limit.unwrap_or(RATE_LIMIT), &seq]).await?;
    Ok(())
}

/// Advances a topic's change sequence, so that caches reload.
async fn next(client: &Client, topic: &str) -> Result<i64> {
    let sql = "UPDATE change SET seq = seq + 1 WHERE topic = $1 RETURNING seq";
    Ok(client.query_one(sql, &[&topic]).await?.try_get("seq")?)
}
