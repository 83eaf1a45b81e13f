//! Kills the processes that send a campaign, at random and repeatedly. Every user gets it exactly once.
//!
//! `E2E_CAMPAIGN_USERS` (2000) sets the number of users, `E2E_CAMPAIGN_KILLS` (10) the number of kills, and `E2E_SEED`
//! the victims and times. The long form uses 100000 and 50.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use e2e::chaos::{RandomKills, Victim};
use e2e::{Options, System, inspect};
use serde_json::{Value, json};
use testkit::{MailService, ProviderServer, eventually};
use tokio_postgres::Client;

use crate::shop::number;

const API_KEY: &str = "re_test";
const SOON: Duration = Duration::from_secs(30);
/// The campaign is throttled to last this long per kill.
const SECONDS_PER_KILL: u64 = 2;
/// Chunks that a killed worker had begun are parked when their lease expires.
const PARK_TIMEOUT: Duration = Duration::from_mins(1);
/// Users per import request.
const IMPORT_SIZE: usize = 10_000;
/// Messages per second that a debug build sends at least on a busy machine.
const MIN_SENDS_PER_SECOND: u64 = 200;

const VICTIMS: [Victim; 4] = [Victim::Scheduler, Victim::Delivery, Victim::Automation, Victim::Nats];
/// Milliseconds before each kill.
const PAUSE: Range<u64> = 100..900;

