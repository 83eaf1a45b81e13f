//! Kills the programs that advance the runs of a journey, at random and repeatedly. Every step takes effect once, no
//! run gets stuck, and all counts match.
//!
//! `E2E_JOURNEY_RUNS` (1500) sets the number of runs, `E2E_JOURNEY_KILLS` (one per 600 runs, at least 6) the number of
//! kills, and `E2E_SEED` the victims and times. The long form is 50000.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use e2e::chaos::{RandomKills, Victim};
use e2e::{Api, Options, System, inspect};
use serde_json::{Value, json};
use testkit::{MailService, ProviderServer, eventually};
use tokio_postgres::Client;

use crate::shop::number;

const API_KEY: &str = "re_test";
const VICTIMS: [Victim; 3] = [Victim::Scheduler, Victim::Automation, Victim::Delivery];
/// Milliseconds before each kill, and average seconds between kills.
const PAUSE: Range<u64> = 1_000..4_000;
const SECONDS_PER_KILL: u64 = 3;
/// Seconds that a run waits for an order.
const TIMEOUT: u64 = 10;
/// Users per sign-up request, at most the size of a batch.
const BATCH_USERS: u64 = 100;
const SOON: Duration = Duration::from_mins(1);

/// The automation and the templates.
struct Shop {
    automation: String,
    /// Template IDs by name.
    templates: BTreeMap<&'static str, String>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn journey_steps_take_effect_once_despite_kills() {
    let seed: u64 = number("E2E_SEED").unwrap_or_else(|| rand::random::<u32>().into());
    let runs = number("E2E_JOURNEY_RUNS").unwrap_or(1_500);
    let kills = number("E2E_JOURNEY_KILLS").unwrap_or_else(|| (runs / 600).max(6));
    println!("E2E_SEED={seed}, {runs} runs, {kills} kills");
    let provider = ProviderServer::start(MailService::new(API_KEY, "shop.example.com")).await;
    // Short leases, so that the work of killed processes is soon taken over. More retries of calls with an unknown
    // outcome than usual, because several kills may hit the same message.
    let options = Options::default()
        .env("MAIL_BASE_URL", provider.url())
        .env("PARTITION_LEASE_MS", 1_500)
        .env("DELIVERY_LEASE_MS", 5_000)
        .env("DELIVERY_UNKNOWN_RETRIES", 10);
    let mut system = System::start_with(options).await;
    let db = inspect::database(&system).await;
    let shop = create_journey(&system, runs).await;

    let began = Instant::now();
    let (api, sign_up_time) =
        (system.api.clone(), Duration::from_secs((kills * SECONDS_PER_KILL).max(3 * TIMEOUT) - TIMEOUT));
    let sign_ups = tokio::spawn(async move { sign_up(&api, runs, sign_up_time).await });
    let mut random_kills = RandomKills::new(seed, &VICTIMS, PAUSE);
    while random_kills.kills() < kills && ended(&db).await < runs {
        random_kills.kill_one(&mut system).await;
    }
    let left = runs - ended(&db).await;
    println!(
        "{} kills until {:?}, with {left} runs left: {:?}",
        random_kills.kills(),
        began.elapsed(),
        random_kills.killed
    );
    assert!(random_kills.kills() * 2 > kills, "all runs ended before half of the kills");
    sign_ups.await.expect("the sign-ups");

    let all_ended = async || match ended(&db).await {
        over if over == runs => Ok(()),
        over => Err(format!("{over} of {runs} runs have ended")),
    };
    eventually(SOON + Duration::from_millis(runs * 20), all_ended).await;
    println!("all runs have ended after {:?}", began.elapsed());
    inspect::until_drained(&system, &db, SOON + Duration::from_millis(runs * 20)).await;
    println!("all messages are sent after {:?}", began.elapsed());
    assert_eq!(inspect::dead_letters(&system).await, 0, "there are dead letters");
    let totals = Totals::of(&system, &db, &shop.automation).await;
    totals.check_report(runs);
    messages_were_sent_once(&db, &provider, &shop, &totals, runs).await;
    totals.events(&db, runs).await;
}

