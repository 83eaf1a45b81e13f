//! A campaign while what sends it is killed at random, again and again: everybody gets it once.
//!
//! `E2E_CAMPAIGN_PEOPLE` (2000) is how many they are, `E2E_CAMPAIGN_KILLS` (10) how often something is killed, and `E2E_SEED`
//! chooses what and when. The long form is 100000 and 50.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use e2e::{Options, Program, System, drained};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use testkit::{MailService, ProviderServer, eventually};
use tokio_postgres::Client;

use crate::shop::number;

const API_KEY: &str = "re_test";
const SOON: Duration = Duration::from_secs(30);
/// The campaign is slowed down to so long for each kill.
const SECONDS_A_KILL: u64 = 2;

/// What is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Victim {
    Scheduler,
    Delivery,
    Automation,
    Nats,
}

const VICTIMS: [Victim; 4] = [Victim::Scheduler, Victim::Delivery, Victim::Automation, Victim::Nats];

struct Storm {
    random: StdRng,
    killed: BTreeMap<Victim, u32>,
}

impl Storm {
    /// Kills something with SIGKILL, and starts it again after a while.
    async fn strike(&mut self, system: &mut System) {
        let pause = self.random.random_range(100..900);
        tokio::time::sleep(Duration::from_millis(pause)).await;
        let victim = VICTIMS[self.random.random_range(0..VICTIMS.len())];
        let down = Duration::from_millis(self.random.random_range(0..400));
        *self.killed.entry(victim).or_default() += 1;
        match victim {
            Victim::Scheduler => restart(&mut system.scheduler, down).await,
            Victim::Delivery => restart(&mut system.delivery, down).await,
            Victim::Automation => restart(&mut system.automation, down).await,
            Victim::Nats => {
                system.nats.kill().await;
                tokio::time::sleep(down).await;
                system.nats.start_again().await;
            }
        }
    }

    /// So many times, unless the campaign is over before.
    async fn rage(&mut self, system: &mut System, campaign: &str, kills: u64) {
        for _ in 0..kills {
            if status(system, campaign).await == "COMPLETED" {
                return;
            }
            self.strike(system).await;
        }
    }
}

