//! Campaigns whose audience is in the queue, and whose recipients the tests release.

use std::collections::BTreeMap;

use bus::wake::wake;
use domain::campaign::{CampaignStatus, Settings};
use domain::message::{Channel, Lane, Queue};
use jiff::{SignedDuration, Timestamp};
use kernel::ids;
use providers::Outcome;
use providers::stub::Stub;
use serde_json::json;
use store_profiles::segments::{self, Segment, SegmentType};
use store_profiles::users::removals;
use store_sending::campaigns::audience::{enqueue_slice, find_slice};
use store_sending::campaigns::{self, Campaign, counts, sending};
use store_sending::erasures::{self, Erased};
use store_sending::send_chunks::campaign::CampaignRef;
use store_sending::send_chunks::{self, NewChunk, SendAt, Share};
use testkit::{eventually, eventually_true};
use uuid::Uuid;

use crate::fixture::{Fixture, SOON};

/// Starts a campaign to all users. Each is in a parked chunk alone, so that the tests release them one by one.
pub async fn campaign(fixture: &Fixture) -> Uuid {
    let template = fixture.template("Sale", "<p>Sale</p>").await;
    let (segment, id) = (ids::fresh(fixture.clock.now_ms()), ids::fresh(fixture.clock.now_ms()));
    let now = fixture.clock.now();
    let rules = json!([{"field": "plan", "operator": "eq", "value": "pro"}]);
    let (name, description, segment_type) = ("pro".to_owned(), String::new(), SegmentType::Rules);
    let pro = Segment { id: segment, name, description, segment_type, rules, created_at: now, updated_at: now };
    let new = Campaign {
        id,
        name: "Sale".to_owned(),
        channel: Channel::Email,
        segment_id: segment,
        exclude_segment_ids: Vec::new(),
        template_id: Some(template),
        settings: Settings::default(),
        subscription_group_id: None,
        scheduled_at: Some(now),
        status: CampaignStatus::Scheduled,
        status_reason: None,
        started_at: None,
        recipients: 0,
        under_way: false,
        created_at: now,
        updated_at: now,
    };
    let mut db = fixture.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    segments::insert(&tx, fixture.project, &pro).await.unwrap();
    campaigns::insert(&tx, fixture.project, &new).await.unwrap();
    sending::begin(&tx, fixture.project, id, now, now).await.unwrap();
    let later = now + SignedDuration::from_secs(1);
    let (held, progress) = sending::lock_due(&tx, fixture.project, id, later).await.unwrap().unwrap();
    let slice = find_slice(&tx, fixture.project, &held, &progress, 10_000, later).await.unwrap();
    enqueue_slice(&tx, fixture.project, &held, &progress, &slice).await.unwrap();
    let sql = "DELETE FROM send_chunk WHERE campaign_id = $1 RETURNING members, occurrence, template_id, due_at IS NULL AND is_audience";
    let mut chunks = Vec::new();
    for row in tx.query(sql, &[&id]).await.unwrap() {
        assert!(row.get::<_, bool>(3), "an audience is parked");
        let (users, occurrence, template_id): (Vec<Uuid>, i32, Option<Uuid>) = (row.get(0), row.get(1), row.get(2));
        chunks.extend(users.into_iter().map(|user| NewChunk {
            due_at: None,
            campaign: Some((id, occurrence)),
            audience: Some(Share { variant: None, template_id }),
            send_at: Some(SendAt::Time(progress.started_at)),
            ..NewChunk::due(queue(fixture), vec![user], now)
        }));
    }
    send_chunks::insert(&tx, &chunks, now).await.unwrap();
    tx.commit().await.unwrap();
    id
}

fn queue(fixture: &Fixture) -> Queue {
    Queue { project: fixture.project, channel: Channel::Email, lane: Lane::Campaign }
}

