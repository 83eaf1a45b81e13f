//! Changes to a segment during a full comparison or the evaluation of its users.

use std::time::{Duration, Instant};

use automation::TriggerType;
use database::Transaction;
use rules::look::Look;
use scheduler::App;
use serde_json::json;
use store_profiles::segments::follow::{self, Turn};
use uuid::Uuid;

use super::world::World;
use super::{did, plan};

/// Locks a table, so that readers of it wait.
async fn hold(tx: &Transaction<'_>, table: &str) {
    let sql = format!("SET LOCAL idle_in_transaction_session_timeout = 0; LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE");
    tx.batch_execute(&sql).await.unwrap();
}

/// Changes a segment's rules during a full comparison, which waits for a table.
async fn changed_during_look(world: &World, app: &App, segment: Uuid, table: &str) {
    let mut db = world.place.store.connection().await.unwrap();
    let held = db.transaction().await.unwrap();
    hold(&held, table).await;
    let edit = async {
        world.until_waited_for(table).await;
        world.change_rules(segment, plan("pro")).await;
        held.rollback().await.unwrap();
    };
    let (looked, ()) = tokio::join!(scheduler::segments::look_at(app, world.project(), segment), edit);
    looked.unwrap();
}

#[tokio::test]
async fn rules_that_are_changed_during_a_slice_leave_nothing_of_the_old_ones() {
    let world = World::new().await;
    let project = world.project();
    let (ann, ben) = (world.person("ann", json!({})).await, world.person("ben", json!({"plan": "pro"})).await);
    world.event(ann, "bought", 5).await;
    let segment = world.segment(Some(did("bought", json!({})))).await;
    world.automation(segment, TriggerType::SegmentEnter).await;
    let app = world.place.app().await;
    changed_during_look(&world, &app, segment, "events").await;
    let follow = world.follow(segment).await;
    assert_eq!((follow.filled, follow.filled_to), (false, None));
    assert_eq!(world.members(segment).await, 0);

    scheduler::segments::look_at(&app, project, segment).await.unwrap();
    assert!(world.follow(segment).await.filled);
    let members = "SELECT count(*) FROM segment_membership WHERE since IS NOT NULL AND user_id =";
    let of = async |person: Uuid| world.place.count(&format!("{members} '{person}'")).await;
    assert_eq!((of(ann).await, of(ben).await), (0, 1));
    world.execute("DELETE FROM segment_dirty").await;
    assert_eq!(world.started().await, []);
}

#[tokio::test]
async fn rules_that_are_changed_during_a_sweep_are_filled_in_unheard() {
    let world = World::new().await;
    let project = world.project();
    let opened = json!([{"field": "message:EMAIL", "operator": "did", "value": {"status": "opened"}}]);
    let ann = world.person("ann", json!({"plan": "pro"})).await;
    world.person("ben", json!({"plan": "pro"})).await;
    let segment = world.segment(Some(opened)).await;
    world.automation(segment, TriggerType::SegmentEnter).await;
    let app = world.place.app().await;
    scheduler::segments::look_at(&app, project, segment).await.unwrap();
    assert!(world.follow(segment).await.filled);
    world.message(ann, "opened").await;

    changed_during_look(&world, &app, segment, "message").await;
    assert!(!world.follow(segment).await.filled, "the changed segment must be filled again");
    assert_eq!(world.place.count("SELECT count(*) FROM segment_dirty").await, 0);

    scheduler::segments::look_at(&app, project, segment).await.unwrap();
    assert_eq!(world.members(segment).await, 2);
    scheduler::segments::evaluate(&app, project).await.unwrap();
    scheduler::segments::publish(&app, project).await.unwrap();
    assert_eq!(world.started().await, []);
}

#[tokio::test]
async fn rules_that_are_changed_during_an_evaluation_do_not_wait_and_leave_no_verdict_of_the_old_ones() {
    let world = World::new().await;
    let project = world.project();
    let ann = world.person("ann", json!({})).await;
    let segment = world.segment(Some(did("bought", json!({})))).await;
    world.automation(segment, TriggerType::SegmentEnter).await;
    let app = world.place.app().await;
    scheduler::segments::look_at(&app, project, segment).await.unwrap();
    world.event(ann, "bought", 5).await;
    let mut db = world.place.store.connection().await.unwrap();
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
    assert_eq!(world.place.count("SELECT count(*) FROM segment_dirty").await, 1);

    scheduler::segments::look_at(&app, project, segment).await.unwrap();
    scheduler::segments::evaluate(&app, project).await.unwrap();
    scheduler::segments::publish(&app, project).await.unwrap();
    assert_eq!((world.members(segment).await, world.started().await), (0, vec![]));
    assert_eq!(world.place.count("SELECT count(*) FROM segment_dirty").await, 0);
}

#[tokio::test]
async fn whoever_is_made_while_it_is_filled_comes_in() {
    let world = World::new().await;
    let project = world.project();
    world.person("ann", json!({"plan": "pro"})).await;
    let segment = world.segment(Some(plan("pro"))).await;
    let enter = world.automation(segment, TriggerType::SegmentEnter).await;
    let ben = world.person("ben", json!({"plan": "pro"})).await;
    world.execute(&format!("UPDATE users SET created_at = now() + interval '1 second' WHERE id = '{ben}'")).await;
    world.mark(&Look::Person, ben).await;
    let app = world.place.app().await;
    // Filling reaches the new user before their mark does.
    scheduler::segments::look_at(&app, project, segment).await.unwrap();
    scheduler::segments::evaluate(&app, project).await.unwrap();
    scheduler::segments::publish(&app, project).await.unwrap();
    assert_eq!(world.started().await, [(enter, ben, "segment_entered".to_owned())]);
    assert_eq!(world.members(segment).await, 2);
}

#[tokio::test]
async fn whose_turn_it_is_not_does_not_wait_and_loses_no_mark() {
    let world = World::new().await;
    let project = world.project();
    let ann = world.person("ann", json!({})).await;
    let segment = world.segment(Some(plan("pro"))).await;
    world.automation(segment, TriggerType::SegmentEnter).await;
    let app = world.place.app().await;
    scheduler::segments::look_at(&app, project, segment).await.unwrap();
    world.properties(ann, json!({"plan": "pro"})).await;
    let mut db = world.place.store.connection().await.unwrap();
    let held = db.transaction().await.unwrap();
    assert_eq!(follow::take_turn(&held, project).await.unwrap(), Turn::Ours(0));
    let began = Instant::now();
    scheduler::segments::evaluate(&app, project).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    assert_eq!(world.place.count("SELECT count(*) FROM segment_dirty").await, 1);
    held.rollback().await.unwrap();
    scheduler::segments::evaluate(&app, project).await.unwrap();
    assert_eq!(world.place.count("SELECT count(*) FROM segment_start").await, 1);
}