/// Creates a journey of six steps, and the users who will enter it.
async fn create_journey(system: &System, users: u64) -> Shop {
    let api = &system.api;
    let channel = json!({ "emailProvider": "MAILPROVIDER", "mailproviderApiKey": API_KEY,
                          "mailproviderFromEmail": "hello@shop.example.com" });
    api.put("/channels", &channel).await.expect(200);
    let lines = (0..users).map(|n| {
        let line = json!({ "user_id": format!("u{n}"), "email": format!("u{n}@example.com"), "properties": {} });
        format!("{line}\n")
    });
    let imported = api.import("users", lines.collect::<Vec<_>>().concat()).await.expect("a response").expect(200);
    assert_eq!(imported["imported"], users);
    api.until("/users", SOON, |page| page["total"] == users).await;
    let mut templates = BTreeMap::new();
    for (name, channel) in [("welcome", "EMAIL"), ("reminder", "EMAIL"), ("gift", "IN_APP"), ("farewell", "IN_APP")] {
        let new = json!({ "name": name, "channel": channel, "subject": name, "body": "For {{ user.externalId }}" });
        templates.insert(name, api.create("/templates", &new).await);
    }
    let track = |event: &str| json!({ "type": "TRACK_EVENT", "event": event, "properties": {} });
    let mail = |name: &str| json!({ "type": "SEND_EMAIL", "templateId": templates[name] });
    let in_app = |name: &str| json!({ "type": "SEND_IN_APP", "templateId": templates[name] });
    let steps = json!([
        mail("welcome"),
        { "type": "WAIT_FOR_EVENT", "event": "order_completed", "timeout": TIMEOUT,
          "then": [track("thanked")], "else": [mail("reminder")] },
        { "type": "SPLIT", "branches": [
            { "weight": 3, "steps": [in_app("gift")] },
            { "weight": 3, "steps": [track("without_gift")] },
            { "weight": 1, "steps": [{ "type": "EXIT" }] },
        ] },
        { "type": "WAIT", "delay": 2 },
        in_app("farewell"),
        track("journey_over"),
    ]);
    let automation = json!({ "name": "Journey", "triggerType": "EVENT", "triggerEvent": "signed_up", "active": true,
                             "reentry": "once", "steps": steps });
    Shop { automation: api.create("/automations", &automation).await, templates }
}

/// Signs up all users; half of them order a little later. Each order is in the stream long before its wait ends, and a
/// user's items stay in order, so every user who orders takes that arm in spite of the kills.
async fn sign_up(api: &Api, users: u64, over: Duration) {
    let groups = users.div_ceil(BATCH_USERS);
    let pace = over / u32::try_from(groups).expect("a count that fits u32");
    let mut interval = tokio::time::interval(pace.max(Duration::from_millis(1)));
    for group in 0..=groups {
        interval.tick().await;
        let members = |group: u64| (group * BATCH_USERS)..((group + 1) * BATCH_USERS).min(users);
        track_all(api, "signed_up", members(group)).await;
        if let Some(before) = group.checked_sub(1) {
            track_all(api, "order_completed", members(before).filter(|n| n % 2 == 0)).await;
        }
    }
}

async fn track_all(api: &Api, event: &str, users: impl Iterator<Item = u64>) {
    let item = |n| json!({ "type": "track", "event": event, "user_id": format!("u{n}"), "properties": {} });
    let batch: Vec<Value> = users.map(item).collect();
    if !batch.is_empty() {
        let count = batch.len();
        let answer = api.track("/events/batch", &json!({ "batch": batch })).await.expect(202);
        assert_eq!(answer["processed"], count, "{answer}");
    }
}

async fn ended(db: &Client) -> u64 {
    count(db, "SELECT count(*) FROM run WHERE ended_at IS NOT NULL").await
}

async fn count(db: &Client, sql: &str) -> u64 {
    let count: i64 = db.query_one(sql, &[]).await.expect(sql).get(0);
    u64::try_from(count).expect("a count")
}

/// Compares the report with the runs themselves.
struct Totals {
    report: Value,
    /// Occurrences by step, action and arm, from the trails of the runs.
    trails: BTreeMap<(String, String, String), u64>,
}

impl Totals {
    async fn of(system: &System, db: &Client, automation: &str) -> Self {
        let report = system.api.get(&format!("/automations/{automation}/report")).await.expect(200);
        let sql = "SELECT mark->>'step', mark->>'did', coalesce(mark->>'arm', ''), count(*), count(DISTINCT run.id) \
                   FROM run, jsonb_array_elements(trail) AS mark WHERE mark ? 'step' GROUP BY 1, 2, 3";
        let mut trails = BTreeMap::new();
        for row in db.query(sql, &[]).await.expect("the trails") {
            let key: (String, String, String) = (row.get(0), row.get(1), row.get(2));
            let (marks, runs): (i64, i64) = (row.get(3), row.get(4));
            assert_eq!(marks, runs, "{key:?} occurred twice in a run");
            trails.insert(key, u64::try_from(marks).expect("a count"));
        }
        Self { report, trails }
    }

    fn did(&self, step: &str, did: &str, arm: &str) -> u64 {
        self.trails.get(&(step.to_owned(), did.to_owned(), arm.to_owned())).copied().unwrap_or(0)
    }

    /// Returns the runs with an order, and those without.
    fn arms_of_wait(&self) -> [u64; 2] {
        ["then", "else"].map(|arm| self.did("steps[1]", "took", arm))
    }

    fn arms_of_split(&self) -> [u64; 3] {
        ["branches[0]", "branches[1]", "branches[2]"].map(|arm| self.did("steps[2]", "took", arm))
    }