async fn restart(program: &mut Program, down: Duration) {
    program.kill().await;
    tokio::time::sleep(down).await;
    program.start().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everybody_gets_a_campaign_once_whatever_is_killed() {
    let seed: u64 = number("E2E_SEED").unwrap_or_else(|| rand::random::<u32>().into());
    let (people, kills) = (number("E2E_CAMPAIGN_PEOPLE").unwrap_or(2_000), number("E2E_CAMPAIGN_KILLS").unwrap_or(10));
    println!("E2E_SEED={seed}");
    let began = Instant::now();
    let provider = ProviderServer::start(MailService::new(API_KEY, "shop.example.com")).await;
    // Short leases, so that what the dead held is soon taken over.
    let options = Options::default()
        .env("MAIL_BASE_URL", provider.url())
        .env("PARTITION_LEASE_MS", 1_500)
        .env("DELIVERY_LEASE_MS", 5_000)
        .env("CAMPAIGN_HAND_OVER_MS", 3_000);
    let mut system = System::start_with(options).await;
    let db = drained::database(&system).await;
    let campaign = prepared(&system, people, people * 60 / (kills * SECONDS_A_KILL)).await;
    println!("prepared after {:?}", began.elapsed());

    let mut storm = Storm { random: StdRng::seed_from_u64(seed), killed: BTreeMap::new() };
    system.api.post(&format!("/campaigns/{campaign}/send"), &json!({})).await.expect(200);
    storm.rage(&mut system, &campaign, kills / 2).await;
    paused_and_resumed(&mut system, &db, &provider, &campaign).await;
    storm.rage(&mut system, &campaign, kills / 4).await;
    system.postgres.kill().await;
    system.postgres.start_again().await;
    storm.rage(&mut system, &campaign, kills - kills / 2 - kills / 4).await;
    let killed: u32 = storm.killed.values().sum();
    println!("{killed} kills until {:?}: {:?}", began.elapsed(), storm.killed);
    assert!(u64::from(killed) * 2 > kills, "the campaign was over before half of the kills");

    let within = Duration::from_secs(60 + kills * SECONDS_A_KILL);
    system.api.until(&format!("/campaigns/{campaign}"), within, |c| c["status"] == "COMPLETED").await;
    println!("completed after {:?}", began.elapsed());
    sent_once(&system, &provider, &campaign, people).await;
}

/// Pauses the campaign: nothing more goes out, also when what sends is killed meanwhile. Then resumes it.
async fn paused_and_resumed(system: &mut System, db: &Client, provider: &ProviderServer<MailService>, campaign: &str) {
    let call =
        async |system: &System, verb: &str| system.api.post(&format!("/campaigns/{campaign}/{verb}"), &json!({})).await;
    let paused = call(system, "pause").await;
    if paused.status == 409 {
        // It was faster than the kills, which is found out below.
        return;
    }
    paused.expect(200);
    let none = async || {
        let sql = "SELECT count(*) FROM message WHERE status = 'queued' AND due_at IS NOT NULL";
        let released: i64 = db.query_one(sql, &[]).await.map_err(|e| e.to_string())?.get(0);
        if released == 0 { Ok(()) } else { Err(format!("{released} still with delivery")) }
    };
    eventually(SOON, none).await;
    let before = provider.vendor().mails().len();
    restart(&mut system.scheduler, Duration::ZERO).await;
    restart(&mut system.delivery, Duration::ZERO).await;
    assert_eq!(provider.vendor().mails().len(), before, "sent while it was paused");
    assert_eq!(status(system, campaign).await, "PAUSED");
    println!("paused at {before} mails");
    call(system, "resume").await.expect(200);
}

/// People by the import, and a campaign to all of them but one at this pace.
async fn prepared(system: &System, people: u64, per_minute: u64) -> String {
    let api = &system.api;
    let channel = json!({ "emailProvider": "MAILPROVIDER", "mailproviderApiKey": API_KEY,
                          "mailproviderFromEmail": "hello@shop.example.com" });
    api.put("/channels", &channel).await.expect(200);
    let line = |n| {
        let plan = if n == 0 { "none" } else { "pro" };
        json!({ "user_id": format!("u{n}"), "email": format!("u{n}@example.com"), "properties": { "plan": plan } })
    };
    let lines = (0..=people).map(|n| format!("{}\n", line(n))).collect::<Vec<_>>().concat();
    let imported = api.import("people", lines).await.expect("an answer").expect(200);
    assert_eq!(imported["imported"], people + 1);
    api.until("/users", SOON, |users| users["total"] == people + 1).await;
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
    // The database may just have come back.
    system.api.until(&path, SOON, |_| true).await["status"].clone()
}

/// One row and one mail for each person.
async fn sent_once(system: &System, provider: &ProviderServer<MailService>, campaign: &str, people: u64) {
    let db = drained::database(system).await;
    let sql = "SELECT count(*), count(DISTINCT user_id), count(*) FILTER (WHERE status = 'sent'), sum(ambiguous)::bigint, \
               sum(attempt)::bigint FROM message";
    let row = db.query_one(sql, &[]).await.expect("the ledger");
    let counts: [i64; 3] = [row.get(0), row.get(1), row.get(2)];
    let all = i64::try_from(people).expect("so many");
    let (ambiguous, attempts): (i64, i64) = (row.get(3), row.get(4));
    assert_eq!(counts, [all; 3], "rows, people, sent");
    let mut copies: BTreeMap<String, u32> = BTreeMap::new();
    for mail in provider.vendor().mails() {
        *copies.entry(mail["to"][0].as_str().unwrap_or_default().to_owned()).or_default() += 1;
    }
    let (mails, twice) = (copies.len() as u64, copies.iter().find(|(_, count)| **count != 1));
    assert_eq!((mails, twice), (people, None));
    let report = system.api.get(&format!("/campaigns/{campaign}/report")).await.expect(200);
    assert_eq!((&report["recipients"], &report["byStatus"]), (&json!(people), &json!({ "sent": people })));
    println!("{people} people, {attempts} attempts, {ambiguous} of unknown outcome, each sent once");
}
