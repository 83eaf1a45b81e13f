//! `GET /users`

use serde_json::{Value, json};

use crate::fixture::{Gateway, texts};
use crate::people::Rows;

const DAY: i64 = 86_400;

#[tokio::test]
async fn a_person_is_found_by_either_id_and_after_a_merge() {
    let gateway = Gateway::start().await;
    let (project, other) = (gateway.project().await, gateway.project().await);
    let rows = Rows { gateway: &gateway, project: project.id };
    let known = rows.user("u/1", Some("ann@example.com"), Some("Ann"), 60).await;
    let merged = rows.visitor("a1", Some(known)).await;
    // Somebody who became one who became another.
    let sql = "UPDATE users SET merged_into = $2 WHERE id = $1";
    let earlier = rows.visitor("a0", Some(merged)).await;
    gateway.sql.execute(sql, &[&earlier, &merged]).await.unwrap();

    let shown = gateway.get(&project, "/users/u%2F1").await.expect(200);
    let expected = json!({
        "id": known, "externalId": "u/1", "anonymousId": null, "email": "ann@example.com", "name": "Ann",
        "properties": {"plan": "pro"}, "createdAt": shown["createdAt"], "lastSeenAt": shown["lastSeenAt"],
        "updatedAt": shown["updatedAt"], "devices": [],
    });
    assert_eq!(shown, expected);
    for id in [known, merged, earlier] {
        assert_eq!(gateway.get(&project, &format!("/users/{id}")).await.expect(200), shown);
        assert_eq!(gateway.get(&other, &format!("/users/{id}")).await.status, 404);
    }
    let stranger = rows.visitor("a2", None).await;
    let shown = gateway.get(&project, &format!("/users/{stranger}")).await.expect(200);
    assert_eq!((&shown["externalId"], &shown["anonymousId"]), (&Value::Null, &json!("a2")));
    // An anonymous id is no id of a user's.
    for id in ["a2", "nobody", "%ff"] {
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
        let answer = gateway.get(&project, &format!("/users?{query}")).await;
        assert_eq!((answer.status, answer.fields()), (422, vec![field]));
    }
}

#[tokio::test]
async fn pages_and_cursors_meet_without_gap_or_repeat() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let rows = Rows { gateway: &gateway, project: project.id };
    for i in 0..5 {
        rows.user(&format!("u{i}"), None, None, 100 - i).await;
    }
    // Two of one microsecond are told apart by their ids.
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
