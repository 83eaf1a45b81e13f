//! Tests for `/segments`.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::fixture::{ApiResponse, Gateway, texts};
use crate::rows::Rows;
use crate::setup::Tenant;

fn rule(field: &str, operator: &str, value: Value) -> Value {
    json!({"field": field, "operator": operator, "value": value})
}

async fn segment(gateway: &Gateway, project: &Tenant, body: Value) -> Value {
    gateway.post(project, "/segments", &body).await.expect(201)
}

fn path(segment: &Value) -> String {
    format!("/segments/{}", segment["id"].as_str().unwrap())
}

/// Inserts three users: two named Ann, one of whom has ordered twice.
async fn insert_users(gateway: &Gateway, project: &Tenant) -> [Uuid; 3] {
    let rows = Rows { gateway, project: project.id };
    let ann = rows.user("ann", Some("ann@example.com"), Some("Ann"), 30).await;
    let ben = rows.user("ben", Some("ben@example.com"), Some("Ben"), 20).await;
    let anna = rows.user("anna", None, Some("Ann"), 10).await;
    for _ in 0..2 {
        rows.event(ann, "order", 60_000).await;
    }
    [ann, ben, anna]
}

#[tokio::test]
async fn segment_can_be_created_read_updated_and_deleted() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    insert_users(&gateway, &project).await;
    let rules = json!([rule("name", "eq", json!("Ann")), rule("plan", "in", json!(["pro"]))]);
    let made = segment(&gateway, &project, json!({"name": "Anns", "description": "d", "rules": rules})).await;
    assert_eq!((&made["rules"], &made["userCount"], &made["type"]), (&rules, &json!(2), &json!("RULES")));
    let path = path(&made);
    assert_eq!(gateway.get(&project, &path).await.expect(200), made);
    assert_eq!(gateway.get(&project, "/segments").await.expect(200)["segments"], json!([made]));

    let rows = Rows { gateway: &gateway, project: project.id };
    rows.user("ann3", None, Some("Ann"), 5).await;
    assert_eq!(gateway.get(&project, &path).await.expect(200)["userCount"], 3);
    let changed = json!({"rules": [rule("event:order", "did", json!({"count": {"gte": 2}}))]});
    let changed = gateway.put(&project, &path, &changed).await.expect(200);
    assert_eq!((&changed["userCount"], &changed["name"]), (&json!(1), &made["name"]));
    // `PUT` accepts the representation that `GET` returns.
    let same = gateway.put(&project, &path, &changed).await.expect(200);
    assert_eq!(same["rules"], changed["rules"]);

    assert_eq!(gateway.delete(&project, &path).await.expect(200), json!({"deleted": true}));
    for response in [gateway.get(&project, &path).await, gateway.delete(&project, &path).await] {
        assert_eq!(response.status, 404);
    }
}

#[tokio::test]
async fn estimate_returns_count_and_sample() {
    let gateway = Gateway::start().await;
    let (project, other) = (gateway.project().await, gateway.project().await);
    let [ann, _, anna] = insert_users(&gateway, &project).await;
    let estimate = |rules: Value| json!({"rules": [rules], "sample": 5});
    let found = gateway.post(&project, "/segments/estimate", &estimate(rule("name", "eq", json!("Ann")))).await;
    let found = found.expect(200);
    assert_eq!(
        (&found["estimatedCount"], texts(&found["users"], "externalId")),
        (&json!(2), vec!["anna".into(), "ann".into()])
    );
    assert_eq!(found["users"][0]["id"], json!(anna));
    for (rules, count) in [
        (json!([]), 3),
        (json!([rule("email", "exists", json!(null))]), 2),
        (json!([{"not": rule("event:order", "did", json!(null))}]), 2),
        (json!([rule("event:order", "did", json!({"count": {"lte": 1}}))]), 2),
        (json!([rule("createdAt", "within_last", json!("1m")), rule("lastSeenAt", "within_last", json!("1m"))]), 3),
    ] {
        let response = gateway.post(&project, "/segments/estimate", &json!({"rules": rules})).await.expect(200);
        assert_eq!(response, json!({"estimatedCount": count}), "{rules}");
    }
    // A merged user counts once, with the events of both.
    let rows = Rows { gateway: &gateway, project: project.id };
    let before = rows.visitor("a1", Some(ann)).await;
    rows.event(before, "order", 30_000).await;
    let thrice = estimate(rule("event:order", "did", json!({"count": {"eq": 3}})));
    let found = gateway.post(&project, "/segments/estimate", &thrice).await.expect(200);
    assert_eq!(texts(&found["users"], "externalId"), ["ann"]);
    let theirs = gateway.post(&other, "/segments/estimate", &json!({"rules": []})).await.expect(200);
    assert_eq!(theirs["estimatedCount"], 0);
}

