//! Subscription preferences: the latest choice counts, across merges, and is lost with an erasure.

use domain::message::Channel;
use domain::suppression::{Address, Reason};
use kernel::ids::{self, UserKey};
use serde_json::json;
use store_sending::suppressions::{self, Suppression};
use uuid::Uuid;
use wire::event::{Body, Choice, Erase, IngestItem, Subscribe, id_bytes};

use crate::fixture::{Fixture, anonymous_track, identify, track};

const NEWS: Uuid = Uuid::from_u128(1);
const DIGEST: Uuid = Uuid::from_u128(2);

async fn groups(f: &Fixture) {
    for (id, public) in [(NEWS, true), (DIGEST, false)] {
        f.execute(&format!(
            "INSERT INTO subscription_group (project_id, id, name, public, created_at, updated_at) \
             VALUES ('{}', '{id}', 'g', {public}, now(), now())",
            f.project
        ))
        .await;
    }
}

/// Returns a choice that has only the user's internal ID, as from a page that could not query the database.
fn chose(f: &Fixture, user: Uuid, source: &str, choices: &[(Uuid, bool)]) -> IngestItem {
    let choice = |(group, subscribed): &(Uuid, bool)| Choice { group_id: id_bytes(*group), subscribed: *subscribed };
    let body = Subscribe {
        user_id: id_bytes(user),
        choices: choices.iter().map(choice).collect(),
        source: source.to_owned(),
        ..Subscribe::default()
    };
    IngestItem { user_id: None, body: Some(Body::Subscribe(body)), ..track(f, "", "", json!({})) }
}

/// Returns all choices, in order.
async fn kept(f: &Fixture) -> String {
    let sql = "SELECT coalesce(string_agg(right(group_id::text, 1) || ' ' || subscribed || ' ' || source, ', ' ORDER BY user_id, group_id), '') \
               FROM subscription";
    f.text(sql).await.unwrap()
}

#[tokio::test]
async fn latest_preference_wins_in_any_order() {
    let f = Fixture::start().await;
    groups(&f).await;
    let ann = UserKey::External("ann").internal_id(f.project);
    f.publish(vec![track(&f, "ann", "seen", json!({}))]).await;
    f.applied().await;
    // Both orders within one transaction, and a later item that was accepted earlier.
    let (first, second) = (chose(&f, ann, "page", &[(NEWS, false)]), chose(&f, ann, "api", &[(NEWS, true)]));
    let (third, fourth) = (chose(&f, ann, "link", &[(NEWS, false)]), chose(&f, ann, "api", &[(NEWS, true)]));
    f.publish_to(1, vec![second, first]).await;
    f.applied().await;
    assert_eq!(kept(&f).await, "1 true api");
    f.publish_to(2, vec![fourth]).await;
    f.applied().await;
    f.publish_to(3, vec![third]).await;
    f.applied().await;
    assert_eq!(kept(&f).await, "1 true api");
    // The page cannot change groups that it does not show; a mail's own link can. Unknown groups are skipped.
    let unknown = Uuid::from_u128(9);
    f.publish_to(1, vec![chose(&f, ann, "page", &[(DIGEST, false), (unknown, true), (NEWS, false)])]).await;
    f.applied().await;
    assert_eq!(kept(&f).await, "1 false page");
    f.publish_to(1, vec![chose(&f, ann, "link", &[(DIGEST, false)])]).await;
    f.applied().await;
    assert_eq!(kept(&f).await, "1 false page, 2 false link");
    // A choice creates neither a user nor an event.
    f.publish_to(1, vec![chose(&f, Uuid::from_u128(77), "page", &[(NEWS, true)])]).await;
    f.applied().await;
    assert_eq!(kept(&f).await, "1 false page, 2 false link");
    assert_eq!(f.number("SELECT count(*) FROM users").await, 1);
    assert_eq!(f.number("SELECT count(*) FROM events").await, 1);
    assert_eq!(f.dead_letters().await, Vec::<String>::new());
    f.stop().await;
}

