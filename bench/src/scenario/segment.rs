//! Segments: counting the users that match rules, and the cost of tracking members while recording.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use kernel::clock::Clock;
use serde_json::{Value, json};

use super::drain::{CONNECTIONS, drained};
use crate::api::Api;
use crate::fill::{BIG, Shares};
use crate::load::{Kind, Sender, Shape};
use crate::measure::{self, Measured};
use crate::provision;
use crate::report::{Figure, Goal, Section};
use crate::scenario::Lab;
use crate::system::{AUTOMATION, GATEWAY, SCHEDULER, System};
use crate::tenants::{self, EVENT_NAMES, PROJECTS};

/// Requests per kind of rules.
const QUESTIONS: u32 = 15;

/// Measures estimates of how many users match rules, requested by one client.
pub async fn estimate(lab: &mut Lab, section: &mut Section) -> Result<()> {
    let (events, users) = lab.settings.filled;
    let project_users = Shares { projects: PROJECTS, total: users }.of(BIG);
    section.about = format!(
        "POST /segments/estimate, requested {QUESTIONS} times by one client; {events} events and {users} users, {project_users} of them in the queried project"
    );
    let progress = lab.progress.clone();
    let system = lab.filled(section).await?;
    system.run(&[GATEWAY]).await?;
    let mut api = Api::connect(system.gateway, BIG).await?;
    for (name, rules, at_most) in [
        ("two profile rules", of_profile as fn(u32) -> Value, 400.0),
        ("an event within 30 days", of_behaviour, 1_500.0),
    ] {
        progress.step(name);
        estimate_ms(&mut api, &rules(QUESTIONS)).await?;
        let mut times = Vec::new();
        for nth in 0..QUESTIONS {
            times.push(estimate_ms(&mut api, &rules(nth)).await?);
        }
        let slowest = times.iter().copied().fold(f64::NAN, f64::max);
        section.figures.extend([
            Figure::one(format!("{name}, p50"), "ms", crate::report::median(&times)).goal(Goal::AtMost(at_most)),
            Figure::one(format!("{name}, slowest"), "ms", slowest),
        ]);
    }
    system.run(&[]).await
}

/// Returns profile rules that match other users for each `nth`.
fn of_profile(nth: u32) -> Value {
    let plan = ["free", "pro", "team"][nth as usize % 3];
    json!([
        { "field": "plan", "operator": "eq", "value": plan },
        { "field": "age", "operator": "gt", "value": 20 + nth },
    ])
}

fn of_behaviour(nth: u32) -> Value {
    let field = format!("event:{}", tenants::event_name(nth % EVENT_NAMES));
    json!([{ "field": field, "operator": "did", "value": { "within": "30d" } }])
}

/// Returns the time of one estimate in milliseconds. A count of 0 is an error, because it would measure nothing.
async fn estimate_ms(api: &mut Api, rules: &Value) -> Result<f64> {
    let started = Instant::now();
    let answer = api.call("POST", "/segments/estimate", &json!({ "rules": rules }), b"200").await?;
    let took = started.elapsed().as_secs_f64() * 1e3;
    match answer["estimatedCount"].as_i64() {
        Some(found) if found > 0 => Ok(took),
        _ => bail!("{rules}: {answer}"),
    }
}

/// The project without tracked segments; the next one has them.
const WITHOUT: u32 = 20;
const WITH: u32 = 21;
const FOLLOWED_SEGMENTS: u32 = 100;
/// Users of each of the two projects.
const USERS_PER_PROJECT: u32 = 1_000;
/// Maximum time for the segments to be filled.
const FILLING: Duration = Duration::from_mins(2);

