//! Automations: matching events, starting runs, and resuming runs after a wait.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use automation::Definition;
use domain::message::Channel;
use kernel::clock::Clock;
use kernel::ids;
use kernel::metric_name::Metric;
use serde_json::{Value, json};
use store_sending::automations::{ActiveAutomation, FollowedAutomation};
use worker_automation::automations::matching::Index;

use super::drain::{CONNECTIONS, WARM_UP, drained};
use crate::alone;
use crate::load::{GENERATOR, Kind, Outcome, Sender, Shape};
use crate::measure::{self, Measured};
use crate::provision::{self, delivery};
use crate::report::{Figure, Goal, Section, median};
use crate::scenario::Lab;
use crate::system::{AUTOMATION, GATEWAY, SCHEDULER, System};
use crate::tenants::{self, EVENT_NAMES, PROJECTS};
use crate::usage::{self, Moment};

/// Active automations of the project whose events are matched.
const MATCHED: u32 = 500;
/// Projects whose waits end. The scheduler processes them together.
const WAITING: u32 = 10;
/// Maximum time for waits to be published, and to be resumed.
const PATIENCE: Duration = Duration::from_mins(2);

/// Measures the in-memory index: which automations an event starts, and whether runs may wait for it.
pub async fn matching(lab: &mut Lab, section: &mut Section) -> Result<()> {
    section.about = format!(
        "matching an event to the {MATCHED} active automations of its project, {} of which listen to its name; in memory, on one thread",
        MATCHED / EVENT_NAMES
    );
    let mut times = Vec::new();
    for round in 1..=lab.settings.rounds {
        lab.progress.step(&format!("matching, round {round} of {}", lab.settings.rounds));
        let (project, index) = (tenants::project(0), index()?);
        let names: Vec<String> = (0..EVENT_NAMES).map(tenants::event_name).collect();
        let iteration = move || {
            for name in &names {
                let found = index.started_by(project, Some(automation::TriggerType::Event), name);
                let listeners = index.listeners(project, name);
                if found.map(|startable| startable.version).sum::<i32>() != (MATCHED / EVENT_NAMES) as i32
                    || listeners.by_name
                {
                    bail!("{name} does not match the expected automations");
                }
            }
            Ok(u64::from(EVENT_NAMES))
        };
        times.push(1e6 / alone::repeated(lab.settings.round / 2, iteration).await?);
    }
    section.figures.push(Figure::new("matched", "µs/event", times).goal(Goal::AtMost(2.0)));
    Ok(())
}

fn index() -> Result<Index> {
    let (project, now) = (tenants::project(0), Clock::system().now_ms());
    let followed = |number: u32| {
        let definition = started_by(number % EVENT_NAMES, json!([{ "type": "WAIT", "delay": 86_400 }])).1;
        let definition = Definition::decode(definition).map_err(anyhow::Error::msg)?;
        let id = ids::timed_for(now, &[&number.to_be_bytes()]);
        let active = Some(ActiveAutomation { project, id, version: 1, definition });
        Ok(FollowedAutomation { project, id, active, listens_for: Vec::new() })
    };
    Ok(Index::default().with_changes(1, (0..MATCHED).map(followed).collect::<Result<_>>()?))
}

/// Returns trigger and definition of an automation that every event with this name starts.
fn started_by(name: u32, steps: Value) -> (String, Value) {
    let event = tenants::event_name(name);
    let definition = json!({ "triggerType": "EVENT", "triggerEvent": event, "reentry": "always", "steps": steps });
    (event, definition)
}

/// Creates, in each of the first `projects` projects, one automation per event name with the given steps.
async fn every_event_starts(lab: &mut Lab, projects: u32, steps: &Value) -> Result<()> {
    let system = lab.system().await?;
    let now = Clock::system().now();
    let of = |number| started_by(number, steps.clone());
    provision::automations_as(&system.database, projects, EVENT_NAMES, now, of).await?;
    // The next scenario creates its own automations.
    lab.active = (0, 0);
    Ok(())
}

