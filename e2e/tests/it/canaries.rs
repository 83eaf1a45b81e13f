//! Plants canary secrets and personal data, and searches all telemetry of the programs for them. No telemetry contains
//! personal data or a credential.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

pub mod world;

use std::time::Duration;

use e2e::system::MASTER_KEY;
use e2e::{Options, Program, System, inspect};
use reqwest::Method;
use serde_json::{Value, json};
use testkit::{ApnsService, OtlpReceiver, ProviderServer, SmsService, eventually, scan};

use crate::shop::Shop;
use crate::traces::tracing_options;
use world::{Hook, Session};

const SOON: Duration = Duration::from_secs(20);
const PHONE: &str = "4915112345671";
/// A device token in Apple's format.
const DEVICE: &str = "aac0ffee5ca1ab1e0ddba11c0ffee5ca1ab1e0ddba11c0ffee5ca1ab1e0ddba1";
const SENDER: &str = "+15005550006";

/// Values that must appear where they belong, and never in telemetry.
const PERSONAL: [&str; 9] = [
    "canary-mail",
    "canary-name",
    PHONE,
    DEVICE,
    "canary-device",
    "canary-property",
    "canary-text",
    "canary-user",
    "canary-colleague",
];
/// Secrets whose text the test can choose.
const CHOSEN: [&str; 4] = ["canary-password", "canary-key", "canary-sms-token", "canary-login"];

/// Returns the lines that contain the value in any encoding.
fn lines_with<'a>(text: &'a str, value: &str) -> Vec<&'a str> {
    let forms = scan::forms(value);
    text.lines().filter(|line| forms.iter().any(|form| line.contains(form))).collect()
}

/// Returns the password in a server's URL.
fn password(url: &str) -> String {
    let (_, rest) = url.split_once("://").unwrap();
    let (login, _) = rest.rsplit_once('@').unwrap();
    login.split_once(':').unwrap().1.to_owned()
}

#[test]
fn values_are_found_in_every_encoding() {
    for text in ["a key b", "x6b6579", "[1, 107, 101, 121]"] {
        assert_eq!(lines_with(&format!("other\n{text}\n"), "key"), [text]);
    }
    assert!(lines_with("KEY\nk e y", "key").is_empty());
    assert_eq!(password("redis://:secret@127.0.0.1:1/0"), "secret");
    assert_eq!(password("postgres://user:secret@127.0.0.1:1/db"), "secret");
}

/// Exercises all features, many of them with failures, because failures produce the most telemetry.
async fn use_all_features(system: &System, shop: &Shop<'_>) {
    let api = &system.api;
    let items = |user: &str, mail: &str| {
        json!({ "batch": [
            { "type": "identify", "user_id": user, "properties": {
                "email": mail, "name": "canary-name", "phone": format!("+{PHONE}"), "note": "canary-property" } },
            { "type": "track", "event": "signed_up", "user_id": user, "properties": { "note": "canary-property" } },
            { "type": "track", "event": "checkout_started", "user_id": user, "properties": { "cartId": "canary-property" } },
        ] })
    };
    api.track("/events/batch", &items("canary-user", "canary-mail@example.com")).await.expect(202);
    // An invalid address, and a name that would break a header.
    api.track("/events/batch", &items("canary-user-2", "canary-mail at example.com")).await.expect(202);
    for token in ["mailbox:canary-device", DEVICE] {
        let device = json!({ "userId": "canary-user", "platform": "IOS", "token": token });
        api.post("/push-tokens", &device).await.expect(202);
    }
    api.until("/users/canary-user", SOON, |user| user["email"].is_string()).await;
    for (channel, body) in
        [("EMAIL", "<p>canary-text</p>"), ("PUSH", "canary-text"), ("SMS", "canary-text"), ("EMAIL", "{{ canary-text")]
    {
        let message = json!({ "userId": "canary-user", "channel": channel, "subject": "canary-text", "body": body });
        api.post("/messages", &message).await;
    }
    api.get("/users?search=canary-mail").await;
    let wrong_key = format!("sk_live_canary-key{}", "x".repeat(20));
    let rejected = api.call(Method::GET, "/users/canary-user", &wrong_key, None).await.unwrap();
    assert_eq!(rejected.status, 401);
    api.track(
        "/events",
        &json!({ "event": "canary-property", "user_id": "canary-user", "timestamp": "canary-property" }),
    )
    .await;
    let mails = shop.mails("canary-mail@example.com", 3, SOON).await;
    assert!(mails.iter().any(|mail| mail.text().contains("canary-name")), "the mail does not contain the name");
}

