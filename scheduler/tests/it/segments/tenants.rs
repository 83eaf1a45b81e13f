//! A failure in one project's segments does not affect other projects.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use automation::TriggerType;
use jiff::SignedDuration;
use rules::look::Look;
use serde_json::json;
use store_profiles::segments::person::crowd::{self, Limits};
use store_profiles::segments::{dirty, evaluate, follow};
use uuid::Uuid;

use super::world::World;
use super::{did, plan};

#[tokio::test]
async fn a_total_beyond_every_double_is_one_all_the_same() {
    let mut world = World::new().await;
    let rules = did("bought", json!({"sum": {"property": "total", "gte": 5}}));
    let segment = world.segment(Some(rules)).await;
    let ann = world.person("ann", json!({})).await;
    world.place.run().await;
    let [enter, _] = world.followed(segment).await;
    for ago in [2, 1] {
        world.event_with(ann, "bought", ago, &json!({"total": 1e308})).await;
    }
    world.until_started(&[(enter, ann)]).await;
    world.settled().await;
    world.place.stop().await;
}

#[tokio::test]
async fn rules_of_one_project_that_cannot_be_read_hold_up_no_other() {
    let mut world = World::new().await;
    let segment = world.segment(Some(plan("pro"))).await;
    let ann = world.person("ann", json!({})).await;
    let enter = world.automation(segment, TriggerType::SegmentEnter).await;

    let ours = world.other_project().await;
    let broken = world.segment(Some(plan("pro"))).await;
    let ben = world.person("ben", json!({})).await;
    world.automation(broken, TriggerType::SegmentEnter).await;
    world.execute(&format!("UPDATE segment SET rules = '[7]' WHERE id = '{broken}'")).await;
    world.mark(&Look::Person, ben).await;
    world.place.project = ours;

    world.place.run().await;
    world.filled(segment).await;
    world.properties(ann, json!({"plan": "pro"})).await;
    world.until_started(&[(enter, ann)]).await;
    // The broken segment is deferred, and its marks wait.
    let put_off = format!(
        "SELECT count(*) FROM segment_follow WHERE segment_id = '{broken}' AND look_at < now() + interval '20 seconds'"
    );
    world.place.eventually_none(&put_off).await;
    assert_eq!(world.place.count("SELECT count(*) FROM segment_dirty").await, 1);
    world.place.stop().await;
}

#[tokio::test]
async fn a_turn_ends_in_time_however_much_the_rules_ask() {
    let world = World::new().await;
    let ann = world.person("ann", json!({})).await;
    let mut segments = BTreeSet::new();
    for event in ["one", "two", "three", "four"] {
        segments.insert(world.segment(Some(did(event, json!({})))).await);
    }
    let quick = world.segment(Some(plan("pro"))).await;
    let (mut holder, mut db) =
        (world.place.store.connection().await.unwrap(), world.place.store.connection().await.unwrap());
    let held = holder.transaction().await.unwrap();
    let hold = "SET LOCAL idle_in_transaction_session_timeout = 0; LOCK TABLE events IN ACCESS EXCLUSIVE MODE";
    held.batch_execute(hold).await.unwrap();
    let mut tx = db.transaction().await.unwrap();
    let limits = Limits { statement: Duration::from_secs(1), whole: Duration::from_millis(1_500) };
    evaluate::limit(&tx, limits.statement).await.unwrap();
    let all: BTreeSet<Uuid> = segments.iter().copied().chain([quick]).collect();
    let definitions = evaluate::definitions(&tx, world.project(), &all).await.unwrap();
    let asked: BTreeMap<Uuid, BTreeSet<Uuid>> = all.iter().map(|id| (*id, BTreeSet::from([ann]))).collect();
    let (began, now) = (Instant::now(), world.place.clock.now());
    let verdicts = crowd::evaluate(&mut tx, world.project(), &asked, &definitions, (now, limits)).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    assert_eq!(verdicts.too_slow, segments);
    assert_eq!(verdicts.by_pair.keys().copied().collect::<Vec<_>>(), [(quick, ann)]);
    let bound: String = tx.query_one("SHOW statement_timeout", &[]).await.unwrap().get(0);
    assert_eq!(bound, "1s");
}

#[tokio::test]
async fn one_that_takes_many_slices_lets_the_others_come_first() {
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
    let app = world.place.app().await;
    scheduler::segments::look_at(&app, project, first).await.unwrap();
    let soon = world.place.clock.now() + SignedDuration::from_secs(1);
    let db = world.place.store.connection().await.unwrap();
    assert_eq!(follow::due(&db, soon, 10).await.unwrap(), [(project, second), (project, first)]);
}

#[tokio::test]
async fn marks_of_many_people_are_taken_some_at_a_time() {
    let world = World::new().await;
    let people: Vec<Uuid> = (1..=4_500).map(Uuid::from_u128).collect();
    let mut db = world.place.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    dirty::mark(&tx, world.project(), &Look::Person, &people, world.place.clock.now()).await.unwrap();
    let mut taken = Vec::new();
    loop {
        let marks = dirty::take(&tx, world.project(), 2_000).await.unwrap();
        let some: Vec<Uuid> = marks.into_iter().flat_map(|(_, people)| people).collect();
        if some.is_empty() {
            break;
        }
        assert!(some.len() < 4_000, "{}", some.len());
        taken.extend(some);
    }
    taken.sort_unstable();
    assert_eq!(taken, people);
}
