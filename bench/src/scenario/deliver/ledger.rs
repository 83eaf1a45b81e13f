//! The whole path from the ledger: the worker claims, renders, sends and settles messages, including the cost in
//! PostgreSQL.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use domain::message::Channel;
use kernel::metric_name::Metric;
use store_projects::channels::ChannelSettings;
use store_sending::send_chunks::CAPACITY;
use uuid::Uuid;

use super::{LOOPBACK, PATIENCE, rate, warn_of_noise};
use crate::child::Server;
use crate::load::{GENERATOR, Outcome};
use crate::measure::{self, Measured};
use crate::provision::delivery;
use crate::report::{Figure, Section};
use crate::scenario::Lab;
use crate::system::{DELIVERY, System};
use crate::usage::{self, Moment};

/// Recipients in the first project.
pub const USERS: u32 = crate::scenario::USERS;
const WARM_UP: u32 = 500;
/// Messages per round, sent within a few seconds.
pub const COUNT: u32 = 40_000;
/// Interval between reads of the worker's metrics, which cost CPU time in the worker.
const READ_METRICS: Duration = Duration::from_millis(50);

/// One channel and the worker's environment for its provider.
pub struct Ledger {
    pub channel: Channel,
    pub env: Vec<(&'static str, String)>,
}

/// Messages that are queued at once.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Number of projects, counted from the first. The messages are split evenly.
    pub projects: u32,
    /// Recipients per project.
    pub users: u32,
    pub count: u32,
    /// Members of a chunk.
    pub chunk: usize,
}

impl Load {
    /// Returns a load of `count` messages of the first project in full chunks.
    pub fn of(count: u32) -> Self {
        Self { projects: 1, users: USERS, count, chunk: CAPACITY }
    }
}

impl Ledger {
    /// Starts a system whose worker calls the sink for the first project.
    pub async fn open(&self, lab: &mut Lab, settings: &ChannelSettings) -> Result<()> {
        self.open_for(lab, 1, settings).await
    }

    /// Starts a system whose worker calls the sink for the first `projects` projects.
    pub async fn open_for(&self, lab: &mut Lab, projects: u32, settings: &ChannelSettings) -> Result<()> {
        let system = lab.system().await?;
        system.run(&[]).await?;
        system.set_env(LOOPBACK.0, LOOPBACK.1.to_owned());
        for (name, value) in &self.env {
            system.set_env(name, value.clone());
        }
        delivery::channels(system, 0..projects, self.channel, settings).await
    }

    /// Stops the programs, and removes the messages and environment variables for the scenarios that follow.
    pub async fn close(&self, system: &mut System) -> Result<()> {
        system.run(&[]).await?;
        for name in self.env.iter().map(|(name, _)| *name).chain([LOOPBACK.0]) {
            system.remove_env(name);
        }
        system.delete_messages().await
    }

    /// Creates the template in the first `projects` projects.
    pub async fn template(&self, system: &System, projects: u32) -> Result<Uuid> {
        let body = match self.channel {
            Channel::Email => format!("<h1>Dear {{{{ name }}}}</h1>\n{}", super::html()),
            Channel::Push | Channel::InApp | Channel::Sms => super::TEXT.to_owned(),
        };
        delivery::template(system, projects, self.channel, super::TITLE, &body).await
    }

    /// Measures rounds of messages, from queueing until the last one is settled.
    pub async fn measure(&self, lab: &mut Lab, section: &mut Section, sink: &Server) -> Result<()> {
        let count = if lab.settings.quick { 1_000 } else { COUNT };
        let system = lab.system().await?;
        let template = self.template(system, 1).await?;
        system.run(&[DELIVERY]).await?;
        let rounds = self.rounds(lab, sink, template, Load::of(count)).await?;
        self.close(lab.system().await?).await?;
        let per_core = rounds.iter().map(|m| m.per_core(DELIVERY)).collect();
        section.figures.extend([
            rate("from the ledger", "sends/s", &rounds),
            Figure::new("from the ledger, worker only", "sends/s per core", per_core),
        ]);
        section.costs.push(measure::cost("from the ledger", "send", &rounds, |o| o.items));
        Ok(())
    }

    /// Runs the rounds of a load after an unmeasured warm-up. The worker must be running.
    pub async fn rounds(&self, lab: &mut Lab, sink: &Server, template: Uuid, load: Load) -> Result<Vec<Measured>> {
        let (settings, progress) = (lab.settings, lab.progress.clone());
        let system = lab.system().await?;
        let warm_up = Load { count: WARM_UP.max(load.projects), ..load };
        self.sent(system, sink, template, warm_up).await?;
        let mut rounds = Vec::new();
        for round in 1..=settings.rounds {
            progress.step(&format!("{} messages from the ledger, round {round} of {}", load.count, settings.rounds));
            rounds.push(self.sent(system, sink, template, load).await?);
            warn_of_noise(&progress, &[&rounds]);
        }
        Ok(rounds)
    }

    /// Measures one load, from queueing until the last message is settled.
    pub async fn sent(&self, system: &System, sink: &Server, template: Uuid, load: Load) -> Result<Measured> {
        let Load { projects, users, count, chunk } = load;
        let messages = delivery::messages(system, 0..projects, users, (self.channel, template), count).await?;
        let count = messages.iter().map(|of| of.ids.len() as u64).sum();
        let mut watched = system.watched();
        watched.extend(sink.watched());
        usage::reset_peaks(&watched);
        let settled = system.metric(DELIVERY, Metric::MessagesSettled.name()).await?;
        delivery::queue(system, self.channel, &messages, chunk).await?;
        // Queueing is not measured: workers see the chunks once it commits.
        let started = Instant::now();
        let before = Moment::now(&watched, GENERATOR)?;
        wait_settled(system, settled + count).await?;
        let seconds = started.elapsed().as_secs_f64();
        let used = Moment::now(&watched, GENERATOR)?.since(&before);
        all_sent(system).await?;
        Ok(Measured { outcome: Outcome::of_items(count, seconds), used, memory: usage::memory(&watched) })
    }
}

async fn wait_settled(system: &System, wanted: u64) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while system.metric(DELIVERY, Metric::MessagesSettled.name()).await? < wanted {
        if Instant::now() > deadline {
            all_sent(system).await?;
            bail!("all messages were sent, but the worker's metric does not count them");
        }
        tokio::time::sleep(READ_METRICS).await;
    }
    Ok(())
}

/// Checks that every message in the ledger was sent. Otherwise the error lists the outcomes of the others.
pub async fn all_sent(system: &System) -> Result<()> {
    let sql = "SELECT status || coalesce(': ' || status_reason, '') AS outcome, count(*) AS total FROM message \
               WHERE status <> 'sent' GROUP BY 1 ORDER BY 2 DESC LIMIT 3";
    let others = system.database.query(sql, &[]).await?;
    let shown = |row: &tokio_postgres::Row| {
        Ok(format!("{} {}", row.try_get::<_, i64>("total")?, row.try_get::<_, &str>("outcome")?))
    };
    let shown = others.iter().map(shown).collect::<Result<Vec<String>>>()?;
    if !shown.is_empty() {
        bail!("not all messages were sent: {}", shown.join("; "));
    }
    Ok(())
}