/// Makes the messages to these users due.
pub async fn release(fixture: &Fixture, users: &[Uuid]) {
    let sql = "UPDATE send_chunk SET due_at = now() WHERE is_audience AND members[1] = ANY($1)";
    let released = fixture.store.connection().await.unwrap().execute(sql, &[&users]).await.unwrap();
    assert_eq!(released as usize, users.len());
    wake(&fixture.bus, &[queue(fixture)]).await;
}

/// Waits until all released messages are sent.
pub async fn all_sent(fixture: &Fixture, campaign: Uuid) {
    let of = CampaignRef { project: fixture.project, campaign };
    eventually_true("all released messages are sent", SOON, async || {
        let db = fixture.store.connection().await.unwrap();
        !send_chunks::campaign::is_released(&db, of).await.unwrap()
    })
    .await;
}

/// Returns the number of recipients by state.
pub async fn report(fixture: &Fixture, campaign: Uuid) -> BTreeMap<String, i64> {
    let db = fixture.store.connection().await.unwrap();
    let report = counts::report(&db, fixture.project, campaign).await.unwrap();
    report.into_iter().map(|of| (of.status, of.count)).collect()
}

pub fn counted<const N: usize>(counts: [(&str, i64); N]) -> BTreeMap<String, i64> {
    counts.into_iter().map(|(status, count)| (status.to_owned(), count)).collect()
}

/// Returns the campaign's message to a user, if there is one.
pub async fn message_to(fixture: &Fixture, campaign: Uuid, user: Uuid) -> Option<Uuid> {
    let sql = "SELECT id FROM message WHERE campaign_id = $1 AND user_id = $2";
    let row = fixture.store.connection().await.unwrap().query_opt(sql, &[&campaign, &user]).await.unwrap();
    row.map(|row| row.get(0))
}

/// Runs delivery with a provider that accepts everything.
pub async fn accepting(fixture: &mut Fixture) {
    fixture.run_with_stub(Stub::new(|_| Outcome::Accepted("1".to_owned()))).await;
}

#[tokio::test]
async fn messages_of_a_paused_campaign_are_parked_until_it_is_resumed() {
    let mut fixture = Fixture::new().await;
    let (ann, bob) = (
        fixture.user("ann", Some("ann@example.com"), None).await,
        fixture.user("bob", Some("bob@example.com"), None).await,
    );
    let campaign = campaign(&fixture).await;
    let set = async |status: &str| {
        let sql = "UPDATE campaign SET status = $2 WHERE id = $1";
        assert_eq!(fixture.store.connection().await.unwrap().execute(sql, &[&campaign, &status]).await.unwrap(), 1);
    };
    set("PAUSED").await;
    release(&fixture, &[ann, bob]).await;
    let other = fixture.message(ann);
    accepting(&mut fixture).await;
    all_sent(&fixture, campaign).await;
    // The worker continues after messages that it may not send.
    fixture.queue(std::slice::from_ref(&other)).await;
    assert_eq!(fixture.settled(other.id, 1).await.status, "sent");
    assert_eq!(report(&fixture, campaign).await, counted([("queued", 2)]));
    assert_eq!(message_to(&fixture, campaign, ann).await, None);

    let sql = "UPDATE campaign SET status = 'SENDING' WHERE id = $1";
    let mut db = fixture.store.connection().await.unwrap();
    db.execute(sql, &[&campaign]).await.unwrap();
    let tx = db.transaction().await.unwrap();
    let (of, now) =
        (CampaignRef { project: fixture.project, campaign }, fixture.clock.now() + SignedDuration::from_secs(1));
    assert_eq!(send_chunks::campaign::release(&tx, of, 10, now).await.unwrap(), 2);
    tx.commit().await.unwrap();
    eventually(SOON, async || match report(&fixture, campaign).await {
        found if found == counted([("sent", 2)]) => Ok(()),
        found => Err(found),
    })
    .await;
    fixture.stop().await;
}

