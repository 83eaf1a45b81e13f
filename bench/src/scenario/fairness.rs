//! Fairness: the effect on a project within its limit of another that sends ten times its own limit, and of slow
//! clients.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use domain::message::Channel;
use jiff::Timestamp;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::load::{Kind, Outcome, Pace, Sender, Shape};
use crate::provision::{self, delivery};
use crate::report::{Figure, Goal, Section};
use crate::scenario::Lab;
use crate::sink;
use crate::system::System;
use crate::tenants;

const NEIGHBOUR: u32 = 0;
/// Requests per second that a new project may send.
const LIMIT: i32 = 1_000;
const NOISY: Noisy = Noisy { project: 1, limit: LIMIT };
/// A project whose limit is low enough that a small machine can send its messages along with all others.
const NOISY_WITH_LESS: Noisy = Noisy { project: 2, limit: 250 };
/// The noisy project's load as a multiple of its limit.
const TIMES: f64 = 10.0;
/// The neighbour's requests per second.
const EVENTS: f64 = 200.0;
const MESSAGES: f64 = 50.0;
const NEIGHBOURS_CONNECTIONS: usize = 16;
const NOISY_CONNECTIONS: usize = 64;
const SLOW_CLIENTS: usize = 5_000;

#[derive(Clone, Copy)]
struct Noisy {
    project: u32,
    /// Requests per second that the project may send.
    limit: i32,
}

/// The load of others meanwhile.
#[derive(Clone, Copy)]
enum Noise {
    /// The project sends requests of this kind over its limit.
    OverItsLimit(Noisy, Kind),
    SlowClients,
}

/// Measured in alternation.
const NOISES: [(Noise, &str); 4] = [
    (Noise::OverItsLimit(NOISY, Kind::Single), "events"),
    (Noise::OverItsLimit(NOISY_WITH_LESS, Kind::Message), "messages at a limit of 250"),
    (Noise::OverItsLimit(NOISY, Kind::Message), "messages"),
    (Noise::SlowClients, "slow clients"),
];
/// Maximum factor by which the neighbour's waits may grow next to a noisy project.
const MAX_RATIO: f64 = 2.0;
/// Tolerance above the limit, for tokens that the bucket refills between two checks.
const SLACK: f64 = 1.05;
/// Maximum time for messages to be sent.
const PATIENCE: Duration = Duration::from_mins(1);
/// Poll interval for sent messages. Polling itself costs CPU.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Upper bound on the clock difference between gateway and database. The actual difference is far smaller.
const SKEW: Duration = Duration::from_millis(100);
/// The lowest scheduling priority.
const LOWEST_PRIORITY: i32 = 19;
const OUTBOUND_ALLOW: &str = "OUTBOUND_ALLOW";

/// The neighbour's wait times in milliseconds.
struct Waited {
    /// p99 of an event's acknowledgement.
    event: f64,
    /// p99 from a message's acceptance until its provider has it, from the ledger's timestamps.
    message: f64,
}

/// Measures the neighbour alone and with each noise, in alternation.
pub async fn run(lab: &mut Lab, section: &mut Section) -> Result<()> {
    section.about = format!(
        "a project that sends {EVENTS} single events/s and {MESSAGES} mails/s, alternately alone and with a project that sends {TIMES} × its limit of {LIMIT} requests/s (or {}, where stated); likewise with {SLOW_CLIENTS} clients that never finish their requests; all loads come from this machine, and the disturbing ones run at the lowest priority",
        NOISY_WITH_LESS.limit
    );
    let sink = sink::start(sink::Kind::Smtp, None).await?;
    let system = lab.system().await?;
    system.run(&[]).await?;
    system.set_env(OUTBOUND_ALLOW, "127.0.0.0/8".to_owned());
    let all = [Noisy { project: NEIGHBOUR, limit: LIMIT }, NOISY, NOISY_WITH_LESS];
    for Noisy { project, limit } in all {
        delivery::channel(system, project, Channel::Email, &delivery::smtp(sink.addr.port())).await?;
        delivery::addresses(system, project).await?;
        provision::rate_limit(&system.database, project, Some(limit)).await?;
    }
    system.run_all().await?;
    for (noise, name) in NOISES {
        measure_with(lab, section, noise, name).await?;
    }
    let system = lab.system().await?;
    system.run(&[]).await?;
    system.remove_env(OUTBOUND_ALLOW);
    for Noisy { project, .. } in all {
        provision::rate_limit(&system.database, project, None).await?;
    }
    system.delete_messages().await
}

