//! Fills events in chronological order, with their counters.

use std::collections::BTreeMap;
use std::pin::pin;

use anyhow::Result;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use kernel::clock::from_ms;
use kernel::ids::{self, ProjectId};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;

use super::users;
use super::{BIG, CONNECTIONS, DAY_MS, DAYS, Shares};
use crate::copy;
use crate::copy::JsonText;
use crate::dice::Dice;
use crate::load::item;
use crate::tenants::{self, EVENT_NAMES};
use progress::{Bar, Steps};

const EVENT: &str = "project_id uuid, id uuid, client_id uuid, name text, user_id uuid, anonymous_id text, \
                     properties jsonb, ts timestamptz, received_at timestamptz";
const COUNT: &str = "project_id uuid, id uuid, day date, counts jsonb";

/// Fills `events` and their counters. Each connection writes whole days.
pub async fn fill(url: &str, events: Shares, users: Shares, now_ms: i64, progress: &Steps) -> Result<()> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    let indexes = drop_indexes(&client).await?;
    progress.step(&format!("filling {} events", events.total));
    let bar = Bar::new("events", events.total);
    let projects: Vec<ProjectId> = (0..events.projects).map(tenants::project).collect();
    let (projects, names) = (std::sync::Arc::new(projects), std::sync::Arc::new(names()));
    let mut tasks = tokio::task::JoinSet::new();
    for lane in 0..CONNECTIONS {
        let (url, bar, projects, names) = (url.to_owned(), bar.clone(), projects.clone(), names.clone());
        tasks.spawn(async move {
            let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
            tokio::spawn(connection);
            let mut day = Day { client, projects, names, events, users, bar };
            for days_ago in (0..DAYS).rev().filter(|d| d % i64::from(CONNECTIONS) == i64::from(lane)) {
                day.fill(days_ago, now_ms).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    bar.done();
    for index in indexes {
        progress.step(&index);
        client.batch_execute(&index).await?;
    }
    Ok(())
}

/// Drops all indexes except the primary key.
///
/// Returns the statements that recreate them. Rebuilding costs half as much as maintaining the indexes during the fill.
async fn drop_indexes(client: &Client) -> Result<Vec<String>> {
    let sql = "SELECT c.relname, pg_get_indexdef(c.oid) AS definition FROM pg_index i \
               JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = 'events'::regclass AND NOT i.indisprimary";
    let mut again = Vec::new();
    for row in client.query(sql, &[]).await? {
        client.batch_execute(&format!("DROP INDEX {}", row.try_get::<_, &str>("relname")?)).await?;
        again.push(row.try_get::<_, &str>("definition")?.replace(" ON ONLY ", " ON "));
    }
    client.batch_execute("SET maintenance_work_mem = '512MB'").await?;
    Ok(again)
}

fn names() -> Vec<String> {
    (0..EVENT_NAMES).map(tenants::event_name).collect()
}

struct Day {
    client: Client,
    projects: std::sync::Arc<Vec<ProjectId>>,
    names: std::sync::Arc<Vec<String>>,
    events: Shares,
    users: Shares,
    bar: Bar,
}

impl Day {
    /// Fills the 24 hours that ended `days_ago` days ago.
    async fn fill(&mut self, days_ago: i64, now_ms: i64) -> Result<()> {
        let total = self.events.total / DAYS as u64 + u64::from((days_ago as u64) < self.events.total % DAYS as u64);
        let end_ms = now_ms - days_ago * DAY_MS;
        let mut dice = Dice::new(0xe7e7 + days_ago as u64);
        let mut counts = Counts::new(self.projects.len());
        {
            let mut writer = pin!(copy::writer(&self.client, "events", EVENT).await?);
            for nth in 0..total {
                let ms = end_ms - DAY_MS + (nth as i64 * DAY_MS) / total as i64;
                let (number, name) = (self.pick_project(&mut dice), dice.below(EVENT_NAMES));
                let project = self.projects[number as usize];
                let user = users::id(project, dice.below(self.users.of(number) as u32));
                let (id, at) = (ids::timed(ms, dice.ten_bytes()), from_ms(ms));
                let properties = JsonText(item::properties(&mut dice));
                let (none, no_text): (Option<Uuid>, Option<&str>) = (None, None);
                let row: [&(dyn ToSql + Sync); 9] =
                    [&project, &id, &none, &self.names[name as usize], &user, &no_text, &properties, &at, &at];
                writer.as_mut().write(&row).await?;
                counts.add(number, at.to_zoned(TimeZone::UTC).date(), name);
                if nth % 1_000 == 999 {
                    self.bar.add(1_000);
                }
            }
            writer.finish().await?;
        }
        self.bar.add(total % 1_000);
        self.store(&counts, days_ago as i16).await
    }

    /// Picks a project in proportion to the shares, without a lookup table.
    fn pick_project(&self, dice: &mut Dice) -> u32 {
        let in_big = u64::from(dice.below(1 << 30)) * self.events.total < self.events.of(BIG) * (1 << 30);
        if in_big || self.events.projects == 1 { BIG } else { 1 + dice.below(self.events.projects - 1) }
    }

    /// Stores counts the way the worker does, by adding: two of these 24-hour spans share a calendar day.
    async fn store(&self, counts: &Counts, days_ago: i16) -> Result<()> {
        let id = Uuid::from_u128(u128::from(days_ago.unsigned_abs()));
        let mut writer = pin!(copy::writer(&self.client, "event_count_new", COUNT).await?);
        for (day, counts) in counts.days() {
            for (number, project) in self.projects.iter().enumerate() {
                let of_project = &counts[number * EVENT_NAMES as usize..][..EVENT_NAMES as usize];
                let counted = self.names.iter().zip(of_project).filter(|(_, count)| **count > 0);
                let counted: BTreeMap<&String, &u32> = counted.collect();
                if !counted.is_empty() {
                    let counted = JsonText(serde_json::to_string(&counted)?);
                    let row: [&(dyn ToSql + Sync); 4] = [project, &id, &day, &counted];
                    writer.as_mut().write(&row).await?;
                }
            }
        }
        writer.finish().await?;
        Ok(())
    }
}

/// Event counts by day, project and name. A 24-hour span touches two days.
struct Counts {
    projects: usize,
    by_day: Vec<(Date, Vec<u32>)>,
}

impl Counts {
    fn new(projects: usize) -> Self {
        Self { projects, by_day: Vec::new() }
    }

    fn add(&mut self, project: u32, day: Date, name: u32) {
        if self.by_day.last().is_none_or(|(last, _)| *last != day) {
            self.by_day.push((day, vec![0; self.projects * EVENT_NAMES as usize]));
        }
        if let Some((_, counts)) = self.by_day.last_mut() {
            counts[(project * EVENT_NAMES + name) as usize] += 1;
        }
    }

    fn days(&self) -> impl Iterator<Item = (Date, &[u32])> {
        self.by_day.iter().map(|(day, counts)| (*day, counts.as_slice()))
    }
}
