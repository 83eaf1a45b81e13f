//! Tests for `GET /events`.

use kernel::ids::{self, IdSpace, derived_event_id};
use serde_json::{Value, json};

use crate::fixture::{Gateway, texts};
use crate::rows::Rows;

#[tokio::test]
async fn event_is_found_by_each_of_its_ids() {
    let gateway = Gateway::start().await;
    let (project, other) = (gateway.project().await, gateway.project().await);
    let rows = Rows { gateway: &gateway, project: project.id };
    let user = rows.user("u1", None, None, 0).await;
    let own = rows.event(user, "signed_up", 10).await;
    let shown = gateway.get(&project, &format!("/events/{own}")).await.expect(200);
    let expected = json!({
        "id": own, "eventName": "signed_up", "userId": "u1", "anonymousId": null, "properties": {"n": 1},
        "timestamp": "2026-09-21T14:13:20.250Z", "receivedAt": shown["receivedAt"],
    });
    assert_eq!(shown, expected);

    // Client IDs that cannot be row IDs: free text, and a UUID of another version.
    let old = "0f8fad5b-d9cb-469f-a165-70867728950e";
    for client_id in ["order 1/ä", old] {
        let (row, derived) =
            (ids::fresh(gateway.app.clock.now_ms()), derived_event_id(project.id, IdSpace::SecretKey, client_id));
        rows.event_with_id(row, Some(derived), user, "ordered").await;
        let encoded = client_id.replace(' ', "%20").replace('/', "%2F").replace('ä', "%C3%A4");
        for id in [row.to_string(), derived.to_string(), encoded] {
            let shown = gateway.get(&project, &format!("/events/{id}")).await.expect(200);
            assert_eq!(shown["id"], json!(derived), "{id}");
            assert_eq!(gateway.get(&other, &format!("/events/{id}")).await.status, 404);
        }
    }
    assert_eq!(gateway.get(&project, "/events/unknown").await.status, 404);
    assert_eq!(gateway.get(&project, "/events/%ff").await.status, 404);
    let public = gateway.send("GET", "/events", &project.public, &[], "").await;
    assert_eq!(public.status, 403);
}

#[tokio::test]
async fn lists_are_newest_first_filtered_and_counted() {
    let gateway = Gateway::start().await;
    let (project, other) = (gateway.project().await, gateway.project().await);
    let rows = Rows { gateway: &gateway, project: project.id };
    let (one, two) = (rows.user("u1", None, None, 0).await, rows.user("u2", None, None, 0).await);
    for (age, user, name) in [(50, one, "Cart_Opened"), (40, two, "cart_closed"), (30, one, "paid"), (20, two, "paid")]
    {
        rows.event(user, name, age).await;
    }
    for (query, names, total) in [
        ("", &["paid", "paid", "cart_closed", "Cart_Opened"][..], 4),
        ("event=paid", &["paid", "paid"], 2),
        ("event=PAID", &[], 0),
        ("user=u1", &["paid", "Cart_Opened"], 2),
        ("user=u1&event=paid", &["paid"], 1),
        ("user=unknown", &[], 0),
        ("search=ART_", &["cart_closed", "Cart_Opened"], 2),
        ("search=ca", &["cart_closed", "Cart_Opened"], 2),
        ("search=ar", &[], 0),
        ("search=%25", &[], 0),
        ("search=cart&user=u2", &["cart_closed"], 1),
        ("search=cart&event=paid", &[], 0),
    ] {
        let body = gateway.get(&project, &format!("/events?{query}")).await.expect(200);
        assert_eq!(texts(&body["events"], "eventName"), names, "{query}");
        let pages = i64::from(total > 0);
        let expected = json!({"page": 1, "limit": 20, "total": total, "totalPages": pages, "nextCursor": null});
        assert_eq!(body["pagination"], expected, "{query}");
    }
    assert_eq!(gateway.get(&other, "/events?user=u1").await.expect(200)["events"], json!([]));
}

#[tokio::test]
async fn merged_users_share_their_events() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let rows = Rows { gateway: &gateway, project: project.id };
    let known = rows.user("u1", None, None, 0).await;
    let before = rows.visitor("a1", Some(known)).await;
    let stranger = rows.visitor("a2", None).await;
    rows.event(before, "looked", 30).await;
    rows.event(known, "bought", 20).await;
    rows.event(stranger, "left", 10).await;
    for user in ["u1".to_owned(), known.to_string(), before.to_string()] {
        let body = gateway.get(&project, &format!("/events?user={user}")).await.expect(200);
        assert_eq!(texts(&body["events"], "eventName"), ["bought", "looked"], "{user}");
        assert_eq!(texts(&body["events"], "userId"), ["u1", "u1"]);
        assert_eq!(texts(&body["events"], "anonymousId"), ["", "a1"]);
    }
    let body = gateway.get(&project, "/events?event=left").await.expect(200);
    assert_eq!((&body["events"][0]["userId"], &body["events"][0]["anonymousId"]), (&Value::Null, &json!("a2")));
}

