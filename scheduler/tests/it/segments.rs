//! Followed segments: users who enter or leave trigger automations, in order and once.

mod races;
mod tenants;
mod world;

use automation::TriggerType;
use domain::message::DeliveryState;
use rules::change::ChangeKind;
use serde_json::{Value, json};
use store_profiles::segments::{dirty, follow, members};
use store_sending::automations;
use store_sending::messages::receipts::{self, Receipt};
use testkit::eventually;
use uuid::Uuid;

use crate::fixture::SOON;
use world::World;

fn plan(plan: &str) -> Value {
    json!([{"field": "plan", "operator": "eq", "value": plan}])
}

fn did(event: &str, value: Value) -> Value {
    json!([{"field": format!("event:{event}"), "operator": "did", "value": value}])
}

#[tokio::test]
async fn initial_fill_emits_no_events_and_later_changes_do() {
    let mut world = World::new().await;
    let (ann, ben) = (world.user("ann", json!({"plan": "pro"})).await, world.user("ben", json!({})).await);
    let segment = world.segment(Some(plan("pro"))).await;
    world.fixture.run().await;
    let [enter, exit] = world.followed(segment).await;
    assert_eq!(world.members(segment).await, 1);

    world.properties(ben, json!({"plan": "pro"})).await;
    world.until_started(&[(enter, ben)]).await;
    // No change relevant to the segment.
    world.properties(ben, json!({"plan": "pro", "age": 4})).await;
    world.properties(ann, json!({"plan": "free"})).await;
    world.settled().await;
    let started = world.started().await;
    assert_eq!(started.len(), 2, "{started:?}");
    assert!(started.contains(&(exit, ann, "segment_exited".to_owned())), "{started:?}");
    assert_eq!(world.members(segment).await, 1);
    let counted = "SELECT count(*) FROM segment_count WHERE entered = 1 AND exited = 1 AND day = (now() AT TIME ZONE 'UTC')::date";
    assert_eq!(world.fixture.count(counted).await, 1);
    world.fixture.stop().await;
}

#[tokio::test]
async fn users_leave_a_time_window_without_new_events() {
    let mut world = World::new().await;
    let [ann, ben, cleo] =
        [world.user("ann", json!({})).await, world.user("ben", json!({})).await, world.user("cleo", json!({})).await];
    let of_late = world.segment(Some(did("bought", json!({"within": "1m", "count": {"gte": 2}})))).await;
    let not_of_late = json!([{"field": "event:bought", "operator": "did_not", "value": {"within": "1m"}}]);
    let not_of_late = world.segment(Some(not_of_late)).await;
    world.fixture.run().await;
    let [enter, exit] = world.followed(of_late).await;
    let lapsed = world.automation(not_of_late, TriggerType::SegmentEnter).await;
    world.filled(not_of_late).await;
    assert_eq!((world.members(of_late).await, world.members(not_of_late).await), (0, 3));

    // Ann leaves by her second newest event, and lapses by the newest. Ben's events are old enough to expire.
    for (user, ago) in [(ann, 58), (ann, 55), (ann, 30), (ben, 59), (ben, 90), (cleo, 2), (cleo, 1)] {
        world.event(user, "bought", ago).await;
    }
    let mine = |started: &[(Uuid, Uuid, String)], of: Uuid| -> Vec<Uuid> {
        started.iter().filter(|(automation, ..)| *automation == of).map(|(_, user, _)| *user).collect()
    };
    eventually(SOON, async || {
        let started = world.started().await;
        let (entered, left, back) = (mine(&started, enter), mine(&started, exit), mine(&started, lapsed));
        if entered.len() == 2 && left.is_empty() && back == [ben] { Ok(()) } else { Err(format!("{started:?}")) }
    })
    .await;
    testkit::eventually_true("Ann has left", SOON, async || mine(&world.started().await, exit) == [ann]).await;
    assert_eq!((world.members(of_late).await, world.members(not_of_late).await), (1, 1));
    world.fixture.stop().await;
}

#[tokio::test]
async fn starts_of_a_crashed_scheduler_are_published_in_order() {
    let world = World::new().await;
    let ann = world.user("ann", json!({})).await;
    let segment = world.segment(Some(plan("pro"))).await;
    let enter = world.automation(segment, TriggerType::SegmentEnter).await;
    let exit = world.automation(segment, TriggerType::SegmentExit).await;
    let (first, second) = (world.fixture.app().await, world.fixture.app().await);
    scheduler::segments::process_segment(&first, world.project(), segment).await.unwrap();
    world.filled(segment).await;
    for plan in ["pro", "free", "pro"] {
        world.properties(ann, json!({"plan": plan})).await;
        // The scheduler dies before it publishes.
        scheduler::segments::evaluate(&first, world.project()).await.unwrap();
    }
    assert_eq!(world.started().await, []);
    // Two schedulers publish the same entries.
    let (one, other) = tokio::join!(
        scheduler::segments::publish(&first, world.project()),
        scheduler::segments::publish(&second, world.project())
    );
    one.unwrap();
    other.unwrap();
    let started: Vec<(Uuid, Uuid)> = world.started().await.into_iter().map(|(a, p, _)| (a, p)).collect();
    assert_eq!(started, [(enter, ann), (exit, ann), (enter, ann)]);
    assert_eq!(world.fixture.count("SELECT count(*) FROM segment_start").await, 0);
}

