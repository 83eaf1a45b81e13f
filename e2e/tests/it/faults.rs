//! Sends through six providers while eight of ten sends fail at first, equally often with each kind of fault.
//!
//! Every message ends with one outcome. Providers that know idempotency keys act once per key, and the others see no
//! more repeats than the ledger records as ambiguous.
//!
//! `E2E_FAULT_SENDS` (1000) sets the number of sends. The long form is 100000, with 10,000 faults of each kind.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use e2e::faults::{KINDS, Kind, PlannedSend, ProviderKind, Script, Scripted, TEXT, parse_send_number};
use e2e::{Api, Options, System, inspect};
use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt};
use serde_json::{Value, json};
use testkit::{ApnsService, MailService, ProviderServer, PushGateway, PushProviderService, SmsService, SmtpService};
use tokio_postgres::Client;

use crate::shop::number;

const API_KEY: &str = "re_test";
const APP: &str = "11111111-2222-4333-8444-555555555555";
const FROM: &str = "+15005550006";
/// Users per project who have a device of either vendor.
const USERS_PER_PROVIDER: u64 = 4;
/// Maximum number of sends without an outcome.
const WINDOW: u64 = 20_000;
const CHUNK: u64 = 500;
/// Projects created concurrently. Each uses database connections meanwhile.
const CONCURRENT_REQUESTS: usize = 16;
/// Interval at which the test makes retries due.
const TICK: Duration = Duration::from_millis(500);

struct Providers {
    script: Arc<Script>,
    mail: ProviderServer<Scripted<MailService>>,
    sms: ProviderServer<Scripted<SmsService>>,
    gateway: ProviderServer<Scripted<PushGateway>>,
    apns: ProviderServer<Scripted<ApnsService>>,
    third: ProviderServer<Scripted<PushProviderService>>,
    smtp: SmtpService,
}

impl Providers {
    async fn start(projects: u64) -> Self {
        let script = Arc::new(Script::new(projects));
        let of_mail = script.clone();
        let third = scripted(&script, PushProviderService::new(&[(APP, "rest-key")]));
        Self {
            mail: ProviderServer::start(scripted(&script, MailService::new(API_KEY, "shop.example.com"))).await,
            sms: ProviderServer::start(scripted(&script, SmsService::new("AC1", "token", FROM))).await,
            gateway: ProviderServer::start(scripted(&script, PushGateway::new())).await,
            apns: ProviderServer::start(scripted(
                &script,
                ApnsService::new("ABC123DEFG", "DEF123GHIJ", "com.example.shop"),
            ))
            .await,
            third: ProviderServer::start_misnamed(third, "localhost", "elsewhere.example").await,
            smtp: SmtpService::start(move |mail| of_mail.mail_fault(mail)).await,
            script,
        }
    }

    fn options(&self) -> Options {
        Options::default()
            .env("MAIL_BASE_URL", self.mail.url())
            .env("SMS_BASE_URL", self.sms.url())
            .env("PUSH_GATEWAY_BASE_URL", self.gateway.url())
            .env("APNS_BASE_URL", self.apns.url())
            .env("PUSH_PROVIDER_BASE_URL", self.third.url())
            .env("OUTBOUND_CA_FILE", self.third.ca_file().expect("the server uses TLS"))
            // A call that is never answered holds its permit for 20 s.
            .env("DELIVERY_CONCURRENCY", 1_024)
    }

