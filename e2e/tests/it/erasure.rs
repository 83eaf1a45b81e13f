//! Updates and erases a user through the whole system.

mod leftovers;

use std::time::Duration;

use e2e::System;
use reqwest::Method;
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(20);

#[tokio::test]
async fn user_is_updated_searched_erased_and_recreated() {
    let system = System::start().await;
    let api = &system.api;
    let track = async |event: &str, anonymous: Option<&str>| {
        let user = anonymous.is_none().then_some("u1");
        api.track("/events", &json!({"event": event, "user_id": user, "anonymous_id": anonymous})).await.expect(202);
    };
    track("viewed", Some("a1")).await;
    let identity = json!({"user_id": "u1", "anonymous_id": "a1", "properties": {"plan": "free", "old": 1}});
    api.track("/users/identify", &identity).await.expect(202);
    api.until("/users/u1", SOON, |user| user["properties"]["plan"] == "free").await;

    let change = json!({"email": "Ann@example.com", "name": "Ann Öst", "properties": {"plan": "pro", "old": null}});
    let changed = api.put("/users/u1", &change).await.expect(200);
    let properties = json!({"plan": "pro", "email": "Ann@example.com", "name": "Ann Öst"});
    assert_eq!((&changed["email"], &changed["properties"]), (&json!("Ann@example.com"), &properties));
    for search in ["u1", "an", "öst", "EXAMPLE"] {
        assert_eq!(api.get(&format!("/users?search={search}")).await.expect(200)["total"], 1, "{search}");
    }

    // Events accepted before the request are erased, too, in either partition.
    for _ in 0..50 {
        track("before", None).await;
        track("before", Some("a1")).await;
    }
    let erased = api.call(Method::DELETE, "/users/u1", &api.secret_key, None).await.unwrap();
    assert_eq!(erased.expect(200), json!({"deleted": true}));
    assert_eq!(api.get("/users/u1").await.status, 404);
    track("after", None).await;
    let user = api.until("/users/u1", SOON, |user| user["externalId"] == "u1").await;
    assert_eq!((&user["properties"], &user["email"], &user["anonymousId"]), (&json!({}), &Value::Null, &Value::Null));
    // One last item in both partitions.
    track("last", Some("a1")).await;
    track("last", None).await;
    let events = api.until("/events", SOON, |list| list["pagination"]["total"] == 3).await;
    let names: Vec<&str> =
        events["events"].as_array().unwrap().iter().filter_map(|e| e["eventName"].as_str()).collect();
    assert_eq!(names.len(), 3, "{names:?}");
    assert!(!names.contains(&"before"), "{names:?}");
    let users = api.get("/users").await.expect(200);
    assert_eq!(users["total"], 2, "{users}");
}