#[tokio::test]
async fn external_id_takes_precedence_over_internal_id() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let rows = Rows { gateway: &gateway, project: project.id };
    let first = rows.user("u1", None, None, 0).await;
    // A user whose external ID is the internal ID of another.
    let second = rows.user(&first.to_string(), None, None, 0).await;
    rows.event(first, "of the first", 20).await;
    rows.event(second, "of the second", 10).await;
    let body = gateway.get(&project, &format!("/events?user={first}")).await.expect(200);
    assert_eq!(texts(&body["events"], "eventName"), ["of the second"]);
    assert_eq!(gateway.get(&project, &format!("/users/{first}")).await.expect(200)["id"], json!(second));
}

#[tokio::test]
async fn pages_and_cursors_return_each_row_once() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let rows = Rows { gateway: &gateway, project: project.id };
    let user = rows.user("u1", None, None, 0).await;
    for i in 0..7 {
        rows.event(user, &format!("e{i}"), 100 - i).await;
    }
    let by_cursor = gateway.pages(&project, "/events?limit=3", "events", "eventName").await;
    assert_eq!(by_cursor, [vec!["e6", "e5", "e4"], vec!["e3", "e2", "e1"], vec!["e0"]]);
    let second = gateway.get(&project, "/events?limit=3&page=2").await.expect(200);
    assert_eq!(texts(&second["events"], "eventName"), by_cursor[1]);
    assert_eq!(second["pagination"]["totalPages"], 3);
    // Events that arrive in between shift pages, but not cursors.
    let first = gateway.get(&project, "/events?limit=3").await.expect(200);
    rows.event(user, "new", 0).await;
    let next = first["nextCursor"].as_str().unwrap();
    let second = gateway.get(&project, &format!("/events?limit=3&cursor={next}")).await.expect(200);
    assert_eq!(texts(&second["events"], "eventName"), by_cursor[1]);
    assert_eq!(gateway.get(&project, "/events?limit=3&page=9").await.expect(200)["events"], json!([]));
    for (query, field) in [
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("page=0", "page"),
        ("page=101&limit=100", "page"),
        ("cursor=x", "cursor"),
    ] {
        let response = gateway.get(&project, &format!("/events?{query}")).await;
        assert_eq!((response.status, response.fields()), (422, vec![field]), "{query}");
    }
    assert_eq!(gateway.get(&project, "/events?page=%zz").await.status, 400);
}

#[tokio::test]
async fn user_totals_are_exact_up_to_ten_thousand() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let rows = Rows { gateway: &gateway, project: project.id };
    let user = rows.user("u1", None, None, 0).await;
    rows.bulk(user, "tick", 10_000).await;
    let pagination = gateway.get(&project, "/events?user=u1").await.expect(200)["pagination"].clone();
    assert_eq!((&pagination["total"], &pagination["totalIsCapped"]), (&json!(10_000), &Value::Null));
    rows.bulk(user, "tick", 1).await;
    let pagination = gateway.get(&project, "/events?user=u1").await.expect(200)["pagination"].clone();
    assert_eq!((&pagination["total"], &pagination["totalIsCapped"]), (&json!(10_000), &json!(true)));
    let deepest = gateway.get(&project, "/events?user=u1&limit=100&page=100").await.expect(200);
    assert_eq!(deepest["events"].as_array().unwrap().len(), 100);
    let next = deepest["nextCursor"].as_str().unwrap();
    let last = gateway.get(&project, &format!("/events?user=u1&limit=100&cursor={next}")).await.expect(200);
    assert_eq!((last["events"].as_array().unwrap().len(), &last["nextCursor"]), (1, &Value::Null));
}

#[tokio::test]
async fn backend_event_takes_precedence_over_a_public_keys() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let rows = Rows { gateway: &gateway, project: project.id };
    let user = rows.user("u1", None, None, 60).await;
    let own = ids::fresh(gateway.app.clock.now_ms());
    rows.event_with_id(own, None, user, "by the public key").await;
    assert_eq!(gateway.get(&project, &format!("/events/{own}")).await.expect(200)["eventName"], "by the public key");
    rows.event_of_client_id(ids::own_row_id(project.id, IdSpace::SecretKey, own), own, user, "by the backend").await;
    let shown = gateway.get(&project, &format!("/events/{own}")).await.expect(200);
    assert_eq!((&shown["eventName"], &shown["id"]), (&json!("by the backend"), &json!(own)));
}