/// Kills `kills` times, or until the campaign completes.
async fn kill_repeatedly(random_kills: &mut RandomKills, system: &mut System, campaign: &str, kills: u64) {
    for _ in 0..kills {
        if status(system, campaign).await == "COMPLETED" {
            return;
        }
        random_kills.kill_one(system).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn campaign_reaches_each_user_once_despite_kills() {
    let seed: u64 = number("E2E_SEED").unwrap_or_else(|| rand::random::<u32>().into());
    let (users, kills) = (number("E2E_CAMPAIGN_USERS").unwrap_or(2_000), number("E2E_CAMPAIGN_KILLS").unwrap_or(10));
    println!("E2E_SEED={seed}");
    let began = Instant::now();
    let provider = ProviderServer::start(MailService::new(API_KEY, "shop.example.com")).await;
    // Short leases, so that the work of killed processes is soon taken over.
    let options = Options::default()
        .env("MAIL_BASE_URL", provider.url())
        .env("PARTITION_LEASE_MS", 1_500)
        .env("DELIVERY_LEASE_MS", 5_000);
    let mut system = System::start_with(options).await;
    let db = inspect::database(&system).await;
    let campaign = create_campaign(&system, users, users * 60 / (kills * SECONDS_PER_KILL)).await;
    println!("prepared after {:?}", began.elapsed());

    let mut random_kills = RandomKills::new(seed, &VICTIMS, PAUSE);
    system.api.post(&format!("/campaigns/{campaign}/send"), &json!({})).await.expect(200);
    kill_repeatedly(&mut random_kills, &mut system, &campaign, kills / 2).await;
    check_pause_and_resume(&mut system, &db, &provider, &campaign).await;
    kill_repeatedly(&mut random_kills, &mut system, &campaign, kills / 4).await;
    system.postgres.kill().await;
    system.postgres.start_again().await;
    kill_repeatedly(&mut random_kills, &mut system, &campaign, kills - kills / 2 - kills / 4).await;
    println!("{} kills until {:?}: {:?}", random_kills.kills(), began.elapsed(), random_kills.killed);
    assert!(random_kills.kills() * 2 > kills, "the campaign completed before half of the kills");

    let within = Duration::from_secs(60 + kills * SECONDS_PER_KILL + users / MIN_SENDS_PER_SECOND);
    system.api.until(&format!("/campaigns/{campaign}"), within, |c| c["status"] == "COMPLETED").await;
    println!("completed after {:?}", began.elapsed());
    check_sent_once(&system, &provider, &campaign, users).await;
}

/// Pauses the campaign, checks that nothing is sent even if its processes are killed, and resumes it.
async fn check_pause_and_resume(
    system: &mut System,
    db: &Client,
    provider: &ProviderServer<MailService>,
    campaign: &str,
) {
    let call =
        async |system: &System, verb: &str| system.api.post(&format!("/campaigns/{campaign}/{verb}"), &json!({})).await;
    let paused = call(system, "pause").await;
    if paused.status == 409 {
        // The campaign completed before the kills, which a later check reports.
        return;
    }
    paused.expect(200);
    let no_chunk_released = async || {
        let sql = "SELECT count(*) FROM send_chunk WHERE due_at IS NOT NULL";
        let released: i64 = db.query_one(sql, &[]).await.map_err(|e| e.to_string())?.get(0);
        if released == 0 { Ok(()) } else { Err(format!("{released} chunks are still released")) }
    };
    eventually(PARK_TIMEOUT, no_chunk_released).await;
    let before = provider.vendor().mails().len();
    system.scheduler.restart(Duration::ZERO).await;
    system.delivery.restart(Duration::ZERO).await;
    assert_eq!(provider.vendor().mails().len(), before, "mails were sent while the campaign was paused");
    assert_eq!(status(system, campaign).await, "PAUSED");
    println!("paused at {before} mails");
    call(system, "resume").await.expect(200);
}

/// Imports the users, and creates a throttled campaign to all of them but one.
async fn create_campaign(system: &System, users: u64, per_minute: u64) -> String {
    let api = &system.api;
    let channel = json!({ "emailProvider": "MAILPROVIDER", "mailproviderApiKey": API_KEY,
                          "mailproviderFromEmail": "hello@shop.example.com" });
    api.put("/channels", &channel).await.expect(200);
    let line = |n| {
        let plan = if n == 0 { "none" } else { "pro" };
        json!({ "user_id": format!("u{n}"), "email": format!("u{n}@example.com"), "properties": { "plan": plan } })
    };
    let numbers: Vec<u64> = (0..=users).collect();
    for (nth, chunk) in numbers.chunks(IMPORT_SIZE).enumerate() {
        let lines = chunk.iter().map(|n| line(*n).to_string()).collect::<Vec<_>>().join("\n") + "\n";
        let imported = api.import(&format!("users {nth}"), lines).await.expect("a response").expect(200);
        assert_eq!(imported["imported"], chunk.len());
    }
    api.until("/users", SOON, |page| page["total"] == users + 1).await;
    let rules = json!([{ "field": "plan", "operator": "eq", "value": "pro" }]);
    let segment = api.create("/segments", &json!({ "name": "Pro", "rules": rules })).await;
    let template =
        json!({ "name": "Sale", "channel": "EMAIL", "subject": "Sale", "body": "<p>For {{ user.externalId }}</p>" });
    let template = api.create("/templates", &template).await;
    let campaign = json!({ "name": "Sale", "channel": "EMAIL", "segmentId": segment, "templateId": template,
                           "throttlePerMinute": per_minute.max(1) });
    api.create("/campaigns", &campaign).await
}

async fn status(system: &System, campaign: &str) -> Value {
    let path = format!("/campaigns/{campaign}");
    // The database may have just restarted.
    system.api.until(&path, SOON, |_| true).await["status"].clone()
}

/// Checks that there is one row and one mail per user.
async fn check_sent_once(system: &System, provider: &ProviderServer<MailService>, campaign: &str, users: u64) {
    let db = inspect::database(system).await;
    let sql = "SELECT count(*), count(DISTINCT user_id), count(*) FILTER (WHERE status = 'sent'), sum(ambiguous)::bigint, \
               sum(attempt)::bigint FROM message";
    let row = db.query_one(sql, &[]).await.expect("the ledger");
    let counts: [i64; 3] = [row.get(0), row.get(1), row.get(2)];
    let all = i64::try_from(users).expect("a count that fits i64");
    let (ambiguous, attempts): (i64, i64) = (row.get(3), row.get(4));
    assert_eq!(counts, [all; 3], "rows, users, sent");
    let mut copies: BTreeMap<String, u32> = BTreeMap::new();
    for mail in provider.vendor().mails() {
        *copies.entry(mail["to"][0].as_str().unwrap_or_default().to_owned()).or_default() += 1;
    }
    let (mails, twice) = (copies.len() as u64, copies.iter().find(|(_, count)| **count != 1));
    assert_eq!((mails, twice), (users, None));
    let report = system.api.get(&format!("/campaigns/{campaign}/report")).await.expect(200);
    assert_eq!((&report["recipients"], &report["byStatus"]), (&json!(users), &json!({ "sent": users })));
    println!("{users} users, {attempts} attempts, {ambiguous} ambiguous, each sent once");
}
