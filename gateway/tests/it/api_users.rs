//! Tests for `GET /users`.

use database::ingest_partitions;
use serde_json::{Value, json};
use wire::event::Body;

use crate::fixture::{Gateway, texts};
use crate::rows::{Rows, fill_users};

const DAY: i64 = 86_400;

#[tokio::test]
async fn user_is_found_by_either_id_and_after_a_merge() {
    let gateway = Gateway::start().await;
    let (project, other) = (gateway.project().await, gateway.project().await);
    let rows = Rows { gateway: &gateway, project: project.id };
    let known = rows.user("u/1", Some("ann@example.com"), Some("Ann"), 60).await;
    let merged = rows.visitor("a1", Some(known)).await;
    // A user who was merged into a user who was merged into another.
    let sql = "UPDATE users SET merged_into = $2 WHERE id = $1";
    let earlier = rows.visitor("a0", Some(merged)).await;
    gateway.sql.execute(sql, &[&earlier, &merged]).await.unwrap();

    let shown = gateway.get(&project, "/users/u%2F1").await.expect(200);
    let expected = json!({
        "id": known, "externalId": "u/1", "anonymousId": null, "email": "ann@example.com", "name": "Ann",
        "properties": {"plan": "pro"}, "createdAt": shown["createdAt"], "lastSeenAt": shown["lastSeenAt"],
        "updatedAt": shown["updatedAt"], "devices": [], "subscriptions": [],
    });
    assert_eq!(shown, expected);
    for id in [known, merged, earlier] {
        assert_eq!(gateway.get(&project, &format!("/users/{id}")).await.expect(200), shown);
        assert_eq!(gateway.get(&other, &format!("/users/{id}")).await.status, 404);
    }
    let stranger = rows.visitor("a2", None).await;
    // An external ID takes precedence over an equal anonymous ID.
    rows.user("a3", None, None, 0).await;
    rows.visitor("a3", None).await;
    assert_eq!(gateway.get(&project, "/users/a3").await.expect(200)["externalId"], "a3");
    assert_eq!(gateway.get(&project, "/users/a1").await.expect(200)["externalId"], "u/1");
    for id in [&stranger.to_string(), "a2"] {
        let shown = gateway.get(&project, &format!("/users/{id}")).await.expect(200);
        assert_eq!((&shown["externalId"], &shown["anonymousId"]), (&Value::Null, &json!("a2")));
    }
    for id in ["unknown", "%ff", "%00"] {
        assert_eq!(gateway.get(&project, &format!("/users/{id}")).await.status, 404, "{id}");
    }
}

#[tokio::test]
async fn lists_are_newest_first_searched_and_filtered() {
    let gateway = Gateway::start().await;
    let (project, other) = (gateway.project().await, gateway.project().await);
    let rows = Rows { gateway: &gateway, project: project.id };
    rows.user("u1", Some("ann@shop.example"), Some("Ann Öst"), 40 * DAY).await;
    let known = rows.user("u2", Some("bob@shop.example"), None, 20 * DAY).await;
    rows.user("vip_3", None, Some("100% Carl"), 10).await;
    rows.visitor("a1", Some(known)).await;
    for (query, ids, total) in [
        ("", &["vip_3", "u2", "u1"][..], 3),
        ("filter=active", &["vip_3", "u2"], 2),
        ("filter=inactive", &["u1"], 1),
        ("search=SHOP", &["u2", "u1"], 2),
        ("search=u", &["u2", "u1"], 2),
        ("search=ip", &[], 0),
        ("search=vip", &["vip_3"], 1),
        ("search=%C3%B6st", &["u1"], 1),
        ("search=100%25", &["vip_3"], 1),
        ("search=%25%25%25", &[], 0),
        ("search=shop&filter=active", &["u2"], 1),
    ] {
        let body = gateway.get(&project, &format!("/users?{query}")).await.expect(200);
        assert_eq!(texts(&body["users"], "externalId"), ids, "{query}");
        assert_eq!(
            (&body["total"], &body["page"], &body["nextCursor"]),
            (&json!(total), &json!(1), &Value::Null),
            "{query}"
        );
    }
    assert_eq!(gateway.get(&other, "/users").await.expect(200)["users"], json!([]));
    for (query, field) in [("filter=old", "filter"), ("limit=101", "limit"), ("cursor=5", "cursor")] {
        let response = gateway.get(&project, &format!("/users?{query}")).await;
        assert_eq!((response.status, response.fields()), (422, vec![field]));
    }
}

/// Also if few of the newest users match, and if the cache already knows that many match.
#[tokio::test]
async fn large_search_returns_the_same_result_when_repeated() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    fill_users(&gateway, &project, 150_000).await;
    for (search, first) in [("us", "user-150000"), ("-12", "user-129999")] {
        let path = format!("/users?limit=50&search={search}");
        let once = gateway.get(&project, &path).await.expect(200);
        assert_eq!((&once["total"], &once["totalIsCapped"]), (&json!(10_000), &json!(true)), "{search}");
        assert_eq!((once["users"].as_array().unwrap().len(), &once["users"][0]["externalId"]), (50, &json!(first)));
        assert_eq!(gateway.get(&project, &path).await.expect(200), once);
        let second = gateway.get(&project, &format!("{path}&page=2")).await.expect(200);
        let behind = gateway.get(&project, &format!("{path}&cursor={}", once["nextCursor"].as_str().unwrap())).await;
        assert_eq!(texts(&behind.expect(200)["users"], "id"), texts(&second["users"], "id"));
        assert_eq!(second["total"], json!(10_000));
    }
    let none = gateway.get(&project, "/users?search=us&filter=active&limit=1").await.expect(200);
    assert_eq!((&none["total"], &none["totalIsCapped"]), (&json!(1_500), &json!(null)));
}

