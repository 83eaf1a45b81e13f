//! Users: created by the first item that refers to them, merged once, with the known user's properties taking
//! precedence.

use kernel::ids::UserKey;
use serde_json::json;
use wire::event::{Alias, Body, IngestItem};

use crate::erasure::erase;
use crate::fixture::{Fixture, anonymous_track, identify, track};

#[tokio::test]
async fn identify_merges_the_anonymous_user() {
    let f = Fixture::start().await;
    f.publish(vec![
        anonymous_track(&f, "a1", "viewed"),
        identify(&f, None, Some("a1"), json!({"source": "ad", "plan": "none"})),
        identify(&f, Some("u1"), None, json!({"plan": "pro", "email": "u1@example.com", "name": "Ünal"})),
    ])
    .await;
    f.applied().await;
    assert_eq!(f.number("SELECT sum(count)::bigint FROM user_count").await, 2);
    f.publish(vec![identify(&f, Some("u1"), Some("a1"), json!({"seen": 1}))]).await;
    f.publish(vec![identify(&f, Some("u1"), Some("a1"), json!({}))]).await;
    // A merged user is not merged again.
    f.publish(vec![identify(&f, Some("u2"), Some("a1"), json!({"other": true}))]).await;
    // Later items of the anonymous ID belong to the known user.
    f.publish(vec![anonymous_track(&f, "a1", "viewed_later"), identify(&f, None, Some("a1"), json!({"late": 1}))])
        .await;
    f.applied().await;
    let u1 = UserKey::External("u1").internal_id(f.project);
    let properties = f.text(&format!("SELECT properties::text FROM users WHERE id = '{u1}'")).await.unwrap();
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&properties).unwrap(),
        json!({"plan": "pro", "source": "ad", "email": "u1@example.com", "name": "Ünal", "seen": 1, "late": 1})
    );
    assert_eq!(f.number(&format!("SELECT count(*) FROM users WHERE merged_into = '{u1}'")).await, 1);
    assert_eq!(f.number("SELECT sum(count)::bigint FROM user_count").await, 2);
    assert_eq!(f.number("SELECT count(*) FROM users WHERE merged_into IS NULL").await, 2);
    // Readers follow merges, so either of the user's IDs may be stored.
    let later = format!(
        "SELECT count(*) FROM events e JOIN users u ON u.id = e.user_id \
         WHERE coalesce(u.merged_into, u.id) = '{u1}' AND e.name = 'viewed_later'"
    );
    assert_eq!(f.number(&later).await, 1);
    assert_eq!(f.text(&format!("SELECT anonymous_id FROM users WHERE id = '{u1}'")).await.as_deref(), Some("a1"));
    f.stop().await;
}

/// Counts days whose number of users last seen differs from the rows.
const MISCOUNTED: &str = "SELECT count(*) FROM (SELECT project_id, seen_day AS day, count(*) AS n FROM users WHERE merged_into IS NULL GROUP BY 1, 2) u \
    FULL JOIN (SELECT project_id, day, sum(count)::bigint AS n FROM user_seen_count GROUP BY 1, 2 HAVING sum(count) <> 0) c \
    USING (project_id, day) WHERE u.n IS DISTINCT FROM c.n";

#[tokio::test]
async fn users_are_counted_by_last_seen_day() {
    let f = Fixture::start().await;
    let days_ago = |mut item: IngestItem, days: i64| {
        item.received_ms -= days * 86_400_000;
        item
    };
    f.publish(vec![
        days_ago(track(&f, "u1", "viewed", json!({})), 3),
        days_ago(anonymous_track(&f, "a1", "viewed"), 2),
        days_ago(identify(&f, Some("u2"), None, json!({"plan": "pro"})), 2),
        days_ago(track(&f, "u3", "viewed", json!({})), 2),
    ])
    .await;
    f.applied().await;
    let days = "SELECT count(*) FROM (SELECT FROM user_seen_count GROUP BY day HAVING sum(count) <> 0) d";
    assert_eq!((f.number(MISCOUNTED).await, f.number(days).await), (0, 2));
    // Users who are seen again, updated again, or become known. An event of an earlier day changes nothing.
    f.publish(vec![
        days_ago(track(&f, "u1", "viewed", json!({})), 1),
        days_ago(identify(&f, Some("u2"), Some("a1"), json!({"plan": "max"})), 1),
    ])
    .await;
    f.publish(vec![days_ago(track(&f, "u3", "viewed", json!({})), 4)]).await;
    f.applied().await;
    assert_eq!((f.number(MISCOUNTED).await, f.number(days).await), (0, 2));
    // Items with the merged ID count for the known user.
    f.publish(vec![anonymous_track(&f, "a1", "viewed"), erase(&f, "u3")]).await;
    f.applied().await;
    assert_eq!((f.number(MISCOUNTED).await, f.number(days).await), (0, 2));
    assert_eq!(f.number("SELECT sum(count)::bigint FROM user_seen_count").await, 2);
    f.stop().await;
}