#[tokio::test]
async fn two_schedulers_publish_each_transition_once() {
    let mut world = World::new().await;
    let segment = world.segment(Some(plan("pro"))).await;
    let mut users = Vec::new();
    for i in 0..40 {
        users.push(world.user(&format!("p{i}"), json!({})).await);
    }
    world.fixture.run().await;
    world.fixture.run().await;
    let [enter, exit] = world.followed(segment).await;
    for plan in ["pro", "free", "pro"] {
        for user in &users {
            world.properties(*user, json!({"plan": plan})).await;
        }
        world.settled().await;
    }
    let started = world.started().await;
    for user in &users {
        let of_user: Vec<Uuid> = started.iter().filter(|(_, p, _)| p == user).map(|(a, ..)| *a).collect();
        assert_eq!(of_user, [enter, exit, enter]);
    }
    world.fixture.stop().await;
}

#[tokio::test]
async fn merged_user_keeps_memberships() {
    let mut world = World::new().await;
    let segment = world.segment(Some(did("viewed", json!({})))).await;
    world.fixture.run().await;
    let known = world.user("ann", json!({})).await;
    let visitor = world.user("visitor", json!({})).await;
    world.event(visitor, "viewed", 1).await;
    let [_, exit] = world.followed(segment).await;
    world.settled().await;
    let before = world.started().await.len();

    world.execute(&format!("UPDATE users SET merged_into = '{known}', merged_at = now() WHERE id = '{visitor}'")).await;
    for user in [visitor, known] {
        world.mark(&ChangeKind::User, user).await;
    }
    world.settled().await;
    assert_eq!(world.started().await.len(), before, "no user entered or left");
    assert_eq!(world.members(segment).await, 1);
    assert_eq!(
        world.fixture.count(&format!("SELECT count(*) FROM segment_membership WHERE user_id = '{known}'")).await,
        1
    );

    // Erased users leave without an exit event.
    world.execute(&format!("DELETE FROM users WHERE id IN ('{known}', '{visitor}')")).await;
    world.mark(&ChangeKind::User, known).await;
    world.settled().await;
    assert_eq!(world.members(segment).await, 0);
    assert!(world.started().await.iter().all(|(automation, ..)| *automation != exit));
    world.fixture.stop().await;
}

#[tokio::test]
async fn manual_lists_and_nested_segments_are_evaluated() {
    let mut world = World::new().await;
    let list = world.segment(None).await;
    let names = |id: Uuid| json!([{"field": "segment", "operator": "eq", "value": id}]);
    let inner = world.segment(Some(names(list))).await;
    let outer = world.segment(Some(json!([{"not": names(inner)[0]}]))).await;
    let ann = world.user("ann", json!({})).await;
    world.fixture.run().await;
    let listed = world.automation(list, TriggerType::SegmentEnter).await;
    let exit = world.automation(outer, TriggerType::SegmentExit).await;
    for segment in [list, outer] {
        world.filled(segment).await;
    }
    assert_eq!(world.members(outer).await, 1);
    let mut db = world.fixture.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    members::add(&tx, world.project(), list, &[ann], world.fixture.clock.now()).await.unwrap();
    dirty::mark(&tx, world.project(), &ChangeKind::Segment(list), &[ann], world.fixture.clock.now()).await.unwrap();
    tx.commit().await.unwrap();
    world.settled().await;
    let mut started: Vec<Uuid> = world.started().await.into_iter().map(|(automation, ..)| automation).collect();
    started.sort_unstable();
    assert_eq!(started, [listed, exit]);
    world.fixture.stop().await;
}

#[tokio::test]
async fn unmarked_changes_are_found_by_sweeps() {
    let mut world = World::new().await;
    let opened = json!([{"field": "message:EMAIL", "operator": "did", "value": {"status": "opened"}}]);
    let segment = world.segment(Some(opened)).await;
    let ann = world.user("ann", json!({})).await;
    world.fixture.run().await;
    let [enter, _] = world.followed(segment).await;
    world.message(ann, "opened").await;
    world.execute("UPDATE segment_follow SET look_at = now()").await;
    world.until_started(&[(enter, ann)]).await;
    let deferred = "SELECT count(*) FROM segment_follow WHERE look_at < now() + interval '10 seconds'";
    world.fixture.eventually_none(deferred).await;
    world.fixture.stop().await;
}