#[tokio::test]
async fn unsubscription_survives_a_merge() {
    let f = Fixture::start().await;
    groups(&f).await;
    let [known, first, second] = [
        UserKey::External("u1").internal_id(f.project),
        UserKey::Anonymous("a1").internal_id(f.project),
        UserKey::Anonymous("a2").internal_id(f.project),
    ];
    f.publish(vec![track(&f, "u1", "seen", json!({}))]).await;
    f.publish(vec![anonymous_track(&f, "a1", "seen"), anonymous_track(&f, "a2", "seen")]).await;
    f.applied().await;
    // For one group the visitor's choice is the latest, for the other the known user's.
    for (user, choice) in [
        (first, (DIGEST, true)),
        (known, (NEWS, true)),
        (known, (DIGEST, false)),
        (second, (DIGEST, true)),
        (first, (NEWS, false)),
    ] {
        f.publish_to(1, vec![chose(&f, user, "api", &[choice])]).await;
        f.applied().await;
    }
    // In one transaction with the merge, before it and after it.
    let before = chose(&f, second, "link", &[(NEWS, true)]);
    let last = chose(&f, second, "page", &[(NEWS, false)]);
    f.publish_to(
        1,
        vec![
            identify(&f, Some("u1"), Some("a1"), json!({})),
            before,
            identify(&f, Some("u1"), Some("a2"), json!({})),
            last,
        ],
    )
    .await;
    f.applied().await;
    assert_eq!(kept(&f).await, "1 false page, 2 true api");
    assert_eq!(
        f.text("SELECT string_agg(DISTINCT user_id::text, ',') FROM subscription").await,
        Some(known.to_string())
    );
    // After the merge, choices for the anonymous ID apply to the known user.
    f.publish_to(1, vec![chose(&f, first, "link", &[(DIGEST, false)])]).await;
    f.applied().await;
    assert_eq!(kept(&f).await, "1 false page, 2 false link");
    f.stop().await;
}

#[tokio::test]
async fn preferences_are_removed_with_the_user() {
    let f = Fixture::start().await;
    groups(&f).await;
    let ann = UserKey::External("ann").internal_id(f.project);
    f.publish(vec![track(&f, "ann", "seen", json!({}))]).await;
    f.applied().await;
    f.publish_to(1, vec![chose(&f, ann, "api", &[(NEWS, true)])]).await;
    f.applied().await;
    let late = chose(&f, ann, "page", &[(DIGEST, true), (NEWS, false)]);
    let erase = Erase { user_id: id_bytes(ann) };
    let erasure = IngestItem { body: Some(Body::Erase(erase)), ..track(&f, "ann", "", json!({})) };
    f.publish(vec![erasure, track(&f, "ann", "again", json!({}))]).await;
    f.applied().await;
    assert_eq!(kept(&f).await, "");
    // Accepted before the erasure, and applied after it and after the user has returned.
    f.publish_to(2, vec![late]).await;
    f.applied().await;
    assert_eq!(kept(&f).await, "");
    f.publish_to(2, vec![chose(&f, ann, "page", &[(NEWS, false)])]).await;
    f.applied().await;
    assert_eq!(kept(&f).await, "1 false page");
    f.stop().await;
}

#[tokio::test]
async fn user_can_resubscribe_after_unsubscribing_from_everything() {
    let f = Fixture::start().await;
    let ann = UserKey::External("ann").internal_id(f.project);
    f.publish(vec![identify(&f, Some("ann"), None, json!({"email": "Ann@X.org"}))]).await;
    f.applied().await;
    let message = ids::fresh(f.clock.now_ms());
    f.execute(&format!(
        "INSERT INTO message (project_id, id, user_id, channel, lane, status, attempt, address, created_at, updated_at) \
         VALUES ('{}', '{message}', '{ann}', 'EMAIL', 'campaign', 'sent', 1, 'old@x.org', now(), now())",
        f.project
    ))
    .await;
    let again = |f: &Fixture| {
        let body = Subscribe {
            user_id: id_bytes(ann),
            source: "page".to_owned(),
            message_id: id_bytes(message),
            resubscribe: true,
            ..Subscribe::default()
        };
        IngestItem { user_id: None, body: Some(Body::Subscribe(body)), ..track(f, "", "", json!({})) }
    };
    let early = again(&f);
    let db = f.store.connection().await.unwrap();
    let at = kernel::clock::from_ms(f.now_ms());
    let entry = |address, reason| Suppression::new(f.project, address, reason, at);
    let entries = [
        entry(Address::email("ann@x.org"), Reason::Unsubscribed),
        entry(Address::email("ann@x.org"), Reason::Complained),
        entry(Address::email("old@x.org"), Reason::Unsubscribed),
        entry(Address::email("eve@x.org"), Reason::Unsubscribed),
        entry(Address::for_user(Channel::Email, ann), Reason::Unsubscribed),
        entry(Address::for_user(Channel::Push, ann), Reason::Manual),
    ];
    suppressions::put(&db, f.project, &entries).await.unwrap();
    // Accepted before they unsubscribed, and applied after.
    f.publish_to(1, vec![early]).await;
    f.applied().await;
    assert_eq!(f.number("SELECT count(*) FROM suppression").await, 6);
    f.publish_to(1, vec![again(&f)]).await;
    f.applied().await;
    let left = f.text(
        "SELECT string_agg(channel || ' ' || address || ' ' || reason, ', ' ORDER BY reason, address) FROM suppression",
    );
    // An address that only the profile claims stays on the list.
    let expected = format!(
        "EMAIL ann@x.org complained, PUSH {ann} manual, EMAIL ann@x.org unsubscribed, EMAIL eve@x.org unsubscribed"
    );
    assert_eq!(left.await, Some(expected));
    f.stop().await;
}
