//! A campaign to a large audience: enqueueing in chunks, sending, and the time until the provider has the first
//! message.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use domain::message::Channel;
use domain::push_token::Platform;
use kernel::clock::Clock;
use serde_json::json;

use super::deliver::{device, ledger};
use crate::api::Api;
use crate::child::Server;
use crate::fill::{BIG, Shares};
use crate::load::{GENERATOR, Outcome};
use crate::measure::{self, Measured};
use crate::provision::delivery;
use crate::report::{Figure, Goal, Section};
use crate::scenario::Lab;
use crate::sink::{self, Kind, arrivals};
use crate::system::{DELIVERY, GATEWAY, SCHEDULER, System};
use crate::tenants::{self, PROJECTS};
use crate::usage::{self, Moment};

/// Maximum duration of one stage.
const PATIENCE: Duration = Duration::from_mins(3);
const OUTBOUND_ALLOW: &str = "OUTBOUND_ALLOW";
const MAIL_BASE_URL: &str = "MAIL_BASE_URL";
const APNS_BASE_URL: &str = "APNS_BASE_URL";
/// Maximum MiB of the scheduler, for any audience size.
const MEMORY: f64 = 128.0;

pub async fn run(lab: &mut Lab, section: &mut Section) -> Result<()> {
    let (_, users) = lab.settings.filled;
    let project_users = Shares { projects: PROJECTS, total: users }.of(BIG);
    section.about = format!(
        "a campaign to all users with an address, of the {project_users} users of one project ({users} in total): enqueued by one scheduler \
         without a worker; sent as pushes through the JSON API, from `send` until completed; and started as mails with a worker"
    );
    let (rounds, progress) = (lab.settings.rounds, lab.progress.clone());
    let system = lab.filled(section).await?;
    system.run(&[]).await?;
    system.set_env(OUTBOUND_ALLOW, "127.0.0.0/8".to_owned());
    delivery::channel(system, BIG, Channel::Email, &delivery::mail_service()).await?;
    let template = delivery::template(system, 1, Channel::Email, "Sale", "<p>For {{ name }}</p>").await?.to_string();

    progress.step("enqueueing the audience");
    system.run(&[GATEWAY, SCHEDULER]).await?;
    let campaign = make(system, "EMAIL", &template).await?;
    let enqueued = enqueue_audience(system, &campaign).await?;
    let cost = measure::cost("enqueueing the audience", "recipient", std::slice::from_ref(&enqueued), |o| o.items);
    clear(system).await?;
    progress.step("sending the campaign");
    let sent = push_to_all(system, u32::try_from(project_users)?).await?;
    let sent_cost = measure::cost("sending the campaign", "recipient", std::slice::from_ref(&sent), |o| o.items);
    let peak = |cost: &crate::report::Cost| cost.memory_of(SCHEDULER).unwrap_or(f64::NAN);
    section.figures.extend([
        Figure::one("recipients", "users", enqueued.outcome.items as f64),
        Figure::one("enqueued", "recipients/s", enqueued.outcome.items_per_second()).goal(Goal::AtLeast(100_000.0)),
        Figure::one("from `send` until all pushes are sent", "recipients/s", sent.outcome.items_per_second())
            .goal(Goal::AtLeast(15_000.0)),
        Figure::one("peak memory of the scheduler", "MiB", peak(&cost).max(peak(&sent_cost)))
            .goal(Goal::AtMost(MEMORY)),
    ]);
    section.costs.extend([cost, sent_cost]);
    clear(system).await?;

    let mut first = Vec::new();
    for round in 1..=rounds {
        progress.step(&format!("the first message, round {round} of {rounds}"));
        first.push(first_message(system, &template).await?);
        clear(system).await?;
    }
    for name in [OUTBOUND_ALLOW, MAIL_BASE_URL, APNS_BASE_URL] {
        system.remove_env(name);
    }
    let first = Figure::new("from `send` to the first message at the provider", "s", first).goal(Goal::AtMost(2.0));
    section.figures.push(first);
    Ok(())
}

/// Sends a push to the whole audience. Each user has one device.
async fn push_to_all(system: &mut System, project_users: u32) -> Result<Measured> {
    let sink = sink::start(Kind::Http, None).await?;
    delivery::channel(system, BIG, Channel::Push, &delivery::apns()?).await?;
    delivery::devices(system, BIG..BIG + 1, project_users, Platform::Ios, |n| Ok(device(n))).await?;
    let template = delivery::template(system, 1, Channel::Push, "Sale", "For {{ name }}").await?.to_string();
    system.run(&[]).await?;
    system.set_env(APNS_BASE_URL, format!("http://{}", sink.addr));
    system.run(&[GATEWAY, SCHEDULER, DELIVERY]).await?;
    let campaign = make(system, "PUSH", &template).await?;
    send_all(system, &sink, &campaign).await
}

