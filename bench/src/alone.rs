//! Parts of the product within this process, on one thread: what they cost with nothing around them.

use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::sync::oneshot;
use tokio::task::LocalSet;

use crate::load::Outcome;
use crate::measure::Measured;
use crate::usage::{self, Moment, Watched};

/// How this process is called in reports where it is a part of the product, or its ceiling, that runs in it.
pub const CALLER: &str = "calling process";

/// Makes calls for so long, `at_once` of them under way at any time. `make` runs on the thread that calls, since
/// connections belong to where they were made; a call is told which of those under way it is.
pub async fn calls<M, C>(watched: &[Watched], at_once: usize, time: Duration, make: M) -> Result<Measured>
where
    M: AsyncFnOnce() -> Result<C> + Send + 'static,
    C: AsyncFn(u64) -> Result<()> + 'static,
{
    usage::reset_peaks(watched);
    let before = Moment::now(watched, CALLER)?;
    let (done, outcome) = oneshot::channel();
    std::thread::spawn(move || done.send(on_this_thread(at_once, time, make)));
    let outcome = outcome.await??;
    let used = Moment::now(watched, CALLER)?.since(&before);
    Ok(Measured { outcome, used, memory: usage::memory(watched) })
}

fn on_this_thread<M, C>(at_once: usize, time: Duration, make: M) -> Result<Outcome>
where
    M: AsyncFnOnce() -> Result<C>,
    C: AsyncFn(u64) -> Result<()> + 'static,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, async {
        let call = Rc::new(make().await?);
        let started = Instant::now();
        let callers: Vec<_> = (0..at_once as u64)
            .map(|nth| {
                let call = call.clone();
                tokio::task::spawn_local(async move {
                    let mut made = 0_u64;
                    while started.elapsed() < time {
                        (*call)(nth).await?;
                        made += 1;
                    }
                    anyhow::Ok(made)
                })
            })
            .collect();
        let mut made = 0;
        for caller in callers {
            made += caller.await??;
        }
        Ok(Outcome::of_items(made, started.elapsed().as_secs_f64()))
    })
}

/// How often something can be done in a second on one thread; each turn says how many times it did it.
pub async fn repeated(time: Duration, mut turn: impl FnMut() -> Result<u64> + Send + 'static) -> Result<f64> {
    let counted = tokio::task::spawn_blocking(move || {
        let (mut done, started) = (0, Instant::now());
        while started.elapsed() < time {
            done += turn()?;
        }
        anyhow::Ok(done as f64 / started.elapsed().as_secs_f64())
    });
    counted.await?
}

impl Measured {
    /// How many a whole core of one process does in a second.
    pub fn per_core(&self, process: &str) -> f64 {
        let used = self.used.by_process.iter().find(|(name, _)| name == process);
        self.outcome.items as f64 / used.map_or(f64::NAN, |(_, time)| time.as_secs_f64())
    }
}