#[tokio::test]
async fn pages_and_cursors_return_each_row_once() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let rows = Rows { gateway: &gateway, project: project.id };
    for i in 0..5 {
        rows.user(&format!("u{i}"), None, None, 100 - i).await;
    }
    // Users with the same timestamp are ordered by ID.
    gateway
        .sql
        .execute("UPDATE users SET created_at = '2026-01-01 00:00:00.000001Z' WHERE external_id < 'u3'", &[])
        .await
        .unwrap();
    let by_cursor = gateway.pages(&project, "/users?limit=2", "users", "externalId").await;
    assert_eq!(by_cursor.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 1]);
    let mut all = by_cursor.concat();
    assert_eq!(all[..2], ["u4", "u3"]);
    all.sort();
    assert_eq!(all, ["u0", "u1", "u2", "u3", "u4"]);
    let second = gateway.get(&project, "/users?limit=2&page=2").await.expect(200);
    assert_eq!((texts(&second["users"], "externalId"), &second["page"]), (by_cursor[1].clone(), &json!(2)));
}

#[tokio::test]
async fn changes_are_published_and_answered_once_applied() {
    let gateway = Gateway::start().await;
    let (project, other) = (gateway.project().await, gateway.project().await);
    let rows = Rows { gateway: &gateway, project: project.id };
    let known = rows.user("identify", Some("ann@example.com"), Some("Ann"), 60).await;
    let visitor = rows.visitor("a1", None).await;
    // As if the worker had recorded everything; end-to-end tests cover recording itself.
    let stream = &gateway.app.ingest.stream;
    let db = gateway.app.store.connection().await.unwrap();
    ingest_partitions::ensure(&db, stream.partitions, stream.created_ms).await.unwrap();
    db.execute("UPDATE ingest_partition SET applied_seq = 100", &[]).await.unwrap();

    let before = gateway.get(&project, "/users/%69dentify").await.expect(200);
    let mut body = before.clone();
    body["name"] = json!(null);
    body["properties"] = json!({"plan": "free"});
    assert_eq!(gateway.put(&project, "/users/%69dentify", &body).await.expect(200), before);
    gateway.put(&project, &format!("/users/{visitor}"), &json!({"email": "b@example.com"})).await.expect(200);
    let response = gateway.delete(&project, &format!("/users/{known}")).await;
    assert_eq!(response.expect(200), json!({"deleted": true}));
    let mut items = gateway.items().await;
    items.sort_by_key(|item| item.row_id().unwrap());
    let Some(Body::Identify(change)) = &items[0].body else { panic!("{:?}", items[0]) };
    let change: Value = serde_json::from_slice(&change.properties).unwrap();
    assert_eq!(change, json!({"email": "ann@example.com", "name": null, "plan": "free"}));
    assert_eq!((items[0].user_id.as_deref(), items[0].anonymous_id.as_deref()), (Some("identify"), None));
    assert_eq!((items[1].user_id.as_deref(), items[1].anonymous_id.as_deref()), (None, Some("a1")));
    let Some(Body::Erase(erase)) = &items[2].body else { panic!("{:?}", items[2]) };
    assert_eq!((&erase.user_id[..], items[2].user_id.as_deref()), (&known.as_bytes()[..], Some("identify")));

    for (body, field) in [
        (json!({"email": "unknown"}), "email"),
        (json!({"plan": "pro"}), "plan"),
        (json!({"properties": {"k": "x".repeat(33_000)}}), "properties"),
    ] {
        let response = gateway.put(&project, "/users/%69dentify", &body).await;
        assert_eq!((response.status, response.fields()), (422, vec![field]), "{body}");
    }
    for path in ["/users/unknown", "/users/%ff"] {
        assert_eq!(gateway.put(&project, path, &json!({})).await.status, 404);
        assert_eq!(gateway.delete(&project, path).await.status, 404);
    }
    assert_eq!(gateway.delete(&other, &format!("/users/{known}")).await.status, 404);
    assert_eq!(gateway.items().await.len(), 3);
}

#[tokio::test]
async fn erased_users_are_hidden_while_their_rows_are_removed() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let rows = Rows { gateway: &gateway, project: project.id };
    let user = rows.anonymous("gone");
    let before = rows.event(user, "before", 5_000).await;
    let sql = "INSERT INTO erasure (project_id, user_id, erased_at, applied_at, has_left) VALUES ($1, $2, clock_timestamp(), clock_timestamp(), true)";
    gateway.sql.execute(sql, &[&project.id, &user]).await.unwrap();
    let since = rows.event(user, "since", 0).await;
    let list = gateway.get(&project, "/events").await.expect(200);
    assert_eq!(texts(&list["events"], "eventName"), ["since"]);
    assert_eq!(gateway.get(&project, &format!("/events/{before}")).await.status, 404);
    gateway.get(&project, &format!("/events/{since}")).await.expect(200);
}