#[tokio::test]
async fn message_receipts_are_evaluated_immediately() {
    let mut world = World::new().await;
    let opened = json!([{"field": "message:EMAIL", "operator": "did", "value": {"status": "opened"}}]);
    let segment = world.segment(Some(opened)).await;
    let ann = world.user("ann", json!({})).await;
    world.fixture.run().await;
    let [enter, _] = world.followed(segment).await;
    let id = world.message(ann, "sent").await;
    // The segment's next full comparison is in an hour.
    world.execute("UPDATE segment_follow SET look_at = now() + interval '1 hour'").await;
    let mut db = world.fixture.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    let now = world.fixture.clock.now();
    let receipt = Receipt { message: id, state: DeliveryState::Opened, at: now, reason: None, url: None };
    receipts::apply(&tx, world.project(), &[receipt], now).await.unwrap();
    tx.commit().await.unwrap();
    world.until_started(&[(enter, ann)]).await;
    assert_eq!(
        world.fixture.count("SELECT count(*) FROM segment_follow WHERE look_at < now() + interval '50 minutes'").await,
        0
    );
    world.fixture.stop().await;
}

#[tokio::test]
async fn slow_segment_is_suspended_and_blocks_no_other() {
    let mut world = World::new().await;
    let slow = world.segment(Some(did("bought", json!({})))).await;
    let quick = world.segment(Some(plan("pro"))).await;
    let ann = world.user("ann", json!({})).await;
    world.fixture.run().await;
    world.followed(slow).await;
    let [enter, _] = world.followed(quick).await;
    let mut db = world.fixture.store.connection().await.unwrap();
    let held = db.transaction().await.unwrap();
    let hold = "SET LOCAL idle_in_transaction_session_timeout = 0; LOCK TABLE events IN ACCESS EXCLUSIVE MODE";
    held.batch_execute(hold).await.unwrap();
    world.mark(&ChangeKind::Event("bought".to_owned()), ann).await;
    world.properties(ann, json!({"plan": "pro"})).await;
    world.until_started(&[(enter, ann)]).await;
    let failed = follow::get(&world.fixture.store.connection().await.unwrap(), world.project(), slow).await.unwrap();
    assert!(failed.is_some_and(|follow| follow.error.is_some_and(|error| error.contains("took too long"))));
    held.rollback().await.unwrap();
    // The segment is retried later.
    world.execute("UPDATE segment_follow SET look_at = now() WHERE look_at IS NOT NULL").await;
    world.filled(slow).await;
    let retried = follow::get(&world.fixture.store.connection().await.unwrap(), world.project(), slow).await.unwrap();
    assert_eq!(retried.unwrap().error, None);
    world.fixture.stop().await;
}

#[tokio::test]
async fn changed_rules_refill_silently_and_unfollowed_segments_are_removed() {
    let mut world = World::new().await;
    let segment = world.segment(Some(plan("pro"))).await;
    world.user("ann", json!({"plan": "pro"})).await;
    world.user("ben", json!({"plan": "free"})).await;
    world.user("cleo", json!({"plan": "free"})).await;
    world.fixture.run().await;
    let [enter, exit] = world.followed(segment).await;
    world.change_rules(segment, plan("free")).await;
    world.filled(segment).await;
    assert_eq!((world.members(segment).await, world.started().await), (2, vec![]));

    let mut db = world.fixture.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    for automation in [enter, exit] {
        automations::delete(&tx, world.project(), automation, world.fixture.clock.now()).await.unwrap();
    }
    tx.commit().await.unwrap();
    for table in ["segment_membership", "segment_follow"] {
        world.fixture.eventually_none(&format!("SELECT count(*) FROM {table}")).await;
    }
    let watches = "SELECT count(*) FROM segment_watch WHERE looks_at <> '{}'";
    assert_eq!(world.fixture.count(watches).await, 0);
    world.fixture.stop().await;
}

#[tokio::test]
async fn filling_proceeds_slice_by_slice() {
    let mut world = World::new().await;
    let project = world.project();
    world
        .execute(&format!(
            "INSERT INTO users (project_id, id, external_id, properties, created_at, last_seen_at, updated_at) \
             SELECT '{project}', gen_random_uuid(), n, CASE WHEN n % 3 = 0 THEN '{{\"plan\": \"pro\"}}'::jsonb ELSE '{{}}' END, \
             now(), now(), now() FROM generate_series(1, 5000) AS n"
        ))
        .await;
    let segment = world.segment(Some(plan("pro"))).await;
    let app = world.fixture.app().await;
    world.automation(segment, TriggerType::SegmentEnter).await;
    let db = world.fixture.store.connection().await.unwrap();
    let mut progress = Vec::new();
    for _ in 0..3 {
        scheduler::segments::process_segment(&app, project, segment).await.unwrap();
        progress.push(follow::get(&db, project, segment).await.unwrap().unwrap().progress());
    }
    assert!(progress[0] > 0.3 && progress[0] < 0.5 && progress[1] > 0.7 && progress[1] < 0.9, "{progress:?}");
    assert!(progress[2] >= 1.0, "{progress:?}");
    assert_eq!(world.members(segment).await, 5_000 / 3);
    world.fixture.run().await;
    world.fixture.stop().await;
}
