//! Checks the totals of several projects on a database that accepts only single-project statements: a PostgreSQL that
//! is addressed in this way, and a Citus if one is configured (docs/operate/citus.md).

use std::time::Duration;

use e2e::inspect::StoredEvents;
use e2e::system::Database;
use e2e::{Api, Options, System, inspect, mails};
use serde_json::{Value, json};

use crate::shop::{Shop, event_id, number};

const SOON: Duration = Duration::from_mins(1);
/// Users per project.
const USERS: usize = 12;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn totals_match_with_single_project_statements() {
    check_totals(Database::ByProject).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Citus cluster (CITUS_URLS): docs/operate/citus.md"]
async fn totals_match_on_citus() {
    check_totals(Database::Citus).await;
}

/// Runs the same load in several projects at once, so that batches mix their items. Everything is recorded, mailed and
/// counted once, and there are no dead letters.
async fn check_totals(database: Database) {
    let system = System::start_with(Options { database, ..Options::default() }).await;
    let db = inspect::database(&system).await;
    let mut apis = vec![system.api.with_own_connections()];
    for n in 1..number("BY_PROJECT_PROJECTS").unwrap_or(5) {
        let api = system.new_project(&format!("Shop {n}")).await;
        system.send_mail_to_mailbox(&api).await;
        apis.push(api);
    }
    for api in &apis {
        Shop::open_for(&system, api, 2).await;
    }
    let rounds = number("BY_PROJECT_ROUNDS").unwrap_or(4);
    let mut sent = 0;
    for round in 0..rounds {
        let tracked = apis.iter().enumerate().map(|(shop, api)| track(api, shop, round));
        for events in futures_util::future::join_all(tracked).await {
            sent += events;
        }
    }
    for (shop, api) in apis.iter().enumerate() {
        // Each user gets a welcome, and a reminder after a wait.
        for n in 0..USERS {
            let address = format!("p{n}@shop{shop}.example.com");
            testkit::eventually(SOON, async || {
                let received = mails::to(&system.mailbox, &address).len();
                if received == 2 { Ok(()) } else { Err(format!("{received} mails to {address}")) }
            })
            .await;
        }
        let user = api.get("/users/p0").await.expect(200);
        assert_eq!((&user["anonymousId"], &user["properties"]["round"]), (&json!("a0"), &json!(rounds - 1)));
        let total = api.get("/users").await.expect(200)["total"].clone();
        assert_eq!(total, json!(USERS), "users of shop {shop}");
    }
    inspect::until_drained(&system, &db, SOON).await;
    assert_eq!(inspect::events(&db, "%").await, StoredEvents::each_once(sent), "events");
    assert!(mails::copies(&system.mailbox).values().all(|copies| *copies == 1), "a mail was sent twice");
    assert_eq!(inspect::dead_letters(&system).await, 0);
    erase_one(&apis[0]).await;
}

/// Sends one batch for a project: each user visits, is identified, signs up and fills a cart. Returns the number of
/// events.
async fn track(api: &Api, shop: usize, round: u64) -> i64 {
    let mut batch: Vec<Value> = Vec::new();
    let mut events = 0;
    for n in 0..USERS {
        let (user, anonymous) = (format!("p{n}"), format!("a{n}"));
        let mut track = |name: &str, ids: Value| {
            let mut item =
                json!({ "type": "track", "event": name, "id": event_id(), "properties": { "cartId": user } });
            item.as_object_mut().expect("an object").extend(ids.as_object().expect("an object").clone());
            events += 1;
            item
        };
        batch.push(track("viewed", json!({ "anonymous_id": anonymous })));
        batch.push(json!({ "type": "identify", "user_id": user, "anonymous_id": anonymous,
                           "properties": { "email": format!("{user}@shop{shop}.example.com"), "round": round } }));
        if round == 0 {
            batch.push(track("signed_up", json!({ "user_id": user })));
            batch.push(track("checkout_started", json!({ "user_id": user })));
        }
    }
    let answer = api.track("/events/batch", &json!({ "batch": batch })).await.expect(202);
    assert_eq!(answer["errors"], json!(0), "{answer}");
    events
}

async fn erase_one(api: &Api) {
    let erased = api.call(reqwest::Method::DELETE, "/users/p0", &api.secret_key, None).await.expect("a response");
    assert_eq!(erased.expect(200), json!({ "deleted": true }));
    assert_eq!(api.get("/users/p0").await.status, 404);
    api.until("/users", SOON, |users| users["total"] == json!(USERS - 1)).await;
}
