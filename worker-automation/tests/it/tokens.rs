//! Push tokens: registered, moved, removed and merged.

use serde_json::json;
use wire::event::{Body, IngestItem, RegisterToken, RemoveToken};

use crate::erasure::erase;
use crate::fixture::{Fixture, identify, track};

fn register(f: &Fixture, user: &str, token: &str) -> IngestItem {
    let body = RegisterToken { platform: "ANDROID".into(), token: token.into() };
    IngestItem { body: Some(Body::RegisterToken(body)), ..track(f, user, "", json!({})) }
}

fn register_anonymous(f: &Fixture, anonymous: &str, token: &str) -> IngestItem {
    IngestItem { user_id: None, anonymous_id: Some(anonymous.into()), ..register(f, "", token) }
}

fn remove(f: &Fixture, token: &str) -> IngestItem {
    let body = Some(Body::RemoveToken(RemoveToken { token: token.into() }));
    IngestItem { user_id: None, body, ..track(f, "", "", json!({})) }
}

async fn owner(f: &Fixture, token: &str) -> Option<String> {
    let sql = "SELECT coalesce(u.external_id, u.anonymous_id) FROM push_token t \
               JOIN users u ON u.project_id = t.project_id AND u.id = t.user_id";
    f.text(&format!("{sql} WHERE t.token = '{token}'")).await
}

#[tokio::test]
async fn token_belongs_to_the_last_user_who_registered_it() {
    let f = Fixture::start().await;
    // The registrations create these users.
    f.publish_to(3, vec![register(&f, "a", "phone"), register(&f, "b", "phone"), register(&f, "a", "tablet")]).await;
    f.applied().await;
    assert_eq!(f.number("SELECT count(*) FROM users").await, 2);
    assert_eq!(f.number("SELECT sum(count)::bigint FROM user_count").await, 2);
    assert_eq!((owner(&f, "phone").await, owner(&f, "tablet").await), (Some("b".into()), Some("a".into())));

    f.publish_to(3, vec![register(&f, "a", "phone")]).await;
    f.publish_to(5, vec![remove(&f, "tablet"), remove(&f, "unknown")]).await;
    f.applied().await;
    assert_eq!((owner(&f, "phone").await, owner(&f, "tablet").await), (Some("a".into()), None));
    assert_eq!(f.number("SELECT count(*) FROM push_token WHERE user_id IS NOT NULL").await, 1);

    // Within one batch, the last item counts, too.
    f.publish_to(
        3,
        vec![
            remove(&f, "phone"),
            register(&f, "b", "phone"),
            remove(&f, "new"),
            register(&f, "b", "new"),
            remove(&f, "new"),
        ],
    )
    .await;
    f.applied().await;
    assert_eq!((owner(&f, "phone").await, owner(&f, "new").await), (Some("b".into()), None));
    assert_eq!(f.dead_letters().await, Vec::<String>::new());
    f.stop().await;
}

/// Registrations come through each user's own partition, and so in any order.
#[tokio::test]
async fn last_accepted_token_change_wins() {
    let f = Fixture::start().await;
    let apply = async |partition: u16, item: IngestItem| {
        f.publish_to(partition, vec![item]).await;
        f.applied().await;
    };
    let (late, last) = (register(&f, "a", "phone"), register(&f, "b", "phone"));
    apply(5, last).await;
    apply(3, late).await;
    assert_eq!(owner(&f, "phone").await.as_deref(), Some("b"));

    let (late, last) = (remove(&f, "phone"), register(&f, "a", "phone"));
    apply(3, last).await;
    apply(6, late).await;
    assert_eq!(owner(&f, "phone").await.as_deref(), Some("a"), "it was registered again");

    let (late, last) = (register(&f, "b", "phone"), remove(&f, "phone"));
    apply(6, last).await;
    apply(5, late).await;
    assert_eq!(f.number("SELECT count(*) FROM push_token WHERE user_id IS NOT NULL OR token IS NOT NULL").await, 0);

    // Within one millisecond, the order of the stream counts.
    let first = register(&f, "a", "phone");
    let second = IngestItem { received_ms: first.received_ms, ..register(&f, "b", "phone") };
    apply(3, first).await;
    apply(5, second).await;
    assert_eq!(owner(&f, "phone").await.as_deref(), Some("b"));
    f.stop().await;
}

#[tokio::test]
async fn device_of_an_erased_user_does_not_return_to_its_previous_owner() {
    let f = Fixture::start().await;
    let (late, last) = (register(&f, "a", "phone"), register(&f, "b", "phone"));
    f.publish_to(5, vec![last]).await;
    f.applied().await;
    f.publish_to(5, vec![erase(&f, "b")]).await;
    f.applied().await;
    f.publish_to(3, vec![late]).await;
    f.applied().await;
    assert_eq!(f.number("SELECT count(*) FROM push_token WHERE user_id IS NOT NULL OR token IS NOT NULL").await, 0);

    f.publish_to(3, vec![register(&f, "a", "phone")]).await;
    f.applied().await;
    assert_eq!(owner(&f, "phone").await.as_deref(), Some("a"));
    f.stop().await;
}

#[tokio::test]
async fn merged_user_keeps_devices() {
    let f = Fixture::start().await;
    f.publish_to(1, vec![register_anonymous(&f, "anon", "before")]).await;
    f.applied().await;
    assert_eq!(owner(&f, "before").await.as_deref(), Some("anon"));

    f.publish(vec![identify(&f, Some("known"), Some("anon"), json!({}))]).await;
    f.applied().await;
    f.publish_to(2, vec![register_anonymous(&f, "anon", "after")]).await;
    f.applied().await;
    for token in ["before", "after"] {
        assert_eq!(owner(&f, token).await.as_deref(), Some("known"), "{token}");
    }
    f.stop().await;
}

#[tokio::test]
async fn duplicate_registration_does_not_move_the_token_back() {
    let f = Fixture::start().await;
    let first = IngestItem { dedupe_id: vec![7; 16].into(), ..register(&f, "a", "phone") };
    let again = IngestItem { id: register(&f, "a", "phone").id, ..first.clone() };
    f.publish_to(3, vec![first, register(&f, "b", "phone")]).await;
    f.publish_to(3, vec![again]).await;
    f.applied().await;
    assert_eq!(owner(&f, "phone").await.as_deref(), Some("b"));
    f.stop().await;
}