    /// Returns the channel settings of a project by its number.
    fn channels(&self, project: u64) -> Value {
        let mut channels = json!({
            "smsAccountId": "AC1", "smsAuthToken": "token", "smsFromNumber": FROM,
            "iosPushKeyId": "ABC123DEFG", "iosPushTeamId": "DEF123GHIJ", "iosPushBundleId": "com.example.shop",
            "iosPushPrivateKey": self.apns.vendor().vendor.key_file,
            "pushGatewayServerKey": self.gateway.vendor().vendor.server_key,
            "pushProviderAppId": APP, "pushProviderRestKey": "rest-key",
            "mailproviderFromEmail": "hello@shop.example.com",
        });
        let mail = if project.is_multiple_of(2) {
            json!({ "emailProvider": "MAILPROVIDER", "mailproviderApiKey": API_KEY })
        } else {
            json!({ "emailProvider": "SMTP", "smtpHost": "127.0.0.1", "smtpPort": self.smtp.port(), "smtpSecurity": "none" })
        };
        channels.as_object_mut().expect("an object").extend(mail.as_object().cloned().expect("an object"));
        channels
    }

    /// Returns how often a provider acted on each send.
    fn copies(&self) -> BTreeMap<u64, u32> {
        let mut copies = BTreeMap::new();
        let mut count = |provider: &str, accepted: Vec<String>| {
            println!("  {provider}: {} accepted", accepted.len());
            for text in accepted {
                let number =
                    parse_send_number(text.as_bytes()).unwrap_or_else(|| panic!("{provider}: no number in {text}"));
                *copies.entry(number).or_default() += 1;
            }
        };
        let texts = |accepted: Vec<Value>| accepted.iter().map(Value::to_string).collect::<Vec<_>>();
        count("mail over HTTP", texts(self.mail.vendor().vendor.mails()));
        count("SMTP", self.smtp.mails());
        count("SMS", self.sms.vendor().vendor.accepted().into_iter().map(|form| form["Body"].clone()).collect());
        count("push gateway", texts(self.gateway.vendor().vendor.accepted()));
        count("APNs", texts(self.apns.vendor().vendor.accepted()));
        count("third-party push", texts(self.third.vendor().vendor.accepted()));
        copies
    }
}