#[tokio::test]
async fn users_are_listed_in_pages() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let rows = Rows { gateway: &gateway, project: project.id };
    for i in 0..5 {
        rows.user(&format!("u{i}"), None, Some(if i == 2 { "Ben" } else { "Ann" }), 100 - i).await;
    }
    let made = segment(&gateway, &project, json!({"name": "n", "rules": [rule("name", "eq", json!("Ann"))]})).await;
    let users = format!("{}/users", path(&made));
    let pages = gateway.pages(&project, &format!("{users}?limit=3"), "users", "externalId").await;
    assert_eq!(pages, [vec!["u4", "u3", "u1"], vec!["u0"]]);
    let second = gateway.get(&project, &format!("{users}?limit=3&page=2")).await.expect(200);
    assert_eq!((texts(&second["users"], "externalId"), &second["total"]), (vec!["u0".to_owned()], &json!(4)));
    for (query, field) in [("page=0", "page"), ("limit=101", "limit"), ("cursor=7", "cursor")] {
        let response = gateway.get(&project, &format!("{users}?{query}")).await;
        assert_eq!((response.status, response.fields()), (422, vec![field]));
    }
}

#[tokio::test]
async fn manual_segments_hold_the_added_users() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let [ann, ben, _] = insert_users(&gateway, &project).await;
    let rows = Rows { gateway: &gateway, project: project.id };
    let visitor = rows.visitor("a1", Some(ann)).await;
    let list = segment(&gateway, &project, json!({"name": "VIP"})).await;
    assert_eq!((&list["type"], &list["userCount"], &list["rules"]), (&json!("MANUAL"), &json!(0), &json!([])));
    let members = format!("{}/members", path(&list));
    // Two IDs of the same user are one member.
    let added = gateway.post(&project, &members, &json!({"add": ["ann", visitor, "unknown", ben]})).await.expect(200);
    assert_eq!(added, json!({"added": 3, "removed": 0, "notFound": ["unknown"], "userCount": 2}));
    let again = gateway.post(&project, &members, &json!({"add": ["ann"], "remove": ["ben"]})).await.expect(200);
    assert_eq!((&again["added"], &again["removed"], &again["userCount"]), (&json!(0), &json!(1), &json!(1)));
    let gone = gateway.post(&project, &members, &json!({"remove": [visitor]})).await.expect(200);
    assert_eq!((&gone["removed"], &gone["userCount"]), (&json!(2), &json!(0)));

    for (body, field) in [
        (json!({}), "add"),
        (json!({"add": "ann"}), "add"),
        (json!({"add": ["ann", 5]}), "add[1]"),
        (json!({"users": ["ann"]}), "users"),
    ] {
        let response = gateway.post(&project, &members, &body).await;
        assert!(response.status == 422 && response.fields().contains(&field), "{body}: {}", response.body);
    }
    let by_rules = segment(&gateway, &project, json!({"name": "n", "rules": [rule("a", "exists", json!(null))]})).await;
    let refused = gateway.post(&project, &format!("{}/members", path(&by_rules)), &json!({"add": ["ann"]})).await;
    assert_eq!(refused.status, 409);
    let all_users = segment(&gateway, &project, json!({"name": "n", "rules": []})).await;
    assert_eq!(all_users["userCount"], 3);
    let listed = gateway.post(&project, &format!("{}/members", path(&all_users)), &json!({"add": ["ben"]})).await;
    assert_eq!(listed.expect(200)["userCount"], 1);
    assert_eq!(gateway.get(&project, &path(&all_users)).await.expect(200)["type"], "MANUAL");
}

#[tokio::test]
async fn segments_may_depend_on_others_but_not_on_themselves() {
    let gateway = Gateway::start().await;
    let (project, other) = (gateway.project().await, gateway.project().await);
    insert_users(&gateway, &project).await;
    let naming = |id: &Value| json!([rule("segment", "in", json!([id]))]);
    let anns = segment(&gateway, &project, json!({"name": "Anns", "rules": [rule("name", "eq", json!("Ann"))]})).await;
    let others = json!({"name": "Others", "rules": [{"not": naming(&anns["id"])[0]}]});
    let others = segment(&gateway, &project, others).await;
    assert_eq!(others["userCount"], 1);
    let third = segment(&gateway, &project, json!({"name": "n", "rules": naming(&others["id"])})).await;
    assert_eq!(third["userCount"], 1);

    let foreign = segment(&gateway, &other, json!({"name": "n", "rules": []})).await;
    for (id, field) in
        [(&anns["id"], "rules[0].value[0]"), (&third["id"], "rules[0].value[0]"), (&foreign["id"], "rules[0].value[0]")]
    {
        let response = gateway.put(&project, &path(&anns), &json!({"rules": naming(id)})).await;
        assert_eq!((response.status, response.fields()), (422, vec![field]), "{}", response.body);
    }
    let nested = json!({"name": "n", "rules": [{"any": [{"not": rule("segment", "neq", foreign["id"].clone())}]}]});
    for response in [
        gateway.post(&project, "/segments", &nested).await,
        gateway.post(&project, "/segments/estimate", &json!({"rules": nested["rules"]})).await,
    ] {
        assert_eq!((response.status, response.fields()), (422, vec!["rules[0].any[0].not.value"]));
    }
    for in_use in [&anns, &others] {
        let response = gateway.delete(&project, &path(in_use)).await;
        assert!(
            response.status == 409 && response.body["message"].as_str().unwrap().contains("rules"),
            "{}",
            response.body
        );
    }
    gateway.delete(&project, &path(&third)).await.expect(200);
    gateway.delete(&project, &path(&others)).await.expect(200);
    gateway.delete(&project, &path(&anns)).await.expect(200);
}

