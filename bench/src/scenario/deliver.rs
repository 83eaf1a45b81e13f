//! Delivery to providers on loopback: the calls alone, alternating with a bare client, and the whole path from the
//! ledger.

mod hanging;
mod held;
mod latency;
pub mod ledger;
mod projects;
mod queue;
mod render;
mod year;

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use domain::message::Channel;
use domain::push_token::Platform;
use http_client::{BaseUrl, HttpClient};
use kernel::clock::Clock;
use kernel::env::Env;
use kernel::ids;
use providers::push::Push;
use providers::{Email, Outcome, apns, smtp, web_push};
use secrets::vapid::VapidKeys;
use serde_json::json;
use uuid::Uuid;

use crate::alone::{self, CALLER};
use crate::ceiling::call::BareClient;
use crate::ceiling::mail::BareMailer;
use crate::child::Server;
use crate::measure::{self, Measured};
use crate::provision::delivery::{self, DEVICE};
use crate::report::{Figure, Goal, Section};
use crate::scenario::Lab;
use crate::sink::{self, Kind};
use crate::system::{self, DELIVERY};
use ledger::Ledger;
use progress::Steps;

pub use hanging::hanging;
pub use held::held;
pub use latency::latency;
pub use projects::projects;
pub use queue::queue;
pub use render::render;
pub use year::year;

/// Concurrent calls when the calls alone are measured.
const AT_ONCE: usize = 32;
/// SMTP sessions.
const SESSIONS: usize = 10;
/// Maximum time for messages to be settled.
const PATIENCE: Duration = Duration::from_mins(3);
const LOOPBACK: (&str, &str) = ("OUTBOUND_ALLOW", "127.0.0.0/8");

/// Measures JSON over HTTP/2 without TLS, through the APNs client, which always uses HTTP/2.
pub async fn api(lab: &mut Lab, section: &mut Section) -> Result<()> {
    section.about = format!(
        "pushes through the JSON API of APNs over HTTP/2 without TLS, {AT_ONCE} concurrent; the calls alone, on one thread, then from the ledger"
    );
    let sink = sink::start(Kind::Http, None).await?;
    let to = sink.addr;
    let body = json!({ "aps": { "alert": { "title": TITLE, "body": TEXT }, "sound": "default", "mutable-content": 1 },
                       "messageId": Uuid::max() });
    let body = Bytes::from(body.to_string());
    let (mut product, mut bare): (Vec<Measured>, Vec<Measured>) = Default::default();
    for round in 1..=lab.settings.rounds {
        lab.progress.step(&format!("calls, round {round} of {}", lab.settings.rounds));
        let (watched, time, body) = (sink.watched(), lab.settings.round / 2, body.clone());
        product.push(alone::calls(&watched, AT_ONCE, time, async move || api_calls(to)).await?);
        let bare_calls = async move || {
            let client = BareClient::connect(to, &format!("/3/device/{DEVICE}"), body).await?;
            anyhow::Ok(async move |_: u64| client.call().await)
        };
        bare.push(alone::calls(&watched, AT_ONCE, time, bare_calls).await?);
        warn_of_noise(&lab.progress, &[&product, &bare]);
    }
    calls_alone(
        section,
        "send",
        &product,
        Some(("bare hyper client", &bare[..])),
        &[Goal::RatioAtLeast(0.6), Goal::AtLeast(35_000.0)],
    );
    let ledger = pushes(to);
    ledger.open(lab, &delivery::apns()?).await?;
    let system = lab.system().await?;
    delivery::devices(system, 0..1, ledger::USERS, Platform::Ios, |n| Ok(device(n))).await?;
    ledger.measure(lab, section, &sink).await
}

/// Returns the token of a user's device.
pub fn device(user: u32) -> String {
    format!("{user:08x}{}", &DEVICE[8..])
}

/// Returns the ledger load of APNs pushes to a sink.
fn pushes(sink: SocketAddr) -> Ledger {
    Ledger { channel: Channel::Push, env: vec![("APNS_BASE_URL", format!("http://{sink}"))] }
}

const TITLE: &str = "Your order is on its way";
const TEXT: &str = "Three items of your order left our store this morning, and should arrive by tomorrow noon.";

fn push(platform: Platform, token: String) -> Push {
    let id = ids::fresh(Clock::system().now_ms());
    Push { id, title: TITLE.to_owned(), body: TEXT.to_owned(), url: None, platform, token }
}