async fn measure_with(lab: &mut Lab, section: &mut Section, meanwhile: Noise, name: &str) -> Result<()> {
    let (settings, progress) = (lab.settings, lab.progress.clone());
    let (warm_up, time) = (settings.round, settings.round * 3);
    let system = lab.system().await?;
    let (mut alone, mut with_noise, mut taken, mut offered) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 1..=settings.rounds {
        progress.step(&format!("alone, round {round} of {}", settings.rounds));
        neighbour(system, warm_up).await?;
        alone.push(neighbour(system, time).await?);
        progress.step(&format!("with {name}, round {round} of {}", settings.rounds));
        // Let the noisy project spend its saved tokens before the measurement.
        let began = timestamp_between(system).await?;
        let before = noise(system.gateway, meanwhile, warm_up).await??;
        let noise = noise(system.gateway, meanwhile, time + warm_up);
        load(system, warm_up / 2).await?;
        with_noise.push(neighbour(system, time).await?);
        let noise = noise.await??;
        taken.push(noise.requests_per_second());
        offered.push((noise.requests + noise.refused) as f64 / noise.seconds);
        if let Noise::OverItsLimit(noisy, Kind::Message) = meanwhile {
            sent(system, noisy.project, began, before.items + noise.items).await?;
        }
    }
    let of = |waited: &[Waited], what: fn(&Waited) -> f64| waited.iter().map(what).collect::<Vec<f64>>();
    let figure = |figure: String, what: fn(&Waited) -> f64| {
        Figure::new(figure, "ms", of(&with_noise, what))
            .against("alone", &of(&alone, what))
            .goal(Goal::RatioAtMost(MAX_RATIO))
    };
    section.figures.extend([
        figure(format!("p99 of an event, with {name}"), |w| w.event),
        figure(format!("p99 until a mail is sent, with {name}"), |w| w.message),
    ]);
    let Noise::OverItsLimit(noisy, _) = meanwhile else { return Ok(()) };
    section.figures.extend([
        Figure::new(format!("{name} accepted from the noisy project"), "requests/s", taken)
            .goal(Goal::AtMost(f64::from(noisy.limit) * SLACK)),
        Figure::new(format!("{name} sent by the noisy project"), "requests/s", offered)
            .goal(Goal::AtLeast(f64::from(noisy.limit) * TIMES / SLACK)),
    ]);
    Ok(())
}

/// Sends the neighbour's load for `time` and waits until its last mail is sent.
async fn neighbour(system: &System, time: Duration) -> Result<Waited> {
    let began = timestamp_between(system).await?;
    let Load { events, messages } = load(system, time).await?;
    let seconds = sent(system, NEIGHBOUR, began, messages.items).await?;
    Ok(Waited { event: events.quantile(0.99), message: seconds * 1e3 })
}

/// Requests that the neighbour sent.
struct Load {
    events: Outcome,
    messages: Outcome,
}

/// Sends the neighbour's events and messages for `time`.
async fn load(system: &System, time: Duration) -> Result<Load> {
    let sender = async |kind, rate| {
        let shape = Shape { first: NEIGHBOUR, projects: 1, ..Shape::new(kind) };
        let mut sender = Sender::connect(system.gateway, shape, NEIGHBOURS_CONNECTIONS).await?;
        sender.send(Pace::Offered(rate), time).await
    };
    let (events, messages) = tokio::try_join!(sender(Kind::Single, EVENTS), sender(Kind::Message, MESSAGES))?;
    Ok(Load { events, messages })
}

