//! A failure in one project's segments does not affect other projects.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use automation::TriggerType;
use jiff::SignedDuration;
use rules::change::ChangeKind;
use serde_json::json;
use store_profiles::segments::user_facts::batch::{self, TimeLimits};
use store_profiles::segments::{dirty, evaluate, follow};
use uuid::Uuid;

use super::world::World;
use super::{did, plan};

#[tokio::test]
async fn sum_beyond_the_double_range_is_evaluated() {
    let mut world = World::new().await;
    let rules = did("bought", json!({"sum": {"property": "total", "gte": 5}}));
    let segment = world.segment(Some(rules)).await;
    let ann = world.user("ann", json!({})).await;
    world.fixture.run().await;
    let [enter, _] = world.followed(segment).await;
    for ago in [2, 1] {
        world.event_with(ann, "bought", ago, &json!({"total": 1e308})).await;
    }
    world.until_started(&[(enter, ann)]).await;
    world.settled().await;
    world.fixture.stop().await;
}

#[tokio::test]
async fn invalid_rules_of_one_project_delay_no_other() {
    let mut world = World::new().await;
    let segment = world.segment(Some(plan("pro"))).await;
    let ann = world.user("ann", json!({})).await;
    let enter = world.automation(segment, TriggerType::SegmentEnter).await;

    let ours = world.other_project().await;
    let broken = world.segment(Some(plan("pro"))).await;
    let ben = world.user("ben", json!({})).await;
    world.automation(broken, TriggerType::SegmentEnter).await;
    world.execute(&format!("UPDATE segment SET rules = '[7]' WHERE id = '{broken}'")).await;
    world.mark(&ChangeKind::User, ben).await;
    world.fixture.project = ours;

    world.fixture.run().await;
    world.filled(segment).await;
    world.properties(ann, json!({"plan": "pro"})).await;
    world.until_started(&[(enter, ann)]).await;
    // The broken segment is deferred, and its marks wait.
    let deferred = format!(
        "SELECT count(*) FROM segment_follow WHERE segment_id = '{broken}' AND look_at < now() + interval '20 seconds'"
    );
    world.fixture.eventually_none(&deferred).await;
    assert_eq!(world.fixture.count("SELECT count(*) FROM segment_dirty").await, 1);
    world.fixture.stop().await;
}

#[tokio::test]
async fn evaluation_time_is_limited_for_expensive_rules() {
    let world = World::new().await;
    let ann = world.user("ann", json!({})).await;
    let mut segments = BTreeSet::new();
    for event in ["one", "two", "three", "four"] {
        segments.insert(world.segment(Some(did(event, json!({})))).await);
    }
    let quick = world.segment(Some(plan("pro"))).await;
    let (mut holder, mut db) =
        (world.fixture.store.connection().await.unwrap(), world.fixture.store.connection().await.unwrap());
    let held = holder.transaction().await.unwrap();
    let hold = "SET LOCAL idle_in_transaction_session_timeout = 0; LOCK TABLE events IN ACCESS EXCLUSIVE MODE";
    held.batch_execute(hold).await.unwrap();
    let mut tx = db.transaction().await.unwrap();
    let limits = TimeLimits { statement: Duration::from_secs(1), whole: Duration::from_millis(1_500) };
    evaluate::set_timeout(&tx, limits.statement).await.unwrap();
    let all: BTreeSet<Uuid> = segments.iter().copied().chain([quick]).collect();
    let definitions = evaluate::definitions(&tx, world.project(), &all).await.unwrap();
    let asked: BTreeMap<Uuid, BTreeSet<Uuid>> = all.iter().map(|id| (*id, BTreeSet::from([ann]))).collect();
    let (began, now) = (Instant::now(), world.fixture.clock.now());
    let verdicts = batch::evaluate(&mut tx, world.project(), &asked, &definitions, (now, limits)).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    assert_eq!(verdicts.timed_out, segments);
    assert_eq!(verdicts.by_pair.keys().copied().collect::<Vec<_>>(), [(quick, ann)]);
    let bound: String = tx.query_one("SHOW statement_timeout", &[]).await.unwrap().get(0);
    assert_eq!(bound, "1s");
}

#[tokio::test]
async fn large_segment_lets_others_go_first() {
    let world = World::new().await;
    let project = world.project();
    world
        .execute(&format!(
            "INSERT INTO users (project_id, id, external_id, properties, created_at, last_seen_at, updated_at) \
             SELECT '{project}', gen_random_uuid(), n, '{{}}', now(), now(), now() FROM generate_series(1, 2500) AS n"
        ))
        .await;
    let (first, second) = (world.segment(Some(plan("pro"))).await, world.segment(Some(plan("free"))).await);
    for segment in [first, second] {
        world.automation(segment, TriggerType::SegmentEnter).await;
    }
    let app = world.fixture.app().await;
    scheduler::segments::process_segment(&app, project, first).await.unwrap();
    let soon = world.fixture.clock.now() + SignedDuration::from_secs(1);
    let db = world.fixture.store.connection().await.unwrap();
    assert_eq!(follow::due(&db, soon, 10).await.unwrap(), [(project, second), (project, first)]);
}

#[tokio::test]
async fn marks_of_many_users_are_taken_in_batches() {
    let world = World::new().await;
    let users: Vec<Uuid> = (1..=4_500).map(Uuid::from_u128).collect();
    let mut db = world.fixture.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    dirty::mark(&tx, world.project(), &ChangeKind::User, &users, world.fixture.clock.now()).await.unwrap();
    let mut taken = Vec::new();
    loop {
        let marks = dirty::take(&tx, world.project(), 2_000).await.unwrap();
        let some: Vec<Uuid> = marks.into_iter().flat_map(|(_, users)| users).collect();
        if some.is_empty() {
            break;
        }
        assert!(some.len() < 4_000, "{}", some.len());
        taken.extend(some);
    }
    taken.sort_unstable();
    assert_eq!(taken, users);
}
