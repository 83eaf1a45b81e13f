//! Changes to a segment during a full comparison or the evaluation of its users.

use std::time::{Duration, Instant};

use automation::TriggerType;
use database::Transaction;
use rules::change::ChangeKind;
use scheduler::App;
use serde_json::json;
use store_profiles::segments::follow::{self, EvaluationLock};
use uuid::Uuid;

use super::world::World;
use super::{did, plan};

/// Locks a table, so that readers of it wait.
async fn hold(tx: &Transaction<'_>, table: &str) {
    let sql = format!("SET LOCAL idle_in_transaction_session_timeout = 0; LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE");
    tx.batch_execute(&sql).await.unwrap();
}

/// Changes a segment's rules during a full comparison, which waits for a table.
async fn change_during_processing(world: &World, app: &App, segment: Uuid, table: &str) {
    let mut db = world.fixture.store.connection().await.unwrap();
    let held = db.transaction().await.unwrap();
    hold(&held, table).await;
    let edit = async {
        world.until_waited_for(table).await;
        world.change_rules(segment, plan("pro")).await;
        held.rollback().await.unwrap();
    };
    let (processed, ()) = tokio::join!(scheduler::segments::process_segment(app, world.project(), segment), edit);
    processed.unwrap();
}

#[tokio::test]
async fn rule_change_during_a_slice_discards_old_results() {
    let world = World::new().await;
    let project = world.project();
    let (ann, ben) = (world.user("ann", json!({})).await, world.user("ben", json!({"plan": "pro"})).await);
    world.event(ann, "bought", 5).await;
    let segment = world.segment(Some(did("bought", json!({})))).await;
    world.automation(segment, TriggerType::SegmentEnter).await;
    let app = world.fixture.app().await;
    change_during_processing(&world, &app, segment, "events").await;
    let follow = world.follow(segment).await;
    assert_eq!((follow.filled, follow.filled_to), (false, None));
    assert_eq!(world.members(segment).await, 0);

    scheduler::segments::process_segment(&app, project, segment).await.unwrap();
    assert!(world.follow(segment).await.filled);
    let members = "SELECT count(*) FROM segment_membership WHERE since IS NOT NULL AND user_id =";
    let of = async |user: Uuid| world.fixture.count(&format!("{members} '{user}'")).await;
    assert_eq!((of(ann).await, of(ben).await), (0, 1));
    world.execute("DELETE FROM segment_dirty").await;
    assert_eq!(world.started().await, []);
}

#[tokio::test]
async fn rule_change_during_a_sweep_refills_silently() {
    let world = World::new().await;
    let project = world.project();
    let opened = json!([{"field": "message:EMAIL", "operator": "did", "value": {"status": "opened"}}]);
    let ann = world.user("ann", json!({"plan": "pro"})).await;
    world.user("ben", json!({"plan": "pro"})).await;
    let segment = world.segment(Some(opened)).await;
    world.automation(segment, TriggerType::SegmentEnter).await;
    let app = world.fixture.app().await;
    scheduler::segments::process_segment(&app, project, segment).await.unwrap();
    assert!(world.follow(segment).await.filled);
    world.message(ann, "opened").await;

    change_during_processing(&world, &app, segment, "message").await;
    assert!(!world.follow(segment).await.filled, "the changed segment must be filled again");
    assert_eq!(world.fixture.count("SELECT count(*) FROM segment_dirty").await, 0);

    scheduler::segments::process_segment(&app, project, segment).await.unwrap();
    assert_eq!(world.members(segment).await, 2);
    scheduler::segments::evaluate(&app, project).await.unwrap();
    scheduler::segments::publish(&app, project).await.unwrap();
    assert_eq!(world.started().await, []);
}

#[tokio::test]
async fn rule_change_during_evaluation_does_not_wait_and_discards_old_results() {
    let world = World::new().await;
    let project = world.project();
    let ann = world.user("ann", json!({})).await;
    let segment = world.segment(Some(did("bought", json!({})))).await;
    world.automation(segment, TriggerType::SegmentEnter).await;
    let app = world.fixture.app().await;
    scheduler::segments::process_segment(&app, project, segment).await.unwrap();
    world.event(ann, "bought", 5).await;
    let mut db = world.fixture.store.connection().await.unwrap();
    let held = db.transaction().await.unwrap();
    hold(&held, "events").await;
    let edit = async {
        world.until_waited_for("events").await;
        world.change_rules(segment, plan("pro")).await;
        held.rollback().await.unwrap();
    };
    let (evaluated, ()) = tokio::join!(scheduler::segments::evaluate(&app, project), edit);
    evaluated.unwrap();
    assert_eq!(world.members(segment).await, 0);
    assert_eq!(world.fixture.count("SELECT count(*) FROM segment_dirty").await, 1);

    scheduler::segments::process_segment(&app, project, segment).await.unwrap();
    scheduler::segments::evaluate(&app, project).await.unwrap();
    scheduler::segments::publish(&app, project).await.unwrap();
    assert_eq!((world.members(segment).await, world.started().await), (0, vec![]));
    assert_eq!(world.fixture.count("SELECT count(*) FROM segment_dirty").await, 0);
}

#[tokio::test]
async fn user_created_during_fill_enters() {
    let world = World::new().await;
    let project = world.project();
    world.user("ann", json!({"plan": "pro"})).await;
    let segment = world.segment(Some(plan("pro"))).await;
    let enter = world.automation(segment, TriggerType::SegmentEnter).await;
    let ben = world.user("ben", json!({"plan": "pro"})).await;
    world.execute(&format!("UPDATE users SET created_at = now() + interval '1 second' WHERE id = '{ben}'")).await;
    world.mark(&ChangeKind::User, ben).await;
    let app = world.fixture.app().await;
    // Filling reaches the new user before their mark does.
    scheduler::segments::process_segment(&app, project, segment).await.unwrap();
    scheduler::segments::evaluate(&app, project).await.unwrap();
    scheduler::segments::publish(&app, project).await.unwrap();
    assert_eq!(world.started().await, [(enter, ben, "segment_entered".to_owned())]);
    assert_eq!(world.members(segment).await, 2);
}

#[tokio::test]
async fn second_scheduler_neither_waits_nor_loses_marks() {
    let world = World::new().await;
    let project = world.project();
    let ann = world.user("ann", json!({})).await;
    let segment = world.segment(Some(plan("pro"))).await;
    world.automation(segment, TriggerType::SegmentEnter).await;
    let app = world.fixture.app().await;
    scheduler::segments::process_segment(&app, project, segment).await.unwrap();
    world.properties(ann, json!({"plan": "pro"})).await;
    let mut db = world.fixture.store.connection().await.unwrap();
    let held = db.transaction().await.unwrap();
    assert_eq!(follow::try_lock(&held, project).await.unwrap(), EvaluationLock::Acquired(0));
    let began = Instant::now();
    scheduler::segments::evaluate(&app, project).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    assert_eq!(world.fixture.count("SELECT count(*) FROM segment_dirty").await, 1);
    held.rollback().await.unwrap();
    scheduler::segments::evaluate(&app, project).await.unwrap();
    assert_eq!(world.fixture.count("SELECT count(*) FROM segment_start").await, 1);
}
