//! Tests for `/inbox`.

mod stream;

use kernel::ids;
use serde_json::{Value, json};
use store_projects::projects;
use store_sending::inbox::{self, NewInboxItem};
use uuid::Uuid;

use crate::fixture::{Gateway, texts};
use crate::identity::hash;
use crate::rows::Rows;
use crate::setup::{Tenant, master_keys};

/// Inserts an in-app message as worker-delivery does, into the ledger and the inbox; returns its ID.
pub async fn deliver(gateway: &Gateway, project: &Tenant, user: Uuid, title: &str) -> Uuid {
    let id = ids::fresh(gateway.app.clock.now_ms());
    let sql = "INSERT INTO message (project_id, id, user_id, channel, lane, status, created_at, sent_at, updated_at) \
               VALUES ($1, $2, $3, 'IN_APP', 'direct', 'sent', now(), now(), now())";
    gateway.sql.execute(sql, &[&project.id, &id, &user]).await.unwrap();
    let db = gateway.app.store.connection().await.unwrap();
    let arrival = NewInboxItem { id, user_id: user, title, body: "<p>B</p>" };
    assert!(inbox::put(&db, project.id, arrival, gateway.app.clock.now()).await.unwrap());
    gateway.app.bus.client.publish(gateway.app.bus.names.inbox(project.id, user), "".into()).await.unwrap();
    id
}

pub async fn proof(gateway: &Gateway, project: &Tenant, user: &str) -> String {
    let db = gateway.app.store.connection().await.unwrap();
    let secrets = projects::secrets(&db, &master_keys(), project.id).await.unwrap().unwrap();
    hash(&secrets.identity, user)
}

#[tokio::test]
async fn inbox_lists_own_messages_newest_first() {
    let gateway = Gateway::start().await;
    let (project, other) = (gateway.project().await, gateway.project().await);
    let rows = Rows { gateway: &gateway, project: project.id };
    let (ann, bob) = (rows.user("ann", None, None, 9).await, rows.user("bob", None, None, 9).await);
    // Messages from before the user was identified are in the inbox, too.
    let before = rows.visitor("anon-1", None).await;
    deliver(&gateway, &project, before, "a").await;
    gateway.sql.execute("UPDATE users SET merged_into = $2 WHERE id = $1", &[&before, &ann]).await.unwrap();
    for title in ["b", "c"] {
        deliver(&gateway, &project, ann, title).await;
    }
    deliver(&gateway, &project, bob, "x").await;

    let list = gateway.get(&project, "/inbox?user_id=ann").await.expect(200);
    assert_eq!(texts(&list["items"], "title"), ["c", "b", "a"]);
    assert_eq!(
        (&list["total"], &list["unread"], &list["page"], &list["limit"]),
        (&json!(3), &json!(3), &json!(1), &json!(20))
    );
    let item = &list["items"][0];
    assert_eq!((&item["body"], &item["readAt"]), (&json!("<p>B</p>"), &json!(null)));
    assert_eq!(
        gateway.pages(&project, "/inbox?userId=ann&limit=2", "items", "title").await,
        [vec!["c", "b"], vec!["a"]]
    );
    assert_eq!(gateway.get(&project, &format!("/inbox?user_id={ann}")).await.expect(200), list);
    let second = gateway.get(&project, "/inbox?user_id=ann&limit=2&page=2").await.expect(200);
    assert_eq!(texts(&second["items"], "title"), ["a"]);

    // An unknown user, and another project's user with the same ID.
    let empty = gateway.get(&project, "/inbox?user_id=eve").await.expect(200);
    assert_eq!((&empty["items"], &empty["total"], &empty["unread"]), (&json!([]), &json!(0), &json!(0)));
    assert_eq!(gateway.get(&other, "/inbox?user_id=ann").await.expect(200)["items"], json!([]));
    for (query, field) in [
        ("", "user_id"),
        ("user_id=", "user_id"),
        ("user_id=%0A", "user_id"),
        ("user_id=ann&limit=0", "limit"),
        ("user_id=ann&cursor=x", "cursor"),
        ("user_id=ann&unread=maybe", "unread"),
    ] {
        let response = gateway.get(&project, &format!("/inbox?{query}")).await;
        assert_eq!((response.status, response.fields()), (422, vec![field]), "{query}");
    }
}