#[tokio::test]
async fn deleted_recipient_gets_no_message_and_is_removed_from_the_report() {
    let mut fixture = Fixture::new().await;
    let (ann, bob) = (
        fixture.user("ann", Some("ann@example.com"), None).await,
        fixture.user("bob", Some("bob@example.com"), None).await,
    );
    let campaign = campaign(&fixture).await;
    fixture.store.connection().await.unwrap().execute("DELETE FROM users WHERE id = $1", &[&bob]).await.unwrap();
    accepting(&mut fixture).await;
    release(&fixture, &[ann, bob]).await;
    all_sent(&fixture, campaign).await;
    assert_eq!(report(&fixture, campaign).await, counted([("sent", 1)]));
    assert!(message_to(&fixture, campaign, ann).await.is_some() && message_to(&fixture, campaign, bob).await.is_none());
    fixture.stop().await;
}

/// Records an erasure after which the user was active again: their row is a new one with the same ID.
async fn erase_and_come_back(fixture: &Fixture, user: Uuid, at: Timestamp) {
    let mut db = fixture.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    let erased = Erased { accepted: at, applied: at };
    erasures::record(&tx, fixture.project, &[user], erased, false).await.unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn erased_recipient_who_returns_gets_no_message_of_an_earlier_audience() {
    let mut fixture = Fixture::new().await;
    let mut users = Vec::new();
    for name in ["ann", "bob", "eve"] {
        users.push(fixture.user(name, Some(&format!("{name}@example.com")), None).await);
    }
    let [ann, bob, eve] = users[..] else { unreachable!() };
    erase_and_come_back(&fixture, bob, fixture.clock.now() - SignedDuration::from_mins(1)).await;
    let campaign = campaign(&fixture).await;
    erase_and_come_back(&fixture, eve, fixture.clock.now()).await;
    accepting(&mut fixture).await;
    release(&fixture, &users).await;
    all_sent(&fixture, campaign).await;
    assert!(message_to(&fixture, campaign, ann).await.is_some());
    assert!(message_to(&fixture, campaign, bob).await.is_some(), "the audience was found after the erasure");
    assert_eq!(message_to(&fixture, campaign, eve).await, None);
    assert_eq!(report(&fixture, campaign).await, counted([("sent", 2)]));
    fixture.stop().await;
}

/// The erasure may be committed at any time between reading it and inserting the messages.
#[tokio::test]
async fn recipient_whose_erasure_is_in_progress_gets_no_message() {
    let mut fixture = Fixture::new().await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    let campaign = campaign(&fixture).await;
    let mut db = fixture.store.connection().await.unwrap();
    let erased = [(fixture.project, ann)];
    removals::announce(&mut db, &erased).await.unwrap();
    let tx = db.transaction().await.unwrap();
    removals::lock(&tx, &erased, &[]).await.unwrap();
    accepting(&mut fixture).await;
    release(&fixture, &[ann]).await;
    let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))";
    eventually_true("the worker waits for the erasure", SOON, async || {
        tx.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) > 0
    })
    .await;
    // Ann was active again, and the new item is applied with the erasure.
    let now = fixture.clock.now();
    let times = Erased { accepted: now, applied: now };
    erasures::record(&tx, fixture.project, &[ann], times, false).await.unwrap();
    removals::finish(&tx, &erased).await.unwrap();
    tx.commit().await.unwrap();
    all_sent(&fixture, campaign).await;
    assert_eq!(message_to(&fixture, campaign, ann).await, None);
    assert_eq!(report(&fixture, campaign).await, counted([]));
    fixture.stop().await;
}