/// Covers an event from before row IDs were marked, a current one, and a public key's event
/// whose ID happens to carry the mark.
#[tokio::test]
async fn event_with_a_derived_row_id_is_found_by_its_client_id() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let rows = Rows { gateway: &gateway, project: project.id };
    let user = rows.user("u1", None, None, 60).await;
    let now = gateway.app.clock.now_ms();
    let (before, since, marked) = (ids::fresh(now), ids::fresh(now), ids::timed(now, [0xff; 10]));
    for (name, id, row) in [
        ("before", before, ids::unmarked_row_id(project.id, before)),
        ("since", since, ids::own_row_id(project.id, IdSpace::SecretKey, since)),
        ("marked", marked, ids::own_row_id(project.id, IdSpace::PublicKey, marked)),
    ] {
        rows.event_of_client_id(row, id, user, name).await;
        for asked in [id, row] {
            let shown = gateway.get(&project, &format!("/events/{asked}")).await.expect(200);
            assert_eq!((&shown["eventName"], &shown["id"]), (&json!(name), &json!(id)));
        }
    }
}

#[tokio::test]
async fn deleted_event_is_not_found_or_counted() {
    let gateway = Gateway::start().await;
    let (project, other) = (gateway.project().await, gateway.project().await);
    let rows = Rows { gateway: &gateway, project: project.id };
    let user = rows.user("u1", None, None, 60).await;
    let event = rows.event(user, "bought", 1_000).await;
    let named = derived_event_id(project.id, IdSpace::SecretKey, "order-1");
    rows.event_with_id(ids::fresh(gateway.app.clock.now_ms()), Some(named), user, "bought").await;
    assert_eq!(gateway.delete(&other, &format!("/events/{event}")).await.status, 404);
    assert_eq!(gateway.delete(&project, &format!("/events/{event}")).await.expect(200), json!({"deleted": true}));
    assert_eq!(gateway.delete(&project, &format!("/events/{event}")).await.status, 404);
    let list = gateway.get(&project, "/events?event=bought").await.expect(200);
    assert_eq!((texts(&list["events"], "id"), &list["pagination"]["total"]), (vec![named.to_string()], &json!(1)));
    // Deleted by the client's ID, which can then be recorded again.
    gateway.delete(&project, "/events/order-1").await.expect(200);
    let left = gateway.sql.query_one("SELECT count(*) FROM client_id", &[]).await.unwrap();
    assert_eq!(left.get::<_, i64>(0), 0);
    assert_eq!(gateway.get(&project, "/events").await.expect(200)["pagination"]["total"], 0);
    for nothing in ["/events/%62atch", "/events/nothing"] {
        assert_eq!(gateway.get(&project, nothing).await.status, 404);
        assert_eq!(gateway.delete(&project, nothing).await.status, 404);
    }
}

#[tokio::test]
async fn deleted_event_is_subtracted_from_its_day() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let rows = Rows { gateway: &gateway, project: project.id };
    // At any time, the local date differs from UTC in one of these time zones.
    for timezone in ["Pacific/Kiritimati", "Pacific/Pago_Pago"] {
        let sql = "UPDATE project SET timezone = $2 WHERE project_id = $1";
        gateway.sql.execute(sql, &[&project.id, &timezone]).await.unwrap();
        let user = rows.user(timezone, None, None, 60).await;
        let event = rows.event(user, "bought", 1_000).await;
        // As the recording worker counts it.
        let sql = "UPDATE event_count_sum SET day = (now() AT TIME ZONE $2)::date WHERE project_id = $1";
        gateway.sql.execute(sql, &[&project.id, &timezone]).await.unwrap();
        gateway.delete(&project, &format!("/events/{event}")).await.expect(200);
        let sql =
            "SELECT count(*) FROM (SELECT FROM event_count GROUP BY project_id, day, name HAVING sum(count) <> 0) AS d";
        let off = gateway.sql.query_one(sql, &[]).await.unwrap();
        assert_eq!(off.get::<_, i64>(0), 0, "{timezone}");
        gateway.sql.execute("DELETE FROM event_count_sum", &[]).await.unwrap();
        gateway.sql.execute("DELETE FROM event_count_new", &[]).await.unwrap();
    }
}