/// Measures events that each start a run, which sends a message at once. Its ledger row is written in the same
/// transaction.
pub async fn runs(lab: &mut Lab, section: &mut Section) -> Result<()> {
    let items: u32 = if lab.settings.quick { 10_000 } else { 60_000 };
    section.about = format!(
        "{items} items in batches of 100 users are in the stream; each event starts a run that sends a message, in {PROJECTS} projects"
    );
    let (settings, progress) = (lab.settings, lab.progress.clone());
    let template = delivery::template(lab.system().await?, PROJECTS, Channel::Email, "Hello", "<p>Hello</p>").await?;
    every_event_starts(lab, PROJECTS, &json!([{ "type": "SEND_EMAIL", "templateId": template }])).await?;
    let system = lab.system().await?;
    system.run(&[GATEWAY, AUTOMATION]).await?;
    let mut sender = Sender::connect(system.gateway, Shape::new(Kind::BatchOfMany), CONNECTIONS).await?;
    let (mut rounds, mut shares): (Vec<Measured>, Vec<f64>) = Default::default();
    for round in 1..=settings.rounds {
        progress.step(&format!("runs, round {round} of {}", settings.rounds));
        delete_runs(system).await?;
        let before = system.metric(AUTOMATION, Metric::RunsStarted.name()).await?;
        rounds.push(drained(system, &mut sender, items).await?);
        let started = system.metric(AUTOMATION, Metric::RunsStarted.name()).await? - before;
        shares.push(started as f64 / f64::from(items + WARM_UP));
        if let Some(noise) = rounds.last().and_then(|m| measure::noise(&m.used)) {
            progress.warn(&noise);
        }
        all_have_messages(system, started).await?;
    }
    let rates = rounds.iter().zip(&shares).map(|(m, share)| m.outcome.items_per_second() * share).collect();
    let share = median(&shares);
    section.figures.extend([
        Figure::new("started, each with a message", "runs/s", rates).goal(Goal::AtLeast(20_000.0)),
        Figure::one("items that started a run", "%", share * 100.0),
    ]);
    section.costs.push(measure::cost("", "run", &rounds, |o| (o.items as f64 * share) as u64));
    delete_runs(system).await
}

async fn all_have_messages(system: &System, started: u64) -> Result<()> {
    let sql = "SELECT (SELECT count(*) FROM run) AS runs, (SELECT count(*) FROM message) AS messages";
    let row = system.database.query_one(sql, &[]).await?;
    let (runs, messages): (i64, i64) = (row.try_get("runs")?, row.try_get("messages")?);
    if (runs, messages) != (started as i64, started as i64) {
        bail!("{started} runs were started, but the database has {runs} runs and {messages} messages");
    }
    Ok(())
}

async fn delete_runs(system: &System) -> Result<()> {
    system.database.batch_execute("TRUNCATE run, timer").await?;
    system.delete_messages().await
}