#[tokio::test]
async fn every_rule_is_explained() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    insert_users(&gateway, &project).await;
    let rules = json!([
        rule("name", "eq", json!("Ann")),
        {"any": [rule("plan", "eq", json!("free")), rule("event:order", "did", json!({"count": {"gte": 2}}))]},
    ]);
    let made = segment(&gateway, &project, json!({"name": "n", "rules": rules})).await;
    let explain = |user: &str| format!("{}/explain?user_id={user}", path(&made));
    let ann = gateway.get(&project, &explain("ann")).await.expect(200);
    assert_eq!((&ann["userId"], &ann["matches"]), (&json!("ann"), &json!(true)));
    let mut expected = rules.clone();
    for (pointer, actual, matches) in
        [("/0", json!("Ann"), true), ("/1/any/0", json!("pro"), false), ("/1/any/1", json!({"count": 2}), true)]
    {
        let rule = expected.pointer_mut(pointer).unwrap();
        (rule["actual"], rule["matches"]) = (actual, json!(matches));
    }
    expected[1]["matches"] = json!(true);
    assert_eq!(ann["rules"], expected);
    let ben = gateway.get(&project, &explain("ben")).await.expect(200);
    assert_eq!((&ben["matches"], &ben["rules"][1]["any"][1]["actual"]), (&json!(false), &json!({"count": 0})));
    assert_eq!(gateway.get(&project, &explain("unknown")).await.status, 404);
    let without = gateway.get(&project, &format!("{}/explain", path(&made))).await;
    assert_eq!((without.status, without.fields()), (422, vec!["user_id"]));
}

#[tokio::test]
async fn invalid_rules_are_rejected_with_a_path() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let deep = (0..6).fold(rule("a", "eq", json!(1)), |inner, _| json!({"all": [inner]}));
    for (rules, field) in [
        (json!([rule("a", "eq", json!(1)), {"any": [rule("age", "gte", json!("x"))]}]), "rules[1].any[0].value"),
        (json!([rule("a", "matches", json!(".*"))]), "rules[0].operator"),
        (json!([deep]), "rules[0].all[0].all[0].all[0].all[0].all[0]"),
        (json!(vec![rule("a", "eq", json!(1)); 51]), "rules[50]"),
        (json!("all"), "rules"),
    ] {
        let check = |response: ApiResponse| {
            assert_eq!((response.status, response.fields()), (422, vec![field]), "{}", response.body);
        };
        check(gateway.post(&project, "/segments", &json!({"name": "n", "rules": rules})).await);
        check(gateway.post(&project, "/segments/estimate", &json!({"rules": rules})).await);
    }
    // Input that resembles SQL or a pattern is matched literally.
    for hostile in ["' OR 1=1 --", "%", "$1", "\\", "{}"] {
        let rules = json!([rule("email", "contains", json!(hostile)), rule(hostile, "eq", json!(hostile))]);
        let response = gateway.post(&project, "/segments/estimate", &json!({"rules": rules})).await.expect(200);
        assert_eq!(response["estimatedCount"], 0);
    }
    assert_eq!(gateway.get(&project, "/segments").await.expect(200)["segments"], json!([]));
}

#[tokio::test]
async fn foreign_segment_is_not_found() {
    let gateway = Gateway::start().await;
    let (owner, other) = (gateway.project().await, gateway.project().await);
    let made = segment(&gateway, &owner, json!({"name": "n", "rules": []})).await;
    let missing = "/segments/00000000-0000-7000-8000-000000000000";
    let message = gateway.get(&other, missing).await.body["message"].clone();
    for path in [path(&made).as_str(), missing, "/segments/not-an-id"] {
        for response in [
            gateway.get(&other, path).await,
            gateway.put(&other, path, &json!({"name": "mine"})).await,
            gateway.delete(&other, path).await,
            gateway.get(&other, &format!("{path}/users")).await,
            gateway.get(&other, &format!("{path}/explain?user_id=u")).await,
            gateway.post(&other, &format!("{path}/members"), &json!({"add": []})).await,
        ] {
            assert_eq!((response.status, &response.body["message"]), (404, &message), "{path}");
        }
    }
    assert_eq!(gateway.get(&other, "/segments").await.expect(200)["segments"], json!([]));
    assert_eq!(gateway.send("GET", "/segments", &owner.public, &[], "").await.status, 403);
}