/// Measures recording a backlog of a project without segments and of one with a hundred tracked segments, in
/// alternation.
///
/// In both cases the scheduler runs, which evaluates the segments.
pub async fn ingest(lab: &mut Lab, section: &mut Section) -> Result<()> {
    let items: u32 = if lab.settings.quick { 10_000 } else { 50_000 };
    section.about = format!(
        "{items} items of one project with {USERS_PER_PROJECT} users, recorded by one worker while the scheduler runs: without segments, and with {FOLLOWED_SEGMENTS} tracked segments"
    );
    let (settings, progress) = (lab.settings, lab.progress.clone());
    ensure_users(lab).await?;
    let system = lab.system().await?;
    system.run(&[GATEWAY, AUTOMATION, SCHEDULER]).await?;
    progress.step("creating segments, and waiting until they are tracked");
    follow(system).await?;
    let shape = |first| Shape { first, projects: 1, users: USERS_PER_PROJECT, ..Shape::new(Kind::BatchOfMany) };
    let mut to_without = Sender::connect(system.gateway, shape(WITHOUT), CONNECTIONS).await?;
    let mut to_with = Sender::connect(system.gateway, shape(WITH), CONNECTIONS).await?;
    let (mut without, mut with): (Vec<Measured>, Vec<Measured>) = Default::default();
    for round in 1..=settings.rounds {
        progress.step(&format!("recording, round {round} of {}", settings.rounds));
        without.push(drained(system, &mut to_without, items).await?);
        with.push(drained(system, &mut to_with, items).await?);
        for noise in [&without, &with].into_iter().filter_map(|r| measure::noise(&r.last()?.used)) {
            progress.warn(&noise);
        }
    }
    assert_members_entered(system).await?;
    let rate = |rounds: &[Measured]| rounds.iter().map(|m| m.outcome.items_per_second()).collect::<Vec<_>>();
    section.figures.push(
        Figure::new(format!("recorded with {FOLLOWED_SEGMENTS} tracked segments"), "items/s", rate(&with))
            .against("without", &rate(&without))
            .goal(Goal::RatioAtLeast(0.7)),
    );
    section.costs.push(measure::cost("without segments", "event", &without, |o| o.items));
    section.costs.push(measure::cost("with tracked segments", "event", &with, |o| o.items));
    // The segments would slow down later scenarios.
    lab.close().await
}

/// Creates more users than projects usually have in a benchmark.
async fn ensure_users(lab: &mut Lab) -> Result<()> {
    lab.system().await?;
    let there = [WITHOUT, WITH].map(|number| (number, lab.known[number as usize]));
    let (system, now) = (lab.system().await?, Clock::system().now());
    for (number, known) in there.into_iter().filter(|(_, known)| *known < USERS_PER_PROJECT) {
        let next = number + 1;
        provision::users(&system.database, number..next, known..USERS_PER_PROJECT, now).await?;
    }
    provision::searchable(system.database_url()).await?;
    for (number, known) in there {
        lab.known[number as usize] = known.max(USERS_PER_PROJECT);
    }
    Ok(())
}

/// Creates the segments, half of them by behaviour and half by profile.
///
/// Automations start when a user leaves a segment. No user leaves during the measurement, so both projects record the
/// same items.
async fn follow(system: &System) -> Result<()> {
    let mut api = Api::connect(system.gateway, WITH).await?;
    for number in 0..FOLLOWED_SEGMENTS {
        let rule = if number % 2 == 0 {
            let field = format!("event:{}", tenants::event_name(number / 2 % EVENT_NAMES));
            json!({ "field": field, "operator": "did", "value": { "count": { "gte": 2 }, "within": "7d" } })
        } else {
            json!({ "field": "visits", "operator": "gte", "value": -f64::from(number) })
        };
        let segment = json!({ "name": format!("Segment {number}"), "rules": [rule] });
        let segment = api.create("/segments", &segment).await?;
        let automation = json!({
            "name": format!("Left {number}"), "triggerType": "SEGMENT_EXIT", "triggerSegmentId": segment, "active": true,
            "steps": [{ "type": "WAIT", "delay": 86_400 }],
        });
        api.create("/automations", &automation).await?;
    }
    let sql = "SELECT count(*) AS kept FROM segment_follow WHERE project_id = $1 AND filled AND error IS NULL";
    let deadline = Instant::now() + FILLING;
    loop {
        let kept: i64 = system.database.query_one(sql, &[&tenants::project(WITH)]).await?.try_get("kept")?;
        if kept == i64::from(FOLLOWED_SEGMENTS) {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!("only {kept} of {FOLLOWED_SEGMENTS} segments are tracked");
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Checks that the scheduler evaluated the segments.
async fn assert_members_entered(system: &System) -> Result<()> {
    let sql = "SELECT count(*) AS members FROM segment_membership WHERE project_id = $1 AND since IS NOT NULL";
    let row = system.database.query_one(sql, &[&tenants::project(WITH)]).await.context("counting members")?;
    anyhow::ensure!(row.try_get::<_, i64>("members")? > 0, "no user entered a segment");
    Ok(())
}
