//! Tests for `GET /inbox/stream`.

use serde_json::{Value, json};
use store_projects::projects;
use testkit::eventually_true;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{deliver, proof};
use crate::fixture::Gateway;
use crate::identity::{hash, jwt, token};
use crate::rows::Rows;
use crate::setup::{Tenant, master_keys, secs};

/// A block of the stream: an event, or one without an event name.
#[derive(Debug, Default)]
struct Event {
    id: Option<String>,
    kind: String,
    data: Value,
}

/// The client side of a stream.
struct Follower {
    stream: TcpStream,
    text: String,
}

impl Follower {
    async fn follow(gateway: &Gateway, key: &str, query: &str, headers: &str) -> Self {
        Self::follow_with(gateway, query, &format!("x-api-key: {key}\r\n{headers}")).await
    }

    async fn follow_with(gateway: &Gateway, query: &str, headers: &str) -> Self {
        let mut stream = TcpStream::connect(gateway.address()).await.unwrap();
        let head = format!("GET /api/v1/inbox/stream?{query} HTTP/1.1\r\nhost: test\r\n{headers}\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        Self { stream, text: String::new() }
    }

    /// Reads until `text` has arrived; returns false if the stream ends first.
    async fn read_until(&mut self, text: &str) -> bool {
        while !self.text.contains(text) {
            let mut piece = [0; 4_096];
            let read = tokio::time::timeout(secs(20), self.stream.read(&mut piece));
            match read.await.unwrap_or_else(|_| panic!("no {text:?} in {:?}", self.text)) {
                Ok(0) | Err(_) => return false,
                Ok(n) => self.text.push_str(std::str::from_utf8(&piece[..n]).unwrap()),
            }
        }
        true
    }

    /// Returns the next event of a kind and drops the events before it.
    async fn next(&mut self, kind: &str) -> Event {
        loop {
            assert!(self.read_until("\n\n").await, "the stream ended: {:?}", self.text);
            let (block, rest) = self.text.split_once("\n\n").unwrap();
            let mut event = Event::default();
            for line in block.lines() {
                match line.split_once(": ") {
                    Some(("id", id)) => event.id = Some(id.to_owned()),
                    Some(("event", kind)) => kind.clone_into(&mut event.kind),
                    Some(("data", data)) => event.data = serde_json::from_str(data).unwrap(),
                    _ => {}
                }
            }
            let rest = rest.to_owned();
            self.text = rest;
            if event.kind == kind {
                return event;
            }
        }
    }
}

async fn setup_inbox() -> (Gateway, Tenant, uuid::Uuid) {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let ann = Rows { gateway: &gateway, project: project.id }.user("ann", None, None, 9).await;
    (gateway, project, ann)
}

#[tokio::test]
async fn stream_delivers_new_and_missed_messages() {
    let (gateway, project, ann) = setup_inbox().await;
    let header = format!("x-user-hash: {}\r\n", proof(&gateway, &project, "ann").await);
    deliver(&gateway, &project, ann, "old").await;
    let mut follower = Follower::follow(&gateway, &project.public, "user_id=ann", &header).await;
    assert!(follower.read_until("text/event-stream").await);
    assert_eq!(follower.next("unread").await.data, json!({"unread": 1}));
    // Much sooner than the next heartbeat.
    let id = deliver(&gateway, &project, ann, "new").await;
    let first = tokio::time::timeout(secs(5), follower.next("message")).await.unwrap();
    assert_eq!((&first.data["title"], &first.data["id"]), (&json!("new"), &json!(id)));
    assert_eq!(follower.next("unread").await.data, json!({"unread": 2}));
    // Read in another client.
    gateway.post(&project, &format!("/inbox/{id}/read?user_id=ann"), &json!({})).await.expect(200);
    assert_eq!(follower.next("unread").await.data, json!({"unread": 1}));
    drop(follower);

    for title in ["missed", "too"] {
        deliver(&gateway, &project, ann, title).await;
    }
    let resumed = format!("last-event-id: {}\r\n", first.id.unwrap());
    let mut follower = Follower::follow(&gateway, &project.secret, "user_id=ann", &resumed).await;
    for title in ["missed", "too"] {
        assert_eq!(follower.next("message").await.data["title"], title);
    }
    // A client that was disconnected before the first message can resume, too.
    let mut cut_off = Follower::follow(&gateway, &project.secret, "user_id=ann", "").await;
    let beginning = cut_off.next("").await.id.unwrap();
    drop(cut_off);
    deliver(&gateway, &project, ann, "meanwhile").await;
    let again = format!("user_id=ann&cursor={beginning}");
    let mut follower = Follower::follow(&gateway, &project.secret, &again, "").await;
    assert_eq!(follower.next("message").await.data["title"], "meanwhile");
    // A client can subscribe before the user exists.
    let mut early = Follower::follow(&gateway, &project.secret, "user_id=bob", "").await;
    assert_eq!(early.next("unread").await.data, json!({"unread": 0}));
    let bob = Rows { gateway: &gateway, project: project.id }.user("bob", None, None, 9).await;
    deliver(&gateway, &project, bob, "hello").await;
    let hello = tokio::time::timeout(secs(5), early.next("message")).await.unwrap();
    assert_eq!(hello.data["title"], "hello");

    // Cross-origin pages cannot send that header and use the query string.
    let cursor = format!("user_id=ann&cursor={}", resumed.trim().trim_start_matches("last-event-id: "));
    let mut follower = Follower::follow(&gateway, &project.secret, &cursor, "").await;
    assert_eq!(follower.next("message").await.data["title"], "missed");

    let wrong = [("last-event-id", "x")];
    let response = gateway.send("GET", "/inbox/stream?user_id=ann", &project.secret, &wrong, "").await;
    assert_eq!((response.status, response.fields()), (422, vec!["Last-Event-ID"]));
}

#[tokio::test]
async fn streams_are_limited_and_release_their_slots() {
    let (gateway, project, _) = setup_inbox().await;
    let mut followers = Vec::new();
    for _ in 0..10 {
        let mut follower = Follower::follow(&gateway, &project.secret, "user_id=ann", "").await;
        follower.next("unread").await;
        followers.push(follower);
    }
    let refused = gateway.get(&project, "/inbox/stream?user_id=ann").await;
    assert_eq!(refused.status, 429, "{}", refused.body);
    drop(followers.pop());
    let mut again = None;
    eventually_true("a slot is free", secs(20), async || {
        let mut follower = Follower::follow(&gateway, &project.secret, "user_id=ann", "").await;
        let let_in = follower.read_until("\r\n").await && follower.text.starts_with("HTTP/1.1 200");
        again = let_in.then_some(follower);
        let_in
    })
    .await;
}

#[tokio::test]
async fn stream_ends_with_its_gateway_or_key() {
    let (mut gateway, project, _) = setup_inbox().await;
    let mut by_public = Follower::follow(&gateway, &project.secret, "user_id=ann", "").await;
    by_public.next("unread").await;
    let key = crate::setup::key(&gateway.app.store, project.id, store_projects::api_keys::KeyType::Secret).await;
    let mut revoked = Follower::follow(&gateway, &key, "user_id=ann", "").await;
    revoked.next("unread").await;
    let admin = gateway.log_in(&project, store_projects::members::Role::Admin).await;
    let keys = gateway.send_as(&admin, "GET", "/api-keys", "").await.expect(200);
    let listed = keys["keys"].as_array().or(keys["apiKeys"].as_array()).unwrap();
    let id = listed.iter().find(|k| key.starts_with(k["prefix"].as_str().unwrap())).unwrap()["id"].clone();
    gateway.send_as(&admin, "DELETE", "/api-keys", json!({ "id": id }).to_string()).await.expect(200);
    let ended = tokio::time::timeout(secs(5), revoked.read_until("\r\n0\r\n\r\n")).await;
    assert_eq!(ended.ok(), Some(true), "the key is revoked");

    // Stopping the gateway does not wait for open streams.
    tokio::time::timeout(secs(10), gateway.stop()).await.unwrap();
    assert!(!by_public.read_until("no such text").await);
    assert!(by_public.text.ends_with("0\r\n\r\n"), "the response is complete: {:?}", by_public.text);
}

#[tokio::test]
async fn stream_ends_with_its_session() {
    let (gateway, project, _) = setup_inbox().await;
    let admin = gateway.log_in(&project, store_projects::members::Role::Admin).await;
    let headers = format!("cookie: {}\r\nx-project-id: {}\r\n", admin.cookie, project.id);
    let mut follower = Follower::follow_with(&gateway, "user_id=ann", &headers).await;
    follower.next("unread").await;
    // The session has ended; the account is still a member of the project.
    gateway.sql.execute("DELETE FROM session WHERE account_id = $1", &[&admin.account]).await.unwrap();
    let ended = tokio::time::timeout(secs(5), follower.read_until("\r\n0\r\n\r\n")).await;
    assert_eq!(ended.ok(), Some(true));
}

#[tokio::test]
async fn stream_ends_when_its_identity_secret_expires() {
    let (gateway, project, _) = setup_inbox().await;
    let admin = gateway.log_in(&project, store_projects::members::Role::Admin).await;
    let db = gateway.app.store.connection().await.unwrap();
    let current = async || projects::secrets(&db, &master_keys(), project.id).await.unwrap().unwrap().identity;
    let follow = async |header: String| {
        let mut follower = Follower::follow(&gateway, &project.public, "user_id=ann", &header).await;
        follower.next("unread").await;
        follower
    };
    let by_hash = |secret: &str| format!("x-user-hash: {}\r\n", hash(secret, "ann"));
    let by_token = |secret: &str| format!("x-user-token: {}\r\n", token(secret, "ann", 600));
    let rotate = async |hours: u32| {
        let path = format!("/projects/{}/identity-secret", project.id);
        let body = json!({ "overlapHours": hours }).to_string();
        gateway.send_as(&admin, "POST", &path, body).await.expect(200);
    };
    let first = current().await;
    let old = [follow(by_hash(&first)).await, follow(by_token(&first)).await];
    let mut of_backend = Follower::follow(&gateway, &project.secret, "user_id=ann", "").await;
    of_backend.next("unread").await;

    // Within the overlap, both secrets are accepted.
    rotate(24).await;
    let second = current().await;
    let mut overlapping = [follow(by_hash(&second)).await, follow(by_token(&second)).await];
    rotate(24).await;
    for mut follower in old {
        let ended = tokio::time::timeout(secs(5), follower.read_until("\r\n0\r\n\r\n")).await;
        assert_eq!(ended.ok(), Some(true), "the secret before the previous one is not accepted");
    }
    let ann = Rows { gateway: &gateway, project: project.id }.known("ann");
    deliver(&gateway, &project, ann, "within the overlap").await;
    for follower in &mut overlapping {
        assert_eq!(follower.next("message").await.data["title"], "within the overlap");
    }
    assert_eq!(of_backend.next("message").await.data["title"], "within the overlap");

    let third = current().await;
    let replaced = follow(by_hash(&third)).await;
    rotate(0).await;
    for mut follower in overlapping.into_iter().chain([replaced]) {
        let ended = tokio::time::timeout(secs(5), follower.read_until("\r\n0\r\n\r\n")).await;
        assert_eq!(ended.ok(), Some(true), "no secret before the current one is accepted");
    }
    deliver(&gateway, &project, ann, "still there").await;
    assert_eq!(of_backend.next("message").await.data["title"], "still there");
}

#[tokio::test]
async fn stream_ends_when_its_user_token_expires() {
    let (gateway, project, _) = setup_inbox().await;
    let db = gateway.app.store.connection().await.unwrap();
    let secrets = projects::secrets(&db, &master_keys(), project.id).await.unwrap().unwrap();
    drop(db);
    let opened = async |left: i64| {
        // A token is accepted for one minute after its expiry.
        let claims = json!({"sub": "ann", "exp": gateway.app.clock.now().as_second() - 60 + left});
        let header = format!("x-user-token: {}\r\n", jwt(&secrets.identity, &json!({"alg": "HS256"}), &claims));
        let mut follower = Follower::follow(&gateway, &project.public, "user_id=ann", &header).await;
        follower.next("unread").await;
        follower
    };
    let (mut lasting, mut short) = (opened(600).await, opened(2).await);
    let ended = tokio::time::timeout(secs(10), short.read_until("\r\n0\r\n\r\n")).await;
    assert_eq!(ended.ok(), Some(true));
    let ann = Rows { gateway: &gateway, project: project.id }.known("ann");
    deliver(&gateway, &project, ann, "still there").await;
    assert_eq!(lasting.next("message").await.data["title"], "still there");
}