/// Replaces credentials that have been used with ones that the providers reject.
async fn replace_credentials(system: &System) {
    let api = &system.api;
    api.put("/channels", &json!({ "smtpPassword": "canary-password-2", "smsAuthToken": "canary-sms-token-2" }))
        .await
        .expect(200);
    for (channel, body) in [("EMAIL", "<p>canary-text</p>"), ("SMS", "canary-text")] {
        let message = json!({ "userId": "canary-user", "channel": channel, "subject": "Hi", "body": body });
        api.post("/messages", &message).await.expect(202);
    }
    let shown = |channels: &Value| channels["email"]["error"].is_string() && channels["sms"]["error"].is_string();
    api.until("/channels", SOON, shown).await;
}

async fn metrics(programs: [&Program; 4]) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for program in programs {
        all.push((format!("the metrics of {}", program.name()), program.metrics().await));
    }
    all
}

fn logs(programs: [&Program; 4]) -> Vec<(String, String)> {
    let log = |program: &Program| std::fs::read_to_string(program.log()).unwrap();
    programs.map(|program| (format!("the log of {}", program.name()), log(program))).into()
}

/// Returns a log filter: debug for the programs and the crates in `shared`.
fn debug_filter() -> String {
    let shared = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared")).unwrap();
    let shared = shared.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let programs = ["gateway", "worker-automation", "worker-delivery", "scheduler"].map(str::to_owned);
    let levels: Vec<String> =
        programs.into_iter().chain(shared).map(|name| format!("{}=debug", name.replace('-', "_"))).collect();
    assert!(levels.len() > 20, "{levels:?}");
    format!("info,{}", levels.join(","))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn telemetry_has_no_personal_data_and_database_has_no_secrets() {
    let receiver = ProviderServer::start(OtlpReceiver::default()).await;
    let sms = ProviderServer::start(SmsService::new("AC1", "canary-sms-token", SENDER)).await;
    let apns = ProviderServer::start(ApnsService::new("ABC123DEFG", "DEF123GHIJ", "com.example.shop")).await;
    let hook = ProviderServer::start(Hook).await;
    let own = debug_filter();
    let options = tracing_options(&receiver, "always_on").env("LOG_FORMAT", "json").env("RUST_LOG", &own);
    let options = options.env("SMS_BASE_URL", sms.url()).env("APNS_BASE_URL", apns.url());
    let system = System::start_with(Options { mail_login: Some(("shop", "canary-password")), ..options }).await;
    let (api, apple) = (&system.api, apns.vendor());
    let channels = json!({
        "smsAccountId": "AC1", "smsAuthToken": "canary-sms-token", "smsFromNumber": SENDER, "iosPushKeyId": apple.key_id,
        "iosPushTeamId": apple.team_id, "iosPushBundleId": apple.topic, "iosPushPrivateKey": apple.key_file,
    });
    api.put("/channels", &channels).await.expect(200);
    let session = Session::start(&system, "canary-colleague@example.com", "canary-login").await;
    let endpoint =
        json!({ "url": format!("{}/canary-property", hook.url()), "events": ["*"], "description": "canary-text" });
    let endpoint = session.call(Method::POST, "/webhook-endpoints", &endpoint).await.expect(201);
    let invite = session.call(Method::POST, "/team/invites", &json!({ "email": "canary-mail-2@example.com" })).await;
    invite.expect(201);
    let shown = session.call(Method::GET, &format!("/projects/{}", system.project), &Value::Null).await.expect(200);
    session.check_rejected().await;

    let shop = Shop::open(&system, 1).await;
    use_all_features(&system, &shop).await;
    // Each credential must have worked once.
    let mailed = shop.mails("canary-mail-2@example.com", 1, SOON).await;
    let text = mailed[0].text().replace("=\r\n", "").replace("=3D", "=");
    let (_, link) = text.split_once("/accept-invite?token=").expect("an invitation link in the mail");
    let token: String = link.chars().take_while(char::is_ascii_hexdigit).collect();
    let used = async || {
        let (texts, pushes, calls) = (sms.vendor().accepted(), apple.accepted(), hook.received());
        let is_complete = !texts.is_empty() && !pushes.is_empty() && !calls.is_empty();
        if is_complete { Ok((texts, pushes, calls)) } else { Err(format!("{texts:?} {pushes:?} {calls:?}")) }
    };
    let (texts, pushes, calls) = eventually(SOON, used).await;
    assert_eq!((texts[0]["To"].as_str(), pushes[0]["token"].as_str()), (&*format!("+{PHONE}"), Some(DEVICE)));
    assert!(calls[0].header("webhook-signature").starts_with("v1,"));
    replace_credentials(&system).await;
    let joined = json!({ "token": token, "name": "canary-name", "password": "canary-login-2" });
    session.call(Method::POST, "/auth/invites/accept", &joined).await.expect(200);
    let again = session.call(Method::POST, "/auth/invites/accept", &joined).await;
    assert_eq!(again.status, 409);
    let probe = async || {
        let calls = receiver.vendor().all().iter().filter(|span| span.name == "call provider").count();
        if calls >= 6 { Ok(()) } else { Err(format!("{calls} calls")) }
    };
    eventually(SOON, probe).await;
    let dump = scan::dump(&inspect::database(&system).await).await;

    // Connection errors are logged, too, by programs whose server URL contains the password.
    let programs = [&system.gateway, &system.automation, &system.delivery, &system.scheduler];
    let mut telemetry = metrics(programs).await;
    system.redis.kill().await;
    system.postgres.kill().await;
    let outages_are_logged = async || {
        let _ = api.get("/templates").await;
        let _ = api.track("/events", &json!({ "event": "canary-property", "user_id": "canary-user" })).await;
        let log = std::fs::read_to_string(system.gateway.log()).unwrap();
        if log.contains("Redis is unavailable") && log.contains("database unavailable") { Ok(()) } else { Err(log) }
    };
    eventually(SOON, outages_are_logged).await;
    telemetry.extend(metrics(programs).await);
    telemetry.extend(logs(programs));
    telemetry.push(("traces".to_owned(), receiver.vendor().text()));

    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let apple_key = apple.key_file.lines().nth(1).unwrap();
    let mut secrets: Vec<(&str, String)> = CHOSEN.iter().map(|secret| (*secret, (*secret).to_owned())).collect();
    secrets.extend([
        // Key prefixes are shown to identify the keys, so only the rest is secret.
        ("the secret key that was used", api.secret_key[16..].to_owned()),
        ("the session", session.cookie.split_once('=').unwrap().1.to_owned()),
        ("the session's token", session.csrf_token.clone()),
        ("the invitation", token),
        ("the master key", MASTER_KEY.to_owned()),
        ("the endpoint's secret", text(&endpoint["secret"]).trim_start_matches("whsec_").to_owned()),
        ("the signing secret", text(&shown["signingSecret"]).trim_start_matches("whsec_").to_owned()),
        ("the identity secret", text(&shown["identitySecret"])),
        ("the webhook secret", text(&shown["webhookSecret"])),
        ("Apple's key", apple_key[60..120].to_owned()),
        ("the database's password", password(&system.database_url)),
        ("Redis' password", password(&system.redis.url())),
        ("the broker's password", password(&system.nats.url())),
    ]);
    let mut canaries: Vec<(&str, &str)> = PERSONAL.iter().map(|value| (*value, *value)).collect();
    canaries.extend(secrets.iter().map(|(what, value)| (*what, &**value)));
    // Not a secret, because every page of a site contains it, but telemetry does not need it.
    canaries.push(("the public key that was used", &api.public_key[16..]));
    assert!(
        canaries.iter().all(|(_, value)| value.len() >= 10),
        "values this short could match by chance: {canaries:?}"
    );
    for (place, text) in &telemetry {
        // Control: a text that must be there is found with the same search.
        let control = match place {
            place if place.starts_with("the log") => receiver.url(),
            place if place.starts_with("the metrics") => "rekindle_".to_owned(),
            _ => "call provider".to_owned(),
        };
        assert!(!lines_with(text, &control).is_empty(), "{control} is not in {place}: {text}");
        for (what, value) in &canaries {
            let found = lines_with(text, value);
            assert!(found.is_empty(), "{what} in {place}: {found:#?}");
        }
    }
    for (place, log) in telemetry.iter().filter(|(place, _)| place.starts_with("the log")) {
        let lines: Vec<Value> =
            log.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect();
        assert!(lines.iter().any(|line| line["level"] == "INFO" && line["message"].is_string()), "{place}: {log}");
    }
    // The database dump contains the personal data, but no secret.
    for value in ["canary-mail@example.com", "canary-property", PHONE, DEVICE] {
        assert!(!lines_with(&dump, value).is_empty(), "the database does not contain {value}");
    }
    for (what, secret) in &secrets {
        let found = lines_with(&dump, secret);
        assert!(found.is_empty(), "{what} in the database: {found:#?}");
    }
}
