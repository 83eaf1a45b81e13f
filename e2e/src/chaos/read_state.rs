//! Waits until nothing is in flight any more, and reads the final state: by SQL, by the API, and from the providers' logs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bus::Names;
use futures_util::{StreamExt, TryStreamExt, stream};
use prost::Message as _;
use serde_json::Value;
use tokio::time::Instant;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row};
use uuid::Uuid;
use wire::event::{EncodedBatch, IngestItem};

use super::checks;
use super::final_state::{Event, FinalState, Lane, Merge, Message, Run, TrailEntry};
use super::load::{Scale, rejected_clients};
use super::oracle::ClientRecord;
use super::plan::MAX_CLOCK_SHIFT_MINUTES;
use super::product::Product;
use super::{inject, provider};
use crate::{Api, ApiResponse, inspect};

const MAX_CONCURRENT_REQUESTS: usize = 8;
/// Number of each shop's messages that the other shop requests.
const SAMPLE_SIZE: usize = 50;
/// Delay between polls.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Time limit for a response of the API, including retries of throttled requests.
const RESPONSE_TIMEOUT: Duration = Duration::from_mins(1);

/// Rows that must be gone in the end, each with the statement that counts them.
const LEFTOVER_QUERIES: [(&str, &str); 12] = [
    ("rows of the outbox", "SELECT count(*) AS total FROM outbox"),
    ("messages without an outcome", "SELECT count(*) AS total FROM message WHERE status = 'queued'"),
    ("waiting chunks", "SELECT count(*) AS total FROM send_chunk WHERE NOT is_begun"),
    ("begun chunks", "SELECT count(*) AS total FROM send_chunk WHERE is_begun"),
    ("timers", "SELECT count(*) AS total FROM timer"),
    ("unfinished runs", "SELECT count(*) AS total FROM run WHERE ended_at IS NULL"),
    ("listeners", "SELECT count(*) AS total FROM run_listener"),
    ("webhook calls", "SELECT count(*) AS total FROM webhook_call"),
    ("pending segment starts", "SELECT count(*) AS total FROM segment_start"),
    ("unfinished campaigns", "SELECT count(*) AS total FROM campaign WHERE under_way OR status <> 'COMPLETED'"),
    (
        "partitions without an owner",
        "SELECT count(*) AS total FROM ingest_partition WHERE lease_until <= clock_timestamp() OR owner IS NULL",
    ),
    ("clock jumps", "SELECT count(*) AS total FROM clock_jump"),
];

/// Rows that would reference two projects, each with the statement that counts them. The IDs of users and runs derive from their project's
/// ID.
const CROSS_PROJECT_QUERIES: [(&str, &str); 5] = [
    (
        "events of users of another project",
        "SELECT count(*) AS total FROM events AS e JOIN users AS u ON u.id = e.user_id \
         WHERE u.project_id <> e.project_id",
    ),
    (
        "messages to users of another project, or of none",
        "SELECT count(*) AS total FROM message AS m \
         LEFT JOIN users AS u ON (u.project_id, u.id) = (m.project_id, m.user_id) WHERE u.id IS NULL",
    ),
    (
        "messages of runs of another project, or of none",
        "SELECT count(*) AS total FROM message AS m \
         LEFT JOIN run AS r ON (r.project_id, r.id) = (m.project_id, m.run_id) \
         WHERE m.run_id IS NOT NULL AND r.id IS NULL",
    ),
    (
        "messages of campaigns of another project, or of none",
        "SELECT count(*) AS total FROM message AS m \
         LEFT JOIN campaign AS c ON (c.project_id, c.id) = (m.project_id, m.campaign_id) \
         WHERE m.campaign_id IS NOT NULL AND c.id IS NULL",
    ),
    (
        "runs of automations of another project, or of none",
        "SELECT count(*) AS total FROM run AS r \
         LEFT JOIN automation AS a ON (a.project_id, a.id) = (r.project_id, r.automation_id) WHERE a.id IS NULL",
    ),
];