    fn check_report(&self, runs: u64) {
        let Self { report, trails } = self;
        let (arms, split) = (self.arms_of_wait(), self.arms_of_split());
        println!("{runs} runs: ordered or not {arms:?}, by the split {split:?}");
        let of_runs =
            ["entered", "completed", "exited", "waiting", "frozen", "failed"].map(|name| report[name].as_u64());
        let expected = [runs, split[0] + split[1], split[2], 0, 0, 0];
        assert_eq!(of_runs, expected.map(Some), "{report}");
        assert_eq!(arms, [runs.div_ceil(2), runs / 2], "users who ordered took that arm");
        assert_eq!(split.iter().sum::<u64>(), runs, "{split:?}");
        // The random split is 3 : 3 : 1. Six standard deviations are allowed.
        for (arm, share) in split.iter().zip([3.0 / 7.0, 3.0 / 7.0, 1.0 / 7.0]) {
            let (mean, deviation) = (runs as f64 * share, (runs as f64 * share * (1.0 - share)).sqrt());
            assert!((*arm as f64 - mean).abs() <= 6.0 * deviation, "{split:?}");
        }
        let mut outcomes: BTreeMap<(String, String), u64> = BTreeMap::new();
        for ((step, did, _), count) in trails {
            *outcomes.entry((step.clone(), did.clone())).or_default() += count;
        }
        let steps = report["steps"].as_array().expect("steps");
        assert_eq!(steps.len(), 11, "{report}");
        for step in steps {
            let path = step["step"].as_str().expect("a step path");
            assert_eq!(step["waiting"], 0, "{step}");
            for (did, count) in step["outcomes"].as_object().expect("outcomes") {
                assert_eq!(outcomes.remove(&(path.to_owned(), did.clone())), count.as_u64(), "{path} {did}");
            }
            for (arm, count) in step["arms"].as_object().expect("arms") {
                assert_eq!(Some(self.did(path, "took", arm)), count.as_u64(), "{path} {arm}");
            }
        }
        assert!(outcomes.is_empty(), "not in the report: {outcomes:?}");
    }

    /// Checks that each step's event was recorded once per run that reached it, and that no wait is left.
    async fn events(&self, db: &Client, runs: u64) {
        let ([ordered, _], [_, without_gift, exited]) = (self.arms_of_wait(), self.arms_of_split());
        for (event, expected) in [
            ("signed_up", runs),
            ("order_completed", ordered),
            ("thanked", ordered),
            ("without_gift", without_gift),
            ("journey_over", runs - exited),
        ] {
            let sql = "SELECT count(*), count(DISTINCT user_id) FROM events WHERE name = $1";
            let row = db.query_one(sql, &[&event]).await.expect("the events");
            let counts: [i64; 2] = [row.get(0), row.get(1)];
            assert_eq!(counts.map(|count| u64::try_from(count).ok()), [Some(expected); 2], "{event}: rows, users");
        }
        for (what, expected) in [("users", runs), ("run", runs), ("timer", 0), ("run_listener", 0)] {
            assert_eq!(count(db, &format!("SELECT count(*) FROM {what}")).await, expected, "{what}");
        }
    }
}

/// Checks that there is one row per sending step and run that reached it, and one mail per row with a mail.
async fn messages_were_sent_once(
    db: &Client,
    provider: &ProviderServer<MailService>,
    shop: &Shop,
    totals: &Totals,
    runs: u64,
) {
    let mut mails: BTreeMap<(String, String), u32> = BTreeMap::new();
    for mail in provider.vendor().mails() {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        *mails.entry((text(&mail["subject"]), text(&mail["to"][0]))).or_default() += 1;
    }
    assert_eq!(mails.iter().find(|(_, copies)| **copies != 1), None, "sent twice");
    let ([_, timed_out], [gifts, _, exited]) = (totals.arms_of_wait(), totals.arms_of_split());
    let mut all = 0;
    for (name, expected, at_provider) in [
        ("welcome", runs, true),
        ("reminder", timed_out, true),
        ("gift", gifts, false),
        ("farewell", runs - exited, false),
    ] {
        let sql = "SELECT count(*), count(DISTINCT run_id), count(DISTINCT user_id), count(*) FILTER (WHERE sent_at IS NOT NULL) \
                   FROM message WHERE template_id::text = $1";
        let row = db.query_one(sql, &[&shop.templates[name]]).await.expect("the ledger");
        let counts: [i64; 4] = [row.get(0), row.get(1), row.get(2), row.get(3)];
        let counts = counts.map(|count| u64::try_from(count).expect("a count"));
        assert_eq!(counts, [expected; 4], "{name}: rows, runs, users, sent");
        let at_service = mails.keys().filter(|(subject, _)| subject == name).count() as u64;
        assert_eq!(at_service, if at_provider { expected } else { 0 }, "{name}: at the provider");
        all += expected;
    }
    assert_eq!(count(db, "SELECT count(*) FROM message").await, all);
    let ambiguous = count(db, "SELECT coalesce(sum(ambiguous), 0)::bigint FROM message").await;
    println!("{all} messages, {} mails accepted, {ambiguous} ambiguous calls", mails.len());
}
