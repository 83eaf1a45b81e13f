//! Imports and exports thousands of users through the whole system.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use e2e::System;
use reqwest::Method;
use serde_json::{Value, json};
use testkit::eventually;

const USERS: usize = 20_000;
/// A killed gateway holds the lease of its import for half a minute.
const HELD: Duration = Duration::from_mins(1);
const SOON: Duration = Duration::from_secs(20);

fn lines() -> String {
    let line = |n| json!({"user_id": format!("u{n}"), "email": format!("u{n}@example.com"), "properties": {"n": n}});
    (0..USERS).map(|n| format!("{}\n", line(n))).collect::<Vec<_>>().concat()
}

fn ids(export: &[Value]) -> BTreeSet<&str> {
    export.iter().filter_map(|user| user["externalId"].as_str()).collect()
}

#[tokio::test]
async fn import_survives_a_crash_yields_to_events_and_matches_the_export() {
    let mut system = System::start().await;
    let api = system.api.clone();
    let importing = tokio::spawn({
        let api = api.clone();
        async move { api.import("file", lines()).await }
    });
    api.until("/users/import/file", SOON, |import| import["nextLine"].as_u64() > Some(2_000)).await;
    system.gateway.kill().await;
    assert!(importing.await.unwrap().is_err());
    system.gateway.start().await;
    let before = api.get("/users/import/file").await.expect(200);
    assert!(before["nextLine"].as_u64() < Some(USERS as u64), "{before}");

    // Sends the file again while a user is active. Their events must be recorded in time.
    let again = eventually(HELD, async || {
        let answer = api.import("file", lines()).await?;
        if answer.status == 200 { Ok(answer.json) } else { Err(format!("{answer:?}")) }
    });
    let mut slowest = Duration::ZERO;
    let doing = async {
        loop {
            let began = Instant::now();
            let id = api.track("/events", &json!({"event": "viewed", "user_id": "u7"})).await.expect(202)["id"].clone();
            api.until(&format!("/events/{}", id.as_str().unwrap()), SOON, |_| true).await;
            slowest = slowest.max(began.elapsed());
        }
    };
    let import = tokio::select! {
        import = again => import,
        () = doing => unreachable!(),
    };
    assert_eq!((&import["status"], &import["imported"]), (&json!("completed"), &json!(USERS)));
    assert!(slowest < Duration::from_secs(2), "an event took {slowest:?}");
    let total = api.until("/users", SOON, |users| users["total"].as_u64() >= Some(USERS as u64)).await;
    assert_eq!(total["total"], json!(USERS));

    let exported = api.export("/users/export").await;
    assert_eq!((exported.len(), ids(&exported).len()), (USERS, USERS));
    let wrong = exported.iter().find(|user| {
        let n = user["properties"]["n"].as_u64().unwrap_or_default();
        user["externalId"] != json!(format!("u{n}")) || user["email"] != json!(format!("u{n}@example.com"))
    });
    assert_eq!(wrong, None);

    // Exports contain neither an erased user nor their events.
    let erased = api.call(Method::DELETE, "/users/u7", &api.secret_key, None).await.unwrap();
    erased.expect(200);
    let exported = api.export("/users/export").await;
    assert!(exported.len() == USERS - 1 && !ids(&exported).contains("u7"));
    assert_eq!(api.export("/events/export").await, Vec::<Value>::new());
    // Repeating the same file with the same key has no effect.
    let same = api.import("file", lines()).await.unwrap().expect(200);
    assert_eq!(same["imported"], json!(USERS));
    assert_eq!(api.get("/users/u7").await.status, 404);
}