/// Measures many waits that end at once: the scheduler publishes them while no worker runs, then a worker resumes the
/// runs.
pub async fn resume(lab: &mut Lab, section: &mut Section) -> Result<()> {
    let items: u32 = if lab.settings.quick { 5_000 } else { 30_000 };
    section.about = format!(
        "the waits of {items} runs in {WAITING} projects have ended: one scheduler publishes them, then one worker resumes the runs"
    );
    let (settings, progress) = (lab.settings, lab.progress.clone());
    every_event_starts(lab, WAITING, &json!([{ "type": "WAIT", "delay": 86_400 }])).await?;
    let system = lab.system().await?;
    system.run(&[GATEWAY, AUTOMATION]).await?;
    let shape = Shape { projects: WAITING, ..Shape::new(Kind::BatchOfMany) };
    let mut sender = Sender::connect(system.gateway, shape, CONNECTIONS).await?;
    let (mut fired, mut resumed) = (Vec::new(), Vec::new());
    for round in 1..=settings.rounds {
        progress.step(&format!("waits, round {round} of {}", settings.rounds));
        delete_runs(system).await?;
        system.run(&[GATEWAY, AUTOMATION]).await?;
        drained(system, &mut sender, items).await?;
        let row = system.database.query_one("SELECT count(*) AS timers FROM timer", &[]).await?;
        let timers = u64::try_from(row.try_get::<_, i64>("timers")?)?;
        if timers < u64::from(items) / 2 {
            bail!("only {timers} runs are waiting");
        }
        system.run(&[GATEWAY, SCHEDULER]).await?;
        fired.push(publish_timers(system, timers).await?);
        system.run(&[GATEWAY, AUTOMATION]).await?;
        resumed.push(resumptions(system, timers).await?);
        for noise in [&fired, &resumed].into_iter().filter_map(|r: &Vec<Measured>| measure::noise(&r.last()?.used)) {
            progress.warn(&noise);
        }
    }
    let rate = |rounds: &[Measured]| rounds.iter().map(|m| m.outcome.items_per_second()).collect::<Vec<_>>();
    let goal = Goal::AtLeast(10_000.0);
    section.figures.extend([
        Figure::new("published by one scheduler", "waits/s", rate(&fired)).goal(goal),
        Figure::new("resumed by one worker", "runs/s", rate(&resumed)).goal(goal),
    ]);
    section.costs.push(measure::cost("published", "wait", &fired, |o| o.items));
    section.costs.push(measure::cost("resumed", "run", &resumed, |o| o.items));
    system.purge().await?;
    delete_runs(system).await
}

/// Makes all waits due and measures the time until the broker has them.
async fn publish_timers(system: &System, timers: u64) -> Result<Measured> {
    let watched = system.watched();
    usage::reset_peaks(&watched);
    let fired = system.metric(SCHEDULER, Metric::TimersFired.name()).await?;
    // Spread the due times over a second.
    let due = "UPDATE timer SET due_at = now() - random() * interval '1 s'";
    system.database.execute(due, &[]).await?;
    let (started, first) = progressed(system, SCHEDULER, Metric::TimersFired.name(), fired).await?;
    let before = Moment::now(&watched, GENERATOR)?;
    let deadline = started + PATIENCE;
    while system.metric(SCHEDULER, Metric::TimersFired.name()).await? < fired + timers {
        if Instant::now() > deadline {
            bail!("not all of {timers} waits were published within {} s", PATIENCE.as_secs());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let seconds = started.elapsed().as_secs_f64();
    let used = Moment::now(&watched, GENERATOR)?.since(&before);
    let outcome = Outcome::of_items(timers - first, seconds);
    Ok(Measured { outcome, used, memory: usage::memory(&watched) })
}

/// Waits until a counter exceeds `from`. Returns when that was first seen, and by how much.
async fn progressed(system: &System, program: &str, name: &str, from: u64) -> Result<(Instant, u64)> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let now = system.metric(program, name).await?;
        if now > from {
            return Ok((Instant::now(), now - from));
        }
        if Instant::now() > deadline {
            bail!("{program} makes no progress");
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Measures from the first observed resumption to the last. The worker has only just started.
async fn resumptions(system: &System, timers: u64) -> Result<Measured> {
    let watched = system.watched();
    let (started, first) = progressed(system, AUTOMATION, Metric::IngestApplied.name(), 0).await?;
    let before = Moment::now(&watched, GENERATOR)?;
    measure::caught_up(system, timers).await?;
    let seconds = started.elapsed().as_secs_f64();
    let used = Moment::now(&watched, GENERATOR)?.since(&before);
    let sql = "SELECT count(*) AS remaining FROM run WHERE status <> 'completed'";
    let left: i64 = system.database.query_one(sql, &[]).await?.try_get("remaining")?;
    if left > 0 {
        bail!("{left} of {timers} runs were not resumed");
    }
    Ok(Measured { outcome: Outcome::of_items(timers - first, seconds), used, memory: usage::memory(&watched) })
}