fn scripted<V>(script: &Arc<Script>, vendor: V) -> Scripted<V> {
    Scripted { vendor, script: script.clone() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_send_has_one_outcome_despite_provider_faults() {
    let sends = number("E2E_FAULT_SENDS").unwrap_or(1_000);
    assert!(sends >= 1_000 && sends.is_multiple_of(10), "E2E_FAULT_SENDS={sends}: at least 1000, and a multiple of 10");
    // Each project has its own circuit breakers, which occasional faults keep open for a while.
    let projects = (sends / 500).clamp(16, 200) + 1;
    let began = Instant::now();
    let providers = Providers::start(projects).await;
    let system = System::start_with(providers.options()).await;
    let db = inspect::database(&system).await;
    let opened = (0..projects).map(|project| open(&system, &providers, project));
    let apis: Vec<Api> = stream::iter(opened).buffered(CONCURRENT_REQUESTS).collect().await;
    println!("{sends} sends of {projects} projects; prepared after {:?}", began.elapsed());

    let mut run = Run { providers: &providers, apis: &apis, db: &db, sends, fed: 0, corrected: false };
    // An open circuit admits one call every ten seconds, which may fail, too.
    let within = Duration::from_secs(300 + sends / 100);
    let all = tokio::time::timeout(within, run.end()).await;
    assert!(all.is_ok(), "some messages had no outcome within {within:?}: {}", by_reason(&db).await);
    println!("all messages had an outcome after {:?}", began.elapsed());
    inspect::until_drained(&system, &db, Duration::from_secs(20)).await;
    balance(&providers, &apis, &db, sends).await;
}

/// Returns the number of messages per channel, status and reason.
async fn by_reason(db: &Client) -> String {
    let sql = "SELECT coalesce(string_agg(concat_ws(' ', n, channel, status, reason), '\n'), 'nothing') FROM \
               (SELECT count(*) AS n, channel, status, left(status_reason, 60) AS reason FROM message GROUP BY 2, 3, 4) AS kinds";
    db.query_one(sql, &[]).await.expect("the ledger").get(0)
}

/// Creates a project with channels, an automation for each kind of message, and users with devices.
async fn open(system: &System, providers: &Providers, project: u64) -> Api {
    let api = system.new_project(&format!("Shop {project}")).await;
    api.put("/channels", &providers.channels(project)).await.expect(200);
    for (event, channel) in [ProviderKind::Smtp, ProviderKind::Sms, ProviderKind::Apns].map(ProviderKind::event) {
        let mut template = json!({ "name": event, "channel": channel, "body": TEXT });
        if channel != "SMS" {
            template["subject"] = json!(TEXT);
        }
        let template = api.create("/templates", &template).await;
        let steps = json!([{ "type": format!("SEND_{channel}"), "templateId": template }]);
        let automation = json!({ "name": event, "triggerType": "EVENT", "triggerEvent": event, "active": true,
                                 "reentry": "always", "steps": steps });
        api.create("/automations", &automation).await;
    }
    for n in 0..USERS_PER_PROVIDER {
        for provider in [ProviderKind::Apns, ProviderKind::Gateway, ProviderKind::ThirdParty] {
            let user = name(provider, n);
            let known = json!({ "email": format!("{user}@example.com"), "phone": format!("+4915112345{n}77") });
            api.track("/users/identify", &json!({ "user_id": user, "properties": known })).await.expect(202);
            let (platform, token) = match provider {
                ProviderKind::Apns => ("IOS", format!("aa{n:062x}")),
                ProviderKind::Gateway => ("ANDROID", format!("device-{n}")),
                _ => ("IOS", format!("00000000-0000-4000-8000-{n:012}")),
            };
            let device = json!({ "user_id": user, "platform": platform, "token": token });
            api.track("/push-tokens", &device).await.expect(202);
        }
    }
    // No wait for the devices is needed: later items of the same users are recorded after them.
    api
}

/// Returns a user whom this provider reaches. For mail and SMS, any user will do.
fn name(provider: ProviderKind, n: u64) -> String {
    let vendor = match provider {
        ProviderKind::Gateway => "android",
        ProviderKind::ThirdParty => "third",
        _ => "ios",
    };
    format!("{vendor}{n}")
}

struct Run<'a> {
    providers: &'a Providers,
    apis: &'a [Api],
    db: &'a Client,
    sends: u64,
    fed: u64,
    corrected: bool,
}

#[derive(Debug)]
struct Progress {
    settled: u64,
    /// Messages held because their channel is misconfigured.
    held: u64,
}

impl Run<'_> {
    /// Runs until everything has an outcome. Retries are made due early, because their delays take minutes.
    async fn end(&mut self) {
        let mut ticks = tokio::time::interval(TICK);
        loop {
            ticks.tick().await;
            let progress = self.progress().await;
            if progress.settled == self.sends {
                return;
            }
            inspect::make_retries_due(self.db).await;
            while self.fed < self.sends && self.fed - progress.settled - progress.held < WINDOW {
                self.feed().await;
            }
            if !self.corrected && progress.held == self.sends / 10 {
                println!("{} messages are held because of the wrong name", progress.held);
                self.providers.third.use_correct_certificate();
                // Saving the settings retries the held messages.
                let last = self.apis.len() - 1;
                let again = self.providers.channels(last as u64);
                self.apis[last].put("/channels", &again).await.expect(200);
                self.corrected = true;
            }
        }
    }

    async fn progress(&self) -> Progress {
        let sql = "SELECT count(*) FILTER (WHERE status <> 'queued'), \
                   count(*) FILTER (WHERE status = 'queued' AND status_reason LIKE 'channel_misconfigured%') FROM message";
        let row = self.db.query_one(sql, &[]).await.expect("the ledger");
        let [settled, held] = [0, 1].map(|column| row.get::<_, i64>(column).unsigned_abs());
        Progress { settled, held }
    }

    /// Sends the next chunk.
    async fn feed(&mut self) {
        let mut batches: BTreeMap<u64, Vec<Value>> = BTreeMap::new();
        for number in self.fed..self.sends.min(self.fed + CHUNK) {
            let send = PlannedSend::new(number, self.apis.len() as u64);
            let event = json!({ "type": "track", "event": send.provider.event().0, "user_id": name(send.provider, number / 100 % USERS_PER_PROVIDER),
                                "properties": { "n": number } });
            batches.entry(send.project).or_default().push(event);
        }
        let posts = batches.iter().flat_map(|(project, events)| {
            let api = &self.apis[*project as usize];
            events.chunks(100).map(move |part| async move {
                let response = api.track("/events/batch", &json!({ "batch": part })).await.expect(202);
                assert_eq!(response["errors"], 0, "{response}");
            })
        });
        join_all(posts).await;
        self.fed = self.sends.min(self.fed + CHUNK);
    }
}

