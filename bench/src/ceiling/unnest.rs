//! Raw inserts: `INSERT … SELECT unnest … ON CONFLICT` of the same events into a table with the same columns and
//! indexes.

use std::time::{Duration, Instant};

use anyhow::Result;
use jiff::Timestamp;
use kernel::clock::Clock;
use kernel::ids;
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;

use crate::dice::Dice;
use crate::load::item;
use crate::tenants;

/// Rows per transaction.
const ROWS: usize = 1_000;
const SQL: &str = "INSERT INTO bench_ceiling (project_id, id, name, user_id, properties, ts, received_at) \
                   SELECT p, i, n, u, j::jsonb, t, t FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::uuid[], $5::text[], $6::timestamptz[]) \
                   AS v(p, i, n, u, j, t) ON CONFLICT (project_id, id) DO NOTHING";

/// Returns rows inserted per second over `connections` connections.
pub async fn rate(url: &str, connections: u64, time: Duration) -> Result<f64> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    client.batch_execute("CREATE TABLE bench_ceiling (LIKE events INCLUDING ALL)").await?;
    let started = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for seed in 0..connections {
        let url = url.to_owned();
        tasks.spawn(async move {
            let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
            tokio::spawn(connection);
            insert(&client, seed, started, time).await
        });
    }
    let mut rows = 0;
    while let Some(ended) = tasks.join_next().await {
        rows += ended??;
    }
    let rate = rows as f64 / started.elapsed().as_secs_f64();
    client.batch_execute("DROP TABLE bench_ceiling").await?;
    Ok(rate)
}

/// Columns reused by every transaction. Only IDs and timestamps change.
struct Rows {
    projects: Vec<Uuid>,
    names: Vec<String>,
    users: Vec<Uuid>,
    properties: Vec<String>,
}

async fn insert(client: &Client, seed: u64, started: Instant, time: Duration) -> Result<u64> {
    let statement = client.prepare(SQL).await?;
    let clock = Clock::system();
    let mut dice = Dice::new(0xce11 + seed);
    let all: Vec<Rows> = (0..20).map(|_| rows(&mut dice)).collect();
    let mut inserted = 0;
    for rows in all.iter().cycle() {
        if started.elapsed() >= time {
            break;
        }
        let now = clock.now();
        let own: Vec<Uuid> = (0..ROWS).map(|_| ids::timed(now.as_millisecond(), dice.ten_bytes())).collect();
        let times: Vec<Timestamp> = vec![now; ROWS];
        let Rows { projects, names, users, properties } = rows;
        inserted += client.execute(&statement, &[projects, &own, names, users, properties, &times]).await?;
    }
    Ok(inserted)
}

fn rows(dice: &mut Dice) -> Rows {
    let mut rows = Rows { projects: Vec::new(), names: Vec::new(), users: Vec::new(), properties: Vec::new() };
    for _ in 0..ROWS {
        let project = tenants::project(dice.below(tenants::PROJECTS));
        rows.projects.push(project.0);
        rows.names.push(tenants::event_name(dice.below(tenants::EVENT_NAMES)));
        rows.users.push(tenants::user_id(project, dice.below(100)));
        rows.properties.push(item::properties(dice));
    }
    rows
}