#[tokio::test]
async fn an_alias_merges_the_previous_id() {
    let f = Fixture::start().await;
    let alias =
        IngestItem { body: Some(Body::Alias(Alias { previous_id: "a1".into() })), ..track(&f, "u1", "x", json!({})) };
    f.publish(vec![anonymous_track(&f, "a1", "viewed"), alias]).await;
    f.applied().await;
    assert_eq!(f.number("SELECT count(*) FROM users WHERE merged_into IS NOT NULL").await, 1);
    f.stop().await;
}

#[tokio::test]
async fn update_from_before_a_merge_only_adds_missing_properties() {
    let f = Fixture::start().await;
    let early = identify(&f, None, Some("a1"), json!({"plan": "none", "source": "ad"}));
    let mut merge = identify(&f, Some("u1"), Some("a1"), json!({"plan": "pro"}));
    merge.received_ms += 1_000;
    f.publish(vec![merge]).await;
    f.applied().await;
    f.publish(vec![early]).await;
    f.applied().await;
    let u1 = UserKey::External("u1").internal_id(f.project);
    let of_u1 = |key: &str| format!("SELECT properties->>'{key}' FROM users WHERE id = '{u1}'");
    assert_eq!(f.text(&of_u1("plan")).await.as_deref(), Some("pro"));
    assert_eq!(f.text(&of_u1("source")).await.as_deref(), Some("ad"));
    f.stop().await;
}

#[tokio::test]
async fn internal_id_as_external_id_names_a_separate_user() {
    let f = Fixture::start().await;
    f.publish(vec![identify(&f, Some("u1"), None, json!({"plan": "pro"}))]).await;
    f.applied().await;
    let u1 = UserKey::External("u1").internal_id(f.project).to_string();
    f.publish(vec![identify(&f, Some(&u1), None, json!({"seen": 1})), track(&f, &u1, "bought", json!({}))]).await;
    f.applied().await;
    assert_eq!(f.number("SELECT count(*) FROM users").await, 2);
    let of = |id: &str| format!("SELECT properties::text FROM users WHERE external_id = '{id}'");
    assert_eq!(f.text(&of("u1")).await.as_deref(), Some(r#"{"plan": "pro"}"#));
    assert_eq!(f.text(&of(&u1)).await.as_deref(), Some(r#"{"seen": 1}"#));
    assert_eq!(f.number(&format!("SELECT count(*) FROM events WHERE user_id = '{u1}'")).await, 0);
    f.stop().await;
}

#[tokio::test]
async fn search_text_follows_profile_changes() {
    let f = Fixture::start().await;
    f.publish(vec![
        track(&f, "U-1", "viewed", json!({})),
        anonymous_track(&f, "a1", "viewed"),
        identify(&f, None, Some("a2"), json!({"name": "Ünal"})),
    ])
    .await;
    f.applied().await;
    let texts = "SELECT string_agg(replace(text, chr(1), '|'), ' ' ORDER BY text) FROM user_search";
    assert_eq!(f.text(texts).await.as_deref(), Some("|u-1 |ünal"));
    f.publish(vec![
        identify(&f, Some("U-1"), None, json!({"email": "Ann@example.com"})),
        track(&f, "U-1", "viewed", json!({})),
    ])
    .await;
    f.publish(vec![identify(&f, Some("U-1"), Some("a2"), json!({}))]).await;
    f.applied().await;
    assert_eq!(f.text(texts).await.as_deref(), Some("|u-1|ann@example.com|ünal"));
    f.publish(vec![identify(&f, Some("U-1"), None, json!({"name": null, "email": "none"}))]).await;
    f.applied().await;
    assert_eq!(f.text(texts).await.as_deref(), Some("|u-1"));
    let same =
        "SELECT count(*) FROM user_search s JOIN users u USING (project_id, id) WHERE s.created_at = u.created_at";
    assert_eq!(f.number(same).await, 1);
    // Missing search rows can be backfilled.
    f.execute("DELETE FROM user_search").await;
    let db = f.store.connection().await.unwrap();
    assert_eq!(store_profiles::users::search::write_missing(&db).await.unwrap(), 1);
    assert_eq!(f.text(texts).await.as_deref(), Some("|u-1"));
    f.stop().await;
}