fn api_calls(to: SocketAddr) -> Result<impl AsyncFn(u64) -> Result<()> + use<>> {
    let base: BaseUrl = format!("http://{to}").parse().map_err(anyhow::Error::msg)?;
    let config = apns::ApnsConfig::from_settings(&delivery::apns()?, Some(&base)).context("settings are missing")?;
    let http = HttpClient::from_env(&Env::from_pairs([LOOPBACK]))?;
    let config = config.map_err(anyhow::Error::msg)?;
    let client = apns::Client::new(config, apns::Tokens::default(), &http, Clock::system());
    let push = push(Platform::Ios, DEVICE.to_owned());
    Ok(async move |_: u64| accepted(&client.send(&push).await))
}

/// Measures encrypted browser pushes over HTTP/2 with TLS.
pub async fn web_push(lab: &mut Lab, section: &mut Section) -> Result<()> {
    section.about = format!(
        "encrypted pushes to browsers over HTTP/2 with TLS, {AT_ONCE} concurrent; the calls alone, on one thread, then from the ledger"
    );
    let data_dir = system::data_dir(&lab.options.programs);
    std::fs::create_dir_all(&data_dir)?;
    let certificate = data_dir.join(format!("sink-{}.pem", std::process::id()));
    let outcome = to_browsers(lab, section, &certificate).await;
    // The file is missing if the sink did not start.
    let _ = std::fs::remove_file(&certificate);
    outcome
}

async fn to_browsers(lab: &mut Lab, section: &mut Section, certificate: &Path) -> Result<()> {
    let sink = sink::start(Kind::Https, Some(certificate)).await?;
    let (port, trusted) = (sink.addr.port(), certificate.display().to_string());
    let mut product = Vec::new();
    for round in 1..=lab.settings.rounds {
        lab.progress.step(&format!("calls, round {round} of {}", lab.settings.rounds));
        let trusted = trusted.clone();
        let calls = async move || web_push_calls(port, &trusted);
        product.push(alone::calls(&sink.watched(), AT_ONCE, lab.settings.round / 2, calls).await?);
        warn_of_noise(&lab.progress, &[&product]);
    }
    calls_alone(section, "send", &product, None, &[Goal::AtLeast(12_000.0)]);
    let ledger = Ledger { channel: Channel::Push, env: vec![("OUTBOUND_CA_FILE", trusted)] };
    ledger.open(lab, &delivery::settings(json!({}), &[])).await?;
    let system = lab.system().await?;
    delivery::browsers(system, 0).await?;
    let subscription = |user: u32| delivery::subscription(&format!("https://127.0.0.1:{port}/push/{user}"));
    delivery::devices(system, 0..1, ledger::USERS, Platform::Web, subscription).await?;
    ledger.measure(lab, section, &sink).await
}

fn web_push_calls(port: u16, trusted: &str) -> Result<impl AsyncFn(u64) -> Result<()> + use<>> {
    let http = HttpClient::from_env(&Env::from_pairs([LOOPBACK, ("OUTBOUND_CA_FILE", trusted)]))?;
    let config = web_push::WebPushConfig::new(&VapidKeys::generate()?, None).map_err(anyhow::Error::msg)?;
    let client = web_push::Client::new(config, http, Clock::system());
    let push = push(Platform::Web, delivery::subscription(&format!("https://127.0.0.1:{port}/push/1"))?);
    Ok(async move |_: u64| accepted(&client.send(&push).await))
}