#[tokio::test]
async fn public_key_always_needs_proof_of_the_user() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let rows = Rows { gateway: &gateway, project: project.id };
    let ann = rows.user("ann", None, None, 9).await;
    let id = deliver(&gateway, &project, ann, "a").await;
    let (right, bobs) = (proof(&gateway, &project, "ann").await, proof(&gateway, &project, "bob").await);
    // In the query string, as scripts of version 1.0.0 send it.
    for (method, path) in
        [("GET", "/inbox".to_owned()), ("GET", "/inbox/stream".to_owned()), ("POST", format!("/inbox/{id}/read"))]
    {
        for wrong in ["", "&user_hash=", "&user_hash=00", &format!("&user_hash={bobs}")] {
            let response = gateway.send(method, &format!("{path}?user_id=ann{wrong}"), &project.public, &[], "").await;
            assert_eq!(response.status, 403, "{method} {path} {wrong}");
        }
    }
    let query = format!("user_id=ann&user_hash={right}");
    let list = gateway.send("GET", &format!("/inbox?{query}"), &project.public, &[], "").await.expect(200);
    assert_eq!((texts(&list["items"], "title"), &list["unread"]), (vec!["a".to_owned()], &json!(1)));
    let read = gateway.send("POST", &format!("/inbox/{id}/read?{query}"), &project.public, &[], "").await.expect(200);
    assert!(read["readAt"].is_string());
}

#[tokio::test]
async fn proven_id_is_never_matched_as_an_internal_id() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let ann = Rows { gateway: &gateway, project: project.id }.user("ann", None, None, 9).await;
    let id = deliver(&gateway, &project, ann, "a").await;
    let user_hash = proof(&gateway, &project, &ann.to_string()).await;
    let query = format!("user_id={ann}&user_hash={user_hash}");
    let list = gateway.send("GET", &format!("/inbox?{query}"), &project.public, &[], "").await.expect(200);
    assert_eq!((&list["items"], &list["unread"]), (&json!([]), &json!(0)));
    let read = gateway.send("POST", &format!("/inbox/{id}/read?{query}"), &project.public, &[], "").await;
    assert_eq!(read.status, 404, "{}", read.body);
}

#[tokio::test]
async fn reading_marks_the_message_as_opened() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let rows = Rows { gateway: &gateway, project: project.id };
    let (ann, _) = (rows.user("ann", None, None, 9).await, rows.user("bob", None, None, 9).await);
    let (first, second) = (deliver(&gateway, &project, ann, "a").await, deliver(&gateway, &project, ann, "b").await);
    let read = async |id: Uuid, user: &str| {
        gateway.post(&project, &format!("/inbox/{id}/read?user_id={user}"), &json!({})).await
    };
    for response in [read(first, "bob").await, read(first, "unknown").await, read(Uuid::from_u128(1), "ann").await] {
        assert_eq!(response.status, 404);
    }
    let item = read(first, "ann").await.expect(200);
    assert_eq!(read(first, "ann").await.expect(200), item, "the first time counts");
    let message = async |id: Uuid| gateway.get(&project, &format!("/messages/{id}")).await.expect(200);
    let opened = message(first).await;
    assert_eq!((&opened["status"], &opened["openedAt"]), (&json!("opened"), &item["readAt"]));
    let unread = gateway.get(&project, "/inbox?user_id=ann&unread=true").await.expect(200);
    assert_eq!((texts(&unread["items"], "title"), &unread["unread"]), (vec!["b".to_owned()], &json!(1)));
    // Reading does not move a clicked message back.
    let sql = "UPDATE message SET status = 'clicked', clicked_at = now() WHERE id = $1";
    gateway.sql.execute(sql, &[&second]).await.unwrap();
    read(second, "ann").await.expect(200);
    let clicked: Value = message(second).await;
    assert_eq!((&clicked["status"], clicked["openedAt"].is_string()), (&json!("clicked"), true));
    assert_eq!(gateway.get(&project, "/inbox?user_id=ann").await.expect(200)["unread"], 0);
}
