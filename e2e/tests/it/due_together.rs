//! Many waits end in the same minute. None ends early, those of one user end in order, and in the long form each ends
//! within two seconds of its time.
//!
//! `E2E_DUE_RUNS` (2000) sets their number. The long form is 100000, on a release build.

use std::time::{Duration, Instant};

use e2e::{Api, Options, System, inspect};
use jiff::{SignedDuration, Timestamp};
use kernel::clock::{Clock, rfc3339};
use serde_json::{Value, json};
use testkit::eventually;
use tokio_postgres::Client;

use crate::shop::number;

const WITHIN_SECONDS: f64 = 2.0;
const MINUTE: u64 = 60;
/// Minimum number of seconds over which the waits end.
const SECONDS: u64 = 5;
/// Number of waits for which the lateness is checked. Fewer are also run on debug builds and slow machines.
const LONG_FORM_RUNS: u64 = 100_000;
/// Conservative number of sign-ups per second during the preparation, and extra seconds for it.
const SIGN_UPS_PER_SECOND: u64 = 400;
const PREPARATION_EXTRA_SECONDS: u64 = 20;
/// Users per request, and concurrent requests.
const BATCH_USERS: u64 = 100;
const CONCURRENT_REQUESTS: usize = 4;
const SOON: Duration = Duration::from_mins(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn simultaneous_waits_end_in_time_and_in_order() {
    let runs = number("E2E_DUE_RUNS").unwrap_or(2_000).next_multiple_of(2);
    // Each user has two runs.
    let users = runs / 2;
    let over =
        SignedDuration::from_secs(i64::try_from((MINUTE * runs / LONG_FORM_RUNS).max(SECONDS)).expect("seconds"));
    let system = System::start_with(Options::default()).await;
    let db = inspect::database(&system).await;
    let api = &system.api;
    for (name, offset) in [("first", 0), ("second", 1)] {
        // The run that ends last leaves its name.
        let steps = json!([
            { "type": "WAIT_UNTIL", "property": "at", "offset": offset },
            { "type": "UPDATE_USER", "properties": { "last": name } },
        ]);
        let automation = json!({ "name": name, "triggerType": "EVENT", "triggerEvent": "signed_up", "active": true,
                                 "reentry": "once", "steps": steps });
        api.create("/automations", &automation).await;
    }
    let began = Instant::now();
    let preparing = SignedDuration::from_secs(
        i64::try_from(users / SIGN_UPS_PER_SECOND + PREPARATION_EXTRA_SECONDS).expect("seconds"),
    );
    let first = Clock::system().now() + preparing;
    sign_up_users(api, users, first, over).await;
    let waiting = async || match count(&db, "SELECT count(*) FROM timer").await {
        waiting if waiting == runs => Ok(()),
        waiting => Err(format!("{waiting} of {runs} are waiting")),
    };
    eventually(SOON + Duration::from_millis(runs), waiting).await;
    assert!(Clock::system().now() < first, "the first wait ended before all runs were waiting: {:?}", began.elapsed());
    println!("{runs} runs are waiting after {:?}; their waits end within {over:#}", began.elapsed());

    let ended = async || match count(&db, "SELECT count(*) FROM run WHERE status = 'completed'").await {
        ended if ended == runs => Ok(()),
        ended => Err(format!("{ended} of {runs} have ended")),
    };
    eventually(SOON + Duration::try_from(preparing + over).expect("seconds") * 3, ended).await;
    // From the end of the wait to the commit of its effect.
    let sql = "SELECT extract(epoch FROM max(late))::float8, \
               (percentile_cont(0.99) WITHIN GROUP (ORDER BY extract(epoch FROM late)))::float8, \
               extract(epoch FROM min(late))::float8 \
               FROM (SELECT updated_at - (trail->0->>'until')::timestamptz AS late FROM run) AS runs";
    let row = db.query_one(sql, &[]).await.expect("reading the delays");
    let [latest, most, earliest]: [f64; 3] = [row.get(0), row.get(1), row.get(2)];
    println!("{runs} waits ended {most:.3} s after their time (99 of 100), the latest {latest:.3} s");
    let out_of_order =
        count(&db, "SELECT count(*) FROM users WHERE properties->>'last' IS DISTINCT FROM 'second'").await;
    assert_eq!(out_of_order, 0, "users whose second wait ended first");
    assert!(earliest >= 0.0, "a wait ended {earliest} s early");
    assert!(runs < LONG_FORM_RUNS || latest <= WITHIN_SECONDS, "the latest ended {latest} s after its time");
}

/// Imports users whose first waits end evenly spread over `over`, and signs them up.
async fn sign_up_users(api: &Api, users: u64, first: Timestamp, over: SignedDuration) {
    let at = |n: u64| {
        first
            + over * i32::try_from(n).expect("a count that fits i32")
                / i32::try_from(users).expect("a count that fits i32")
    };
    let line = |n| format!("{}\n", json!({ "user_id": format!("u{n}"), "properties": { "at": rfc3339(at(n)) } }));
    let lines = (0..users).map(line).collect::<Vec<_>>().concat();
    let imported = api.import("users", lines).await.expect("a response").expect(200);
    assert_eq!(imported["imported"], users);
    api.until("/users", SOON, |page| page["total"] == users).await;
    let groups: Vec<u64> = (0..users.div_ceil(BATCH_USERS)).collect();
    for groups in groups.chunks(CONCURRENT_REQUESTS) {
        let sign_ups = groups.iter().map(|group| async move {
            let members = (group * BATCH_USERS)..((group + 1) * BATCH_USERS).min(users);
            let item =
                |n| json!({ "type": "track", "event": "signed_up", "user_id": format!("u{n}"), "properties": {} });
            let batch: Vec<Value> = members.map(item).collect();
            api.track("/events/batch", &json!({ "batch": batch })).await.expect(202);
        });
        futures_util::future::join_all(sign_ups).await;
    }
}

async fn count(db: &Client, sql: &str) -> u64 {
    let count: i64 = db.query_one(sql, &[]).await.expect(sql).get(0);
    u64::try_from(count).expect("a count")
}
