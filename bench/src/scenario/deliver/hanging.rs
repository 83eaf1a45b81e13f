//! Delivery of one project while the provider of another accepts connections and never responds.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use domain::message::Channel;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;
use uuid::Uuid;

use super::ledger::{self, Ledger};
use super::{PATIENCE, rate, warn_of_noise};
use crate::child::Server;
use crate::load::{GENERATOR, Outcome};
use crate::measure::{self, Measured};
use crate::provision::delivery::{self, Messages};
use crate::report::{Figure, Goal, Section};
use crate::scenario::Lab;
use crate::sink::{self, Kind};
use crate::system::{DELIVERY, System};
use crate::tenants;
use crate::usage::{self, Moment};

const FAST: u32 = 0;
const HANGING: u32 = 1;
/// Messages of the project whose provider hangs: more than the worker has slots.
const STUCK: u32 = 5_000;
/// Members of a chunk.
const CHUNK: usize = 500;
/// Delay between queueing those messages and queueing the others, so that their calls are in flight by then.
const HEAD_START: Duration = Duration::from_secs(2);

/// A provider that accepts connections and never responds, until it is dropped.
struct Silent {
    addr: SocketAddr,
    serving: AbortHandle,
}

impl Silent {
    async fn start() -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let addr = listener.local_addr()?;
        let serve = async move {
            let mut connections = Vec::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.push(stream);
            }
        };
        Ok(Self { addr, serving: tokio::spawn(serve).abort_handle() })
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Measures mails of one project, first alone, then while messages of another wait for a mail server that never
/// responds.
pub async fn hanging(lab: &mut Lab, section: &mut Section) -> Result<()> {
    let count = if lab.settings.quick { 1_000 } else { 10_000 };
    section.about = format!(
        "{count} mails of one project, alone and while {STUCK} mails of another wait for a mail server that accepts connections and never responds"
    );
    let (settings, progress) = (lab.settings, lab.progress.clone());
    let (sink, silent) = (sink::start(Kind::Smtp, None).await?, Silent::start().await?);
    let ledger = Ledger { channel: Channel::Email, env: Vec::new() };
    ledger.open(lab, &delivery::smtp(sink.addr.port())).await?;
    let system = lab.system().await?;
    delivery::channel(system, HANGING, Channel::Email, &delivery::smtp(silent.addr.port())).await?;
    for project in [FAST, HANGING] {
        delivery::addresses(system, project).await?;
    }
    let template = ledger.template(system, 2).await?;
    let (mut alone, mut with_hanging) = (Vec::new(), Vec::new());
    for round in 1..=settings.rounds {
        system.run(&[DELIVERY]).await?;
        progress.step(&format!("alone, round {round} of {}", settings.rounds));
        alone.push(sent(system, &sink, template, count).await?);
        progress.step(&format!("with a hanging provider, round {round} of {}", settings.rounds));
        let stuck = messages(system, HANGING, template, STUCK).await?;
        delivery::queue(system, Channel::Email, &[stuck], CHUNK).await?;
        tokio::time::sleep(HEAD_START).await;
        with_hanging.push(sent(system, &sink, template, count).await?);
        warn_of_noise(&progress, &[&alone, &with_hanging]);
        // Otherwise the next round would send the messages in flight.
        system.run(&[]).await?;
        system.delete_messages().await?;
    }
    let rates: Vec<f64> = alone.iter().map(|m| m.outcome.items_per_second()).collect();
    let figure = rate("with a hanging provider", "mails/s", &with_hanging).against("alone", &rates);
    section.figures.extend([Figure::new("alone", "mails/s", rates.clone()), figure.goal(Goal::RatioAtLeast(0.8))]);
    section.costs.push(measure::cost("alone", "mail", &alone, |o| o.items));
    section.costs.push(measure::cost("with a hanging provider", "mail", &with_hanging, |o| o.items));
    ledger.close(lab.system().await?).await
}

async fn messages(system: &System, project: u32, template: Uuid, count: u32) -> Result<Messages> {
    let made =
        delivery::messages(system, project..project + 1, ledger::USERS, (Channel::Email, template), count).await?;
    Ok(Messages { project, ids: made.into_iter().flat_map(|of| of.ids).collect() })
}

/// Queues messages of the fast project and waits until all of them are settled.
async fn sent(system: &System, sink: &Server, template: Uuid, count: u32) -> Result<Measured> {
    let fast = messages(system, FAST, template, count).await?;
    let mut watched = system.watched();
    watched.extend(sink.watched());
    usage::reset_peaks(&watched);
    delivery::queue(system, Channel::Email, &[fast], CHUNK).await?;
    let started = Instant::now();
    let before = Moment::now(&watched, GENERATOR)?;
    let sql = "SELECT NOT EXISTS (SELECT FROM send_chunk WHERE project_id = $1) AS are_sent";
    while !system.database.query_one(sql, &[&tenants::project(FAST)]).await?.try_get::<_, bool>("are_sent")? {
        if started.elapsed() > PATIENCE {
            bail!("not all of {count} messages were sent within {} s", PATIENCE.as_secs());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let seconds = started.elapsed().as_secs_f64();
    let used = Moment::now(&watched, GENERATOR)?.since(&before);
    Ok(Measured { outcome: Outcome::of_items(u64::from(count), seconds), used, memory: usage::memory(&watched) })
}