/// Creates a campaign for a segment of its own and returns the campaign's ID.
async fn make(system: &System, channel: &str, template: &str) -> Result<String> {
    let mut api = Api::connect(system.gateway, BIG).await?;
    let rules = json!([{ "field": "email", "operator": "exists" }]);
    let segment = api.create("/segments", &json!({ "name": "With an address", "rules": rules })).await?;
    let campaign = json!({ "name": "Sale", "channel": channel, "segmentId": segment, "templateId": template });
    api.create("/campaigns", &campaign).await
}

async fn send(system: &System, campaign: &str) -> Result<()> {
    let mut api = Api::connect(system.gateway, BIG).await?;
    api.call("POST", &format!("/campaigns/{campaign}/send"), &json!({}), b"200").await?;
    Ok(())
}

struct State {
    status: String,
    taken: bool,
    recipients: i64,
}

async fn state(system: &System, campaign: &str) -> Result<State> {
    let sql =
        "SELECT status, taken, recipients, status_reason FROM campaign WHERE project_id = $1 AND id = $2::text::uuid";
    let row = system.database.query_one(sql, &[&tenants::project(BIG), &campaign]).await?;
    let state =
        State { status: row.try_get("status")?, taken: row.try_get("taken")?, recipients: row.try_get("recipients")? };
    if state.status == "PAUSED" || state.status == "FAILED" {
        bail!(
            "the campaign is {}: {}",
            state.status,
            row.try_get::<_, Option<&str>>("status_reason")?.unwrap_or_default()
        );
    }
    Ok(state)
}

/// Measures from `send` until the whole audience is queued.
async fn enqueue_audience(system: &System, campaign: &str) -> Result<Measured> {
    let watched = system.watched();
    usage::reset_peaks(&watched);
    let before = Moment::now(&watched, GENERATOR)?;
    let started = Instant::now();
    send(system, campaign).await?;
    let recipients = loop {
        let state = state(system, campaign).await?;
        if state.taken {
            break state.recipients;
        }
        if started.elapsed() > PATIENCE {
            bail!("only {} recipients were enqueued within {} s", state.recipients, PATIENCE.as_secs());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let outcome = Outcome::of_items(u64::try_from(recipients)?, started.elapsed().as_secs_f64());
    let used = Moment::now(&watched, GENERATOR)?.since(&before);
    Ok(Measured { outcome, used, memory: usage::memory(&watched) })
}

/// Measures from `send` until every recipient has been sent to and the campaign has ended.
async fn send_all(system: &System, sink: &Server, campaign: &str) -> Result<Measured> {
    let mut watched = system.watched();
    watched.extend(sink.watched());
    usage::reset_peaks(&watched);
    let before = Moment::now(&watched, GENERATOR)?;
    let started = Instant::now();
    send(system, campaign).await?;
    let recipients = loop {
        let state = state(system, campaign).await?;
        if state.status == "COMPLETED" {
            break state.recipients;
        }
        if started.elapsed() > PATIENCE {
            bail!("not all of {} recipients were sent to within {} s", state.recipients, PATIENCE.as_secs());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let seconds = started.elapsed().as_secs_f64();
    let used = Moment::now(&watched, GENERATOR)?.since(&before);
    ledger::all_sent(system).await?;
    let outcome = Outcome::of_items(u64::try_from(recipients)?, seconds);
    Ok(Measured { outcome, used, memory: usage::memory(&watched) })
}

/// Returns the seconds from the request to the first call of the provider.
async fn first_message(system: &mut System, template: &str) -> Result<f64> {
    let sink = sink::start(Kind::Http, None).await?;
    system.run(&[]).await?;
    system.set_env(MAIL_BASE_URL, format!("http://{}", sink.addr));
    system.run(&[GATEWAY, SCHEDULER, DELIVERY]).await?;
    let campaign = make(system, "EMAIL", template).await?;
    let (asked_ms, started) = (Clock::system().now_ms(), Instant::now());
    send(system, &campaign).await?;
    loop {
        let seen = arrivals(sink.addr).await.context("querying the sink")?;
        if seen.first_ms > 0 {
            return Ok((seen.first_ms - asked_ms) as f64 / 1e3);
        }
        if started.elapsed() > PATIENCE {
            state(system, &campaign).await?;
            bail!("no message reached the provider within {} s", PATIENCE.as_secs());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Removes unfinished work, so that the next campaign starts with an empty queue.
async fn clear(system: &mut System) -> Result<()> {
    system.run(&[]).await?;
    let end = "UPDATE campaign SET status = 'CANCELLED', look_at = NULL, under_way = false WHERE status <> 'COMPLETED'";
    system.database.execute(end, &[]).await?;
    system.delete_messages().await
}