/// Rows left that should be gone, and how long draining took; or, as text, what was still in flight at the timeout.
pub struct DrainOutcome {
    pub leftovers: BTreeMap<&'static str, i64>,
    /// The highest number of contradictions of each kind between the ledger and the queue in any poll.
    pub queue_inconsistencies: BTreeMap<&'static str, i64>,
    pub took: Result<Duration, String>,
}

/// Waits until everything accepted is stored and nothing is in flight. Makes retries due at once, because their delays may be hours.
///
/// Panics if the database does not respond.
pub async fn wait_until_drained(
    product: &Product,
    record: &ClientRecord,
    clock: bool,
    within: Duration,
) -> DrainOutcome {
    let db = product.database().await.expect("the database");
    // Everything due by a clock that was ahead becomes due.
    if clock {
        inject::shift_clock(product, MAX_CLOCK_SHIFT_MINUTES + 1).await;
    }
    let began = Instant::now();
    let mut missing = record.accepted.len() + record.poison.len();
    let mut queue_inconsistencies = BTreeMap::new();
    loop {
        for (what, count) in inspect::queue_inconsistencies(&db).await {
            let most = queue_inconsistencies.entry(what).or_default();
            *most = count.max(*most);
        }
        let leftovers = leftovers(product, &db).await;
        let is_empty = leftovers.values().all(|left| *left == 0);
        // A check after the last event is stored includes all of its effects.
        if is_empty && missing == 0 {
            return DrainOutcome { leftovers, queue_inconsistencies, took: Ok(began.elapsed()) };
        }
        let is_late = began.elapsed() > within;
        if is_empty || is_late {
            missing = checks::missing_events(record, &events(&db, &product.projects).await);
            missing += checks::missing_dead_letters(record, &dead_letters(&db, &product.projects).await);
        }
        if is_late {
            let left = leftovers.iter().filter(|(_, n)| **n != 0).map(|(what, n)| format!("{n} {what}"));
            let left = left.collect::<Vec<_>>().join(", ");
            let blockers = blockers(product, &db).await.join("\n            ");
            let description = format!("after {within:?}: {left}; {missing} items missing\n            {blockers}");
            return DrainOutcome { leftovers, queue_inconsistencies, took: Err(description) };
        }
        inspect::make_retries_due(&db).await;
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

async fn leftovers(product: &Product, db: &Client) -> BTreeMap<&'static str, i64> {
    let mut left = BTreeMap::new();
    for (what, sql) in LEFTOVER_QUERIES {
        left.insert(what, query_total(db, sql).await);
    }
    let (names, monitor) = (Names::new(""), product.nats.lock().await.monitor_url());
    let entries = inspect::stream_messages(&monitor, &names.send_stream()).await;
    left.insert("messages in the send stream", entries as i64);
    left
}

/// Describes what holds up draining: consumers of the send stream with pending or unacknowledged messages, the oldest messages without an
/// outcome, and the chunks that are due first.
async fn blockers(product: &Product, db: &Client) -> Vec<String> {
    let monitor = product.nats.lock().await.monitor_url();
    let consumers = inspect::lagging_consumers(&monitor, &Names::new("").send_stream()).await;
    let messages = "SELECT concat_ws(' ', 'message', id, channel, lane, 'created', created_at, 'attempt', attempt, \
                    status_reason) AS line FROM message WHERE status = 'queued' ORDER BY created_at LIMIT 5";
    let chunks = "SELECT concat_ws(' ', 'chunk', id, channel, lane, 'of', size, 'due', due_at, 'begun', is_begun, 'held', is_held, \
                  'campaign', campaign_id) AS line FROM send_chunk ORDER BY due_at LIMIT 5";
    let messages = db.query(messages, &[]).await.expect("the ledger");
    let chunks = db.query(chunks, &[]).await.expect("the chunks");
    consumers.into_iter().chain(messages.iter().chain(&chunks).map(|row| row.get("line"))).collect()
}

async fn query_total(db: &Client, sql: &str) -> i64 {
    db.query_one(sql, &[]).await.expect(sql).get("total")
}

/// Reads the final state, except for leftover rows and deaths of processes.
///
/// Panics if the database or the API does not respond.
pub async fn read(product: &Product, record: &ClientRecord, scale: Scale) -> FinalState {
    let db = product.database().await.expect("the database");
    let mut state = FinalState::default();
    state.events = events(&db, &product.projects).await;
    state.counts = counts(product, &state.events).await;
    let profiles = record.profiles.keys().map(|(shop, user)| async move {
        let answer = get(&product.shops[*shop][0], &format!("/users/{user}")).await;
        // If the properties are missing, shows the whole response.
        let properties = answer.json.get("properties").unwrap_or(&answer.json).clone();
        ((*shop, user.clone()), properties)
    });
    state.profiles = stream::iter(profiles).buffer_unordered(MAX_CONCURRENT_REQUESTS).collect().await;
    let merges = record.merges.iter().map(|(anonymous, (user, _))| async move {
        (anonymous.clone(), merge(&product.shops[0][0], anonymous, user).await)
    });
    state.merges = stream::iter(merges).buffer_unordered(MAX_CONCURRENT_REQUESTS).collect().await;
    state.messages = messages(&db, &product.projects).await;
    let provider::Copies { by_http, by_smtp } =
        provider::copies(&product.mail.vendor().vendor, &product.sms.vendor().vendor, &product.smtp);
    state.by_http = by_http.keys().copied().collect();
    state.by_smtp = by_smtp.keys().copied().collect();
    state.copies = by_http;
    for (id, copies) in by_smtp {
        *state.copies.entry(id).or_default() += copies;
    }
    state.dead_letters = dead_letters(&db, &product.projects).await;
    for (what, sql) in CROSS_PROJECT_QUERIES {
        state.cross_project_rows.insert(what, query_total(&db, sql).await);
    }
    state.visible_to_other_shop = visible_to_other_shop(product, record).await;
    for (gateway, key) in product.shops[0].iter().flat_map(|api| record.revoked.iter().map(move |key| (api, key))) {
        if rejected_clients::is_accepted(gateway, key).await {
            state.accepted_revoked_keys.push(key.clone());
        }
    }
    state.rejected = product.fault_injector.rejected();
    state.runs = runs(&db).await;
    let campaigns = db.query("SELECT id, status FROM campaign", &[]).await.expect("the campaigns");
    state.campaigns = campaigns.iter().map(|row| (row.get("id"), row.get("status"))).collect();
    state.audience = audience(&db, scale).await;
    state
}

/// Returns the dead letters; the ID is nil for unreadable ones.
async fn dead_letters(db: &Client, projects: &[Uuid]) -> BTreeSet<(usize, Uuid)> {
    let of = |row: &Row| {
        let item = EncodedBatch::decode_checked(row.get::<_, Vec<u8>>("payload").into()).ok();
        let item = item.and_then(|batch| IngestItem::decode(batch.items.first()?.clone()).ok());
        (shop(projects, row.get("project_id")), item.and_then(|item| item.row_id().ok()).unwrap_or_default())
    };
    all(db, "SELECT project_id, payload FROM dead_item", of).await.into_iter().collect()
}

/// Returns the messages of one shop that are visible with the other shop's keys, of the first messages of each.
async fn visible_to_other_shop(product: &Product, record: &ClientRecord) -> Vec<Uuid> {
    let mut shown = Vec::new();
    for (own, other) in [(0, 1), (1, 0)] {
        let its = record.shop_of_message.iter().filter(|(_, shop)| **shop == own).take(SAMPLE_SIZE);
        for (id, _) in its {
            let path = format!("/messages/{id}");
            let (theirs, own) = (get(&product.shops[other][0], &path).await, get(&product.shops[own][0], &path).await);
            // The shop itself must see it, otherwise the other shop's response proves nothing.
            if (own.status, theirs.status) != (200, 404) {
                shown.push(*id);
            }
        }
    }
    shown
}

/// Returns the number of a project's shop. An unknown project is not a shop.
fn shop(projects: &[Uuid], project: Uuid) -> usize {
    projects.iter().position(|one| *one == project).unwrap_or(usize::MAX)
}

async fn events(db: &Client, projects: &[Uuid]) -> Vec<Event> {
    let sql = "SELECT project_id, name, properties->>'ref' AS reference FROM events";
    let of = |row: &Row| Event {
        shop: shop(projects, row.get("project_id")),
        name: row.get("name"),
        reference: row.get("reference"),
    };
    all(db, sql, of).await
}

/// Returns the rows of a statement; each is converted as it arrives, so that large results fit into memory.
async fn all<T>(db: &Client, sql: &str, of: impl Fn(&Row) -> T) -> Vec<T> {
    let none: [&(dyn ToSql + Sync); 0] = [];
    let rows = db.query_raw(sql, none).await.expect(sql);
    rows.map_ok(|row| of(&row)).try_collect().await.expect(sql)
}

/// Returns the API's counts for the names of the stored events.
async fn counts(product: &Product, events: &[Event]) -> BTreeMap<(usize, String), u64> {
    let names: BTreeSet<(usize, &str)> = events.iter().map(|event| (event.shop, event.name.as_str())).collect();
    let mut counts = BTreeMap::new();
    for (shop, name) in names {
        if let Some(gateways) = product.shops.get(shop) {
            let page = get(&gateways[0], &format!("/events?event={name}&limit=1")).await.expect(200);
            counts.insert((shop, name.to_owned()), total(&page));
        }
    }
    counts
}

/// Returns the first response that is not throttled: on a busy machine some requests are throttled even now.
async fn get(api: &Api, path: &str) -> ApiResponse {
    let deadline = Instant::now() + RESPONSE_TIMEOUT;
    loop {
        let answer = api.get(path).await;
        if answer.retry_after.is_none() || Instant::now() >= deadline {
            return answer;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

fn total(page: &Value) -> u64 {
    page["pagination"]["total"].as_u64().unwrap_or_else(|| panic!("no total in {page}"))
}

async fn merge(api: &Api, anonymous: &str, user: &str) -> Merge {
    let merged = get(api, &format!("/users/{anonymous}")).await.json;
    let events = get(api, &format!("/events?user={user}&limit=1")).await.expect(200);
    Merge { leads_to: merged["externalId"].as_str().map(str::to_owned), events: total(&events) }
}

async fn messages(db: &Client, projects: &[Uuid]) -> Vec<Message> {
    let sql = "SELECT id, user_id, lane, channel, status, coalesce(status_reason, '') AS reason, ambiguous, \
               run_id, campaign_id, project_id FROM message";
    let of = |row: &Row| {
        let (lane, channel): (&str, String) = (row.get("lane"), row.get("channel"));
        let shop = shop(projects, row.get("project_id"));
        Message {
            id: row.get("id"),
            shop,
            user: row.get("user_id"),
            lane: match lane {
                "direct" => Lane::Direct,
                "automation" => Lane::Automation,
                _ => Lane::Campaign,
            },
            // The first shop's mail service deduplicates by key.
            keyed: channel == "EMAIL" && shop == 0,
            status: row.get("status"),
            reason: row.get("reason"),
            ambiguous: row.get::<_, i32>("ambiguous").unsigned_abs(),
            channel,
            run: row.get("run_id"),
            campaign: row.get("campaign_id"),
        }
    };
    all(db, sql, of).await
}

async fn runs(db: &Client) -> Vec<Run> {
    let sql = "SELECT id, coalesce(context->'properties'->>'ref', '') AS reference, status, trail FROM run";
    let of = |row: &Row| {
        let trail: Value = row.get("trail");
        let entries: Result<Vec<TrailEntry>, _> = serde_json::from_value(trail);
        let trail = entries.unwrap_or_else(|error| panic!("an invalid trail: {error}"));
        Run { id: row.get("id"), trigger: row.get("reference"), status: row.get("status"), trail }
    };
    all(db, sql, of).await
}

/// Returns the users who were imported for campaigns.
async fn audience(db: &Client, scale: Scale) -> BTreeSet<Uuid> {
    let sql = "SELECT id FROM users WHERE properties->>'plan' = 'pro' AND merged_into IS NULL";
    let users: BTreeSet<Uuid> = db.query(sql, &[]).await.expect("the users").iter().map(|row| row.get("id")).collect();
    assert_eq!(users.len() as u64, scale.audience, "the audience");
    users
}