/// Returns a timestamp after everything accepted so far and before everything accepted from now on, by the gateways'
/// clock too.
async fn timestamp_between(system: &System) -> Result<Timestamp> {
    tokio::time::sleep(SKEW).await;
    let now = system.database.query_one("SELECT clock_timestamp() AS mark", &[]).await?.try_get("mark")?;
    tokio::time::sleep(SKEW).await;
    Ok(now)
}

/// Waits until all messages of a project accepted since then are sent. Returns the p99 of the time that took, in
/// seconds.
async fn sent(system: &System, project: u32, since: Timestamp, accepted: u64) -> Result<f64> {
    let sql = "SELECT count(*) AS total, \
               percentile_disc(0.99) WITHIN GROUP (ORDER BY extract(epoch FROM sent_at - created_at)::float8) AS p99 \
               FROM message WHERE project_id = $1 AND created_at >= $2 AND status = 'sent'";
    let deadline = Instant::now() + PATIENCE;
    loop {
        let row = system.database.query_one(sql, &[&tenants::project(project), &since]).await?;
        let count = u64::try_from(row.try_get::<_, i64>("total")?)?;
        if count >= accepted {
            return row.try_get::<_, Option<f64>>("p99")?.context("no message was accepted");
        }
        if Instant::now() > deadline {
            bail!("{accepted} messages were accepted, but only {count} sent within {} s", PATIENCE.as_secs());
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Sends the noise from a thread of its own, so that it does not delay the neighbour's load in this process.
///
/// Its low priority takes no CPU time from the programs or the neighbour: in production, other clients have their own
/// machines.
fn noise(to: SocketAddr, noise: Noise, time: Duration) -> oneshot::Receiver<Result<Outcome>> {
    let (done, outcome) = oneshot::channel();
    std::thread::spawn(move || {
        let load = || {
            // Lowers the priority of this thread only.
            rustix::process::nice(LOWEST_PRIORITY).context("lowering the thread's priority")?;
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                match noise {
                    Noise::OverItsLimit(noisy, kind) => over_its_limit(to, noisy, kind, time).await,
                    Noise::SlowClients => slow_clients(to, time).await,
                }
            })
        };
        // Fails only if the receiver was dropped.
        done.send(load()).ok();
    });
    outcome
}

async fn over_its_limit(to: SocketAddr, noisy: Noisy, kind: Kind, time: Duration) -> Result<Outcome> {
    let shape = Shape { first: noisy.project, projects: 1, ..Shape::new(kind) };
    let mut sender = Sender::connect(to, shape, NOISY_CONNECTIONS).await?.over_its_limit();
    sender.send(Pace::Offered(f64::from(noisy.limit) * TIMES), time).await
}

/// Opens connections that start a request and never finish it, and reopens each one that the gateway closes.
async fn slow_clients(to: SocketAddr, time: Duration) -> Result<Outcome> {
    let end = tokio::time::Instant::now() + time;
    let head =
        format!("POST /api/v1/events HTTP/1.1\r\nhost: {to}\r\nx-api-key: {}\r\n", tenants::public_key(NOISY.project));
    let begun: [Arc<str>; 2] = [head.as_str().into(), format!("{head}content-length: 100\r\n\r\n{{").into()];
    let mut all = JoinSet::new();
    for number in 0..SLOW_CLIENTS {
        let begun = begun[number % 2].clone();
        all.spawn(async move {
            while tokio::time::Instant::now() < end {
                let mut stream =
                    TcpStream::connect(to).await.context("the limit of open files may be too low (ulimit -n)")?;
                let mut rest = Vec::new();
                let cut_off = async {
                    stream.write_all(begun.as_bytes()).await?;
                    stream.read_to_end(&mut rest).await
                };
                // Ends when the connection is closed for any reason, or when the time is up.
                let _ = tokio::time::timeout_at(end, cut_off).await;
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = all.join_next().await {
        ended??;
    }
    Ok(Outcome::default())
}
