//! API keys: the operations that each type opens, and how fast a change takes effect.

use kernel::clock::Clock;
use store_projects::api_keys::{self, KeyType};
use testkit::eventually;

use crate::http::Call;
use crate::setup::{fixture, key, secs};

const EVENT: &str = r#"{"event":"e","user_id":"u"}"#;

#[tokio::test]
async fn keys_are_accepted_in_both_headers_only() {
    let f = fixture().await;
    let (secret, public) = (&f.tenant.secret, &f.tenant.public);
    let call = |name: &str, value: &str| Call::new(f.gateway.addr, "POST", "/api/v1/events").header(name, value);
    for (name, value) in
        [("x-api-key", secret.clone()), ("x-api-key", public.clone()), ("authorization", format!("bEaReR {secret}"))]
    {
        assert_eq!(call(name, &value).send(EVENT).await.status, 202, "{name}");
    }
    for (name, value) in [
        ("x-other", "x".to_owned()),
        ("x-api-key", "nonsense".to_owned()),
        ("x-api-key", api_keys::random_key(KeyType::Secret)),
        ("authorization", format!("Basic {secret}")),
    ] {
        // The key is checked before the body, which is not JSON.
        call(name, &value).send("nope").await.error(401);
    }
    let listed = f.gateway.call("GET", "/events", public).send("").await;
    listed.error(403);
}

#[tokio::test]
async fn revoked_key_is_rejected_and_new_key_accepted_within_a_second() {
    let f = fixture().await;
    let new = api_keys::random_key(KeyType::Public);
    f.gateway.post("/events", &new, EVENT).await.error(401);
    assert_eq!(f.gateway.post("/events", &f.tenant.public, EVENT).await.status, 202);

    let mut db = f.store.connection().await.unwrap();
    let hash = api_keys::hash(&f.tenant.public);
    let id = api_keys::find_active(&db, &hash).await.unwrap().unwrap().id;
    let now = Clock::system().now();
    let tx = db.transaction().await.unwrap();
    assert!(api_keys::revoke(&tx, f.tenant.id, id, now).await.unwrap());
    api_keys::insert(&tx, f.tenant.id, kernel::ids::fresh(now.as_millisecond()), KeyType::Public, "new", &new, now)
        .await
        .unwrap();
    tx.commit().await.unwrap();

    eventually(secs(1), async || match f.gateway.post("/events", &f.tenant.public, EVENT).await.status {
        401 => Ok(()),
        other => Err(other),
    })
    .await;
    assert_eq!(f.gateway.post("/events", &new, EVENT).await.status, 202);
}

#[tokio::test]
async fn key_grants_access_to_its_own_project_only() {
    let f = fixture().await;
    let other = crate::setup::tenant(&f.store, 1_000).await;
    let third = key(&f.store, other.id, KeyType::Secret).await;
    for key in [&f.tenant.public, &other.public, &third] {
        assert_eq!(f.gateway.post("/events", key, EVENT).await.status, 202);
    }
    let projects: Vec<_> = f.gateway.stored().await.iter().map(|i| i.project().unwrap()).collect();
    assert_eq!(projects, [f.tenant.id, other.id, other.id]);
}