/// Measures mail over a pool of sessions.
pub async fn smtp(lab: &mut Lab, section: &mut Section) -> Result<()> {
    section.about = format!(
        "mails with two parts of {} KB to a mail server; the sending alone, on one thread over a pool of {SESSIONS} sessions, then from the ledger",
        HTML_BYTES / 1024
    );
    let sink = sink::start(Kind::Smtp, None).await?;
    let to = sink.addr;
    let (mut product, mut bare): (Vec<Measured>, Vec<Measured>) = Default::default();
    for round in 1..=lab.settings.rounds {
        lab.progress.step(&format!("mails, round {round} of {}", lab.settings.rounds));
        let (watched, time) = (sink.watched(), lab.settings.round / 2);
        product.push(alone::calls(&watched, SESSIONS, time, async move || smtp_calls(to.port())).await?);
        let bare_mails = async move || {
            let (head, mail) = ("Subject: Hello\r\nContent-Type: text/html\r\n\r\n", html());
            // Send a text part and an HTML part, as the product does.
            let mailer = BareMailer::connect(to, SESSIONS, format!("{head}{mail}\r\n{mail}\r\n.\r\n").into()).await?;
            anyhow::Ok(async move |nth: u64| mailer.send(nth).await)
        };
        bare.push(alone::calls(&watched, SESSIONS, time, bare_mails).await?);
        warn_of_noise(&lab.progress, &[&product, &bare]);
    }
    section.figures.push(rate("mails by one thread", "mails/s", &product).goal(Goal::AtLeast(3_000.0)));
    calls_alone(section, "mail", &product, Some(("bare SMTP client", &bare[..])), &[]);
    let ledger = Ledger { channel: Channel::Email, env: Vec::new() };
    ledger.open(lab, &delivery::smtp(to.port())).await?;
    delivery::addresses(lab.system().await?, 0).await?;
    ledger.measure(lab, section, &sink).await
}

const HTML_BYTES: usize = 2_048;

fn html() -> String {
    let line = "<p>Three items of your order left our store this morning now.</p>\r\n";
    line.repeat(HTML_BYTES / line.len())
}

fn smtp_calls(port: u16) -> Result<impl AsyncFn(u64) -> Result<()> + use<>> {
    let http = HttpClient::from_env(&Env::from_pairs([LOOPBACK]))?;
    let config = smtp::SmtpConfig::from_settings(&delivery::smtp(port)).map_err(anyhow::Error::msg)?;
    let client = smtp::Client::new(config, &http);
    let now = Clock::system().now();
    let email = Email {
        id: ids::fresh(now.as_millisecond()),
        to: "Ann Example <ann@example.com>".parse()?,
        subject: "Hello".to_owned(),
        html: html(),
        text: html(),
        date: now,
        unsubscribe: None,
    };
    Ok(async move |_: u64| accepted(&client.send(&email).await))
}

fn accepted(outcome: &Outcome) -> Result<()> {
    match outcome {
        Outcome::Accepted(_) => Ok(()),
        other => bail!("{}: {}", other.name(), other.text()),
    }
}

fn rate(name: &str, unit: &'static str, rounds: &[Measured]) -> Figure {
    Figure::new(name, unit, rates(rounds))
}

fn rates(rounds: &[Measured]) -> Vec<f64> {
    rounds.iter().map(|m| m.outcome.items_per_second()).collect()
}

/// A worker that sends pushes of one project.
struct Pushing {
    sink: Server,
    ledger: Ledger,
    /// Template of its messages.
    template: Uuid,
}

/// Starts a worker that sends pushes of one project to a sink.
async fn pushing(lab: &mut Lab) -> Result<Pushing> {
    let sink = sink::start(Kind::Http, None).await?;
    let ledger = pushes(sink.addr);
    ledger.open(lab, &delivery::apns()?).await?;
    let system = lab.system().await?;
    delivery::devices(system, 0..1, ledger::USERS, Platform::Ios, |n| Ok(device(n))).await?;
    let template = ledger.template(system, 1).await?;
    system.run(&[DELIVERY]).await?;
    Ok(Pushing { sink, ledger, template })
}

/// Adds the figures of the calls alone: calls per full core of the calling process, compared with a bare client's.
fn calls_alone(
    section: &mut Section,
    per: &'static str,
    product: &[Measured],
    ceiling: Option<(&str, &[Measured])>,
    goals: &[Goal],
) {
    let per_core = |rounds: &[Measured]| rounds.iter().map(|m| m.per_core(CALLER)).collect::<Vec<f64>>();
    let mut figure = Figure::new("calls alone", "sends/s per core", per_core(product));
    section.costs.push(measure::cost("calls alone", per, product, |o| o.items));
    if let Some((name, rounds)) = ceiling {
        figure = figure.against(name, &per_core(rounds));
        section.costs.push(measure::cost(name, per, rounds, |o| o.items));
    }
    section.figures.push(goals.iter().fold(figure, |figure, goal| figure.goal(*goal)));
}

fn warn_of_noise(progress: &Steps, rounds: &[&Vec<Measured>]) {
    for noise in rounds.iter().filter_map(|r| measure::noise(&r.last()?.used)) {
        progress.warn(&noise);
    }
}
