//! Users are marked only for changes that segments of their project depend on.

use kernel::ids;
use serde_json::json;
use uuid::Uuid;
use wire::event::{Body, IngestItem, RegisterToken, Start, id_bytes};

use crate::fixture::{Fixture, anonymous_track, identify, track};

async fn watch(f: &Fixture, changes: &str) {
    f.execute(&format!(
        "BEGIN; UPDATE change SET seq = seq + 1 WHERE topic = 'segment'; \
         INSERT INTO segment_watch (project_id, looks_at, changed_seq) \
         SELECT '{}', '{changes}', seq FROM change WHERE topic = 'segment' ON CONFLICT (project_id) DO UPDATE \
         SET looks_at = excluded.looks_at, changed_seq = excluded.changed_seq; COMMIT",
        f.project
    ))
    .await;
}

/// Returns the marks, by kind and external ID, in order, and deletes them.
async fn marked(f: &Fixture) -> String {
    f.applied().await;
    let sql = "SELECT coalesce(string_agg(look || ' ' || coalesce(u.external_id, u.anonymous_id), ', ' \
               ORDER BY look, coalesce(u.external_id, u.anonymous_id)), '') \
               FROM segment_dirty d, unnest(d.people) AS p JOIN users u ON u.id = p";
    let found = f.text(sql).await.unwrap();
    f.execute("DELETE FROM segment_dirty").await;
    found
}

#[tokio::test]
async fn only_segment_dependencies_are_marked() {
    let f = Fixture::start().await;
    f.publish(vec![track(&f, "ann", "bought", json!({})), identify(&f, Some("ann"), None, json!({"a": 1}))]).await;
    assert_eq!(marked(&f).await, "", "no segment depends on anything");

    watch(&f, "{event:bought,person}").await;
    f.publish_to(
        1,
        vec![
            track(&f, "ann", "bought", json!({})),
            track(&f, "ann", "bought", json!({})),
            track(&f, "ann", "viewed", json!({})),
            track(&f, "ben", "viewed", json!({})),
            identify(&f, Some("ann"), None, json!({"a": 2})),
        ],
    )
    .await;
    assert_eq!(marked(&f).await, "event:bought ann, person ben");

    watch(&f, "{profile,seen,devices,person}").await;
    let device = RegisterToken { platform: "IOS".to_owned(), token: "t".to_owned() };
    let registered = IngestItem { body: Some(Body::RegisterToken(device)), ..track(&f, "ben", "", json!({})) };
    f.publish_to(
        1,
        vec![track(&f, "ann", "bought", json!({})), identify(&f, Some("cleo"), None, json!({"a": 2})), registered],
    )
    .await;
    assert_eq!(marked(&f).await, "devices ben, person cleo, profile cleo, seen cleo");

    f.publish_to(
        1,
        vec![anonymous_track(&f, "visitor", "viewed"), identify(&f, Some("ann"), Some("visitor"), json!({}))],
    )
    .await;
    let merged = marked(&f).await;
    assert!(merged.starts_with("person ann, person visitor, profile ann, profile visitor"), "{merged}");

    watch(&f, "{}").await;
    f.publish(vec![identify(&f, Some("ann"), None, json!({"a": 3}))]).await;
    assert_eq!(marked(&f).await, "");
    f.stop().await;
}

#[tokio::test]
async fn step_that_changes_a_profile_marks_the_user() {
    let f = Fixture::start().await;
    watch(&f, "{profile,person}").await;
    f.publish(vec![track(&f, "ann", "other", json!({}))]).await;
    marked(&f).await;
    f.automation("bought", "always", &[json!({"type": "UPDATE_USER", "properties": {"buyer": true}})]).await;
    f.publish(vec![track(&f, "ann", "bought", json!({}))]).await;
    assert_eq!(marked(&f).await, "profile ann");
    f.stop().await;
}

#[tokio::test]
async fn duplicate_start_starts_one_run() {
    let f = Fixture::start().await;
    let automation = f.automation("never", "always", &[]).await;
    f.publish(vec![track(&f, "ann", "other", json!({}))]).await;
    f.applied().await;
    let ann = f.text("SELECT id::text FROM users").await.unwrap();
    let id = id_bytes(ids::fresh(f.clock.now_ms()));
    let trigger = json!({"name": "segment_entered"}).to_string().into();
    let body = Body::Start(Start { automation_id: id_bytes(automation), date_ms: 0, trigger });
    let start =
        IngestItem { id: id.clone(), dedupe_id: id, body: Some(body), depth: 1, ..track(&f, &ann, "", json!({})) };
    for _ in 0..2 {
        f.publish_to(2, vec![start.clone()]).await;
        f.applied().await;
    }
    assert_eq!(f.number("SELECT count(*) FROM run").await, 1);
    assert_eq!(f.number("SELECT sum(count)::bigint FROM automation_count WHERE did = 'entered'").await, 1);
    // If the ID was forgotten meanwhile, the existing run is found instead.
    f.execute("DELETE FROM client_id").await;
    f.publish_to(2, vec![start]).await;
    f.applied().await;
    assert_eq!(f.number("SELECT count(*) FROM run").await, 1);
    assert_eq!(
        f.number(&format!("SELECT count(*) FROM run WHERE user_id = '{}'", ann.parse::<Uuid>().unwrap())).await,
        1
    );
    f.stop().await;
}