/// Settling, receipts and erasures lock a message and then counters.
#[tokio::test]
async fn beginning_messages_locks_in_an_order_without_deadlocks() {
    let mut fixture = Fixture::new().await;
    let (ann, bob) = (
        fixture.user("ann", Some("ann@example.com"), None).await,
        fixture.user("bob", Some("bob@example.com"), None).await,
    );
    let campaign = campaign(&fixture).await;
    accepting(&mut fixture).await;
    release(&fixture, &[ann]).await;
    all_sent(&fixture, campaign).await;
    fixture.stop().await;
    let message = message_to(&fixture, campaign, ann).await.unwrap();
    let mut db = fixture.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    // The state that a worker leaves when it is killed during the call.
    let of = "UPDATE message SET status = 'queued', sent_at = NULL WHERE id = $1";
    assert_eq!(tx.execute(of, &[&message]).await.unwrap(), 1);
    let lease = SignedDuration::from_hours(1);
    let begun = NewChunk { campaign: Some((campaign, 1)), ..NewChunk::begun(queue(&fixture), vec![message], lease) };
    send_chunks::insert(&tx, &[begun], fixture.clock.now()).await.unwrap();
    let lanes = "INSERT INTO message_count (project_id, lane, count) SELECT $1, n, 0 FROM generate_series(1000, 1015) n \
                 ON CONFLICT DO NOTHING";
    tx.execute(lanes, &[&fixture.project]).await.unwrap();
    tx.commit().await.unwrap();
    accepting(&mut fixture).await;
    let other = fixture.message(ann);
    fixture.insert_begun(std::slice::from_ref(&other), fixture.clock.now() - SignedDuration::from_secs(1)).await;
    assert_eq!(
        fixture.settled(other.id, 2).await.status,
        "sent",
        "the worker takes over the messages of other workers"
    );

    let tx = db.transaction().await.unwrap();
    // The wait of this transaction is checked first, so a deadlock fails it.
    tx.batch_execute("SET LOCAL deadlock_timeout = '10ms'").await.unwrap();
    tx.query("SELECT FROM message WHERE id = $1 FOR UPDATE", &[&message]).await.unwrap();
    // In one statement, so that both are begun together.
    let due = "UPDATE send_chunk SET due_at = now() WHERE campaign_id = $1 RETURNING members";
    assert_eq!(fixture.store.connection().await.unwrap().query(due, &[&campaign]).await.unwrap().len(), 2);
    let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))";
    eventually_true("the worker waits for the message", SOON, async || {
        tx.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) > 0
    })
    .await;
    tx.execute("UPDATE message_count SET count = count WHERE project_id = $1", &[&fixture.project]).await.unwrap();
    tx.commit().await.unwrap();
    all_sent(&fixture, campaign).await;
    assert_eq!(fixture.row(message).await.unwrap().status, "failed");
    assert_eq!(fixture.row(message_to(&fixture, campaign, bob).await.unwrap()).await.unwrap().status, "sent");
    fixture.stop().await;
}

/// Covers the state that a worker leaves when it is killed during a call.
#[tokio::test]
async fn campaign_message_whose_call_was_never_settled_is_not_repeated() {
    let mut fixture = Fixture::new().await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    let campaign = campaign(&fixture).await;
    let stub = Stub::new(|_| Outcome::Throttled { after: None, why: "busy".to_owned() });
    fixture.run_with_stub(stub).await;
    release(&fixture, &[ann]).await;
    eventually_true("the first attempt is settled", SOON, async || match message_to(&fixture, campaign, ann).await {
        Some(id) => fixture.settled(id, 1).await.status == "queued",
        None => false,
    })
    .await;
    fixture.stop().await;
    let id = message_to(&fixture, campaign, ann).await.unwrap();
    let db = fixture.store.connection().await.unwrap();
    let begun = "UPDATE send_chunk SET is_begun = true, due_at = now() WHERE campaign_id = $1";
    assert_eq!(db.execute(begun, &[&campaign]).await.unwrap(), 1);
    accepting(&mut fixture).await;
    let row = fixture.settled(id, 3).await;
    assert_eq!((row.status.as_str(), row.ambiguous), ("failed", 1), "{row:?}");
    assert!(row.reason.as_deref().unwrap().starts_with("outcome_unknown"), "{row:?}");
    assert_eq!(report(&fixture, campaign).await, counted([("failed", 1)]));
    fixture.stop().await;
}