/// Compares the ledger with what the providers received.
async fn balance(providers: &Providers, apis: &[Api], db: &Client, sends: u64) {
    let injected = providers.script.injected();
    for kind in KINDS.into_iter().filter(|kind| *kind != Kind::WrongName) {
        let of_kind = injected.iter().filter(|((k, _), _)| *k == kind);
        assert_eq!(of_kind.map(|(_, n)| n).sum::<u64>(), sends / 10, "{kind:?}: {injected:?}");
    }
    let copies = providers.copies();
    let sql = "SELECT (data #>> '{properties,n}')::bigint, count(*), min(status), min(status_reason), sum(ambiguous)::bigint \
               FROM message GROUP BY 1";
    let rows = db.query(sql, &[]).await.expect("the ledger");
    assert_eq!(rows.len() as u64, sends, "messages of the ledger");
    let (mut wrong, mut shown, mut repeats) = (Vec::new(), 0, 0);
    for row in rows {
        let (number, count, status): (i64, i64, String) = (row.get(0), row.get(1), row.get(2));
        let (reason, ambiguous): (Option<String>, i64) = (row.get(3), row.get(4));
        let send = PlannedSend::new(number.unsigned_abs(), apis.len() as u64);
        let acted = copies.get(&send.number).copied().unwrap_or_default();
        shown += ambiguous;
        repeats += i64::from(acted.saturating_sub(1));
        let right = (count, status.as_str(), ambiguous) == (1, "sent", i64::from(send.ambiguous()))
            && send.copies().contains(&acted);
        if !right {
            wrong.push(format!("{send:?}: {count} × {status} {reason:?}, {ambiguous} ambiguous, {acted} copies"));
        }
    }
    println!("  {shown} ambiguous calls in the ledger, {repeats} repeats at the providers; injected: {injected:?}");
    assert!(wrong.is_empty(), "{} sends do not match:\n{}", wrong.len(), wrong[..wrong.len().min(20)].join("\n"));
    let ambiguous_faults =
        injected.iter().filter(|((kind, provider), _)| kind.is_ambiguous() && *provider != ProviderKind::MailHttp);
    assert_eq!(shown.unsigned_abs(), ambiguous_faults.map(|(_, n)| n).sum::<u64>());
    assert!(repeats <= shown);
    shown_to_people(apis, db).await;
}

/// Checks that the API shows ambiguous calls.
async fn shown_to_people(apis: &[Api], db: &Client) {
    let sql = "SELECT id FROM message WHERE ambiguous = 1 AND channel = 'SMS' LIMIT 1";
    let id: uuid::Uuid = db.query_one(sql, &[]).await.expect("an ambiguous message").get(0);
    let mut found = 0;
    for api in apis {
        let answer = api.get(&format!("/messages/{id}")).await;
        if answer.status == 200 {
            found += 1;
            assert_eq!((&answer.json["ambiguousAttempts"], &answer.json["status"]), (&json!(1), &json!("sent")));
        }
    }
    assert_eq!(found, 1, "the message is visible to one project");
}
