//! Benchmarks of product components inside this process, on one thread and without the rest of the system.

use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::sync::oneshot;
use tokio::task::LocalSet;

use crate::load::Outcome;
use crate::measure::Measured;
use crate::usage::{self, Moment, Watched};

/// Name of this process in reports, when it runs a product component or its ceiling.
pub const CALLER: &str = "calling process";

/// Makes calls for `time` on a thread of its own, keeping `at_once` of them in flight.
///
/// `make` runs on that thread too, because connections belong to the runtime that opened them. Each call receives the
/// number of its in-flight slot.
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

/// Measures how often `iteration` can run per second on one thread. Each call of `iteration` returns how many operations it did.
pub async fn repeated(time: Duration, mut iteration: impl FnMut() -> Result<u64> + Send + 'static) -> Result<f64> {
    let counted = tokio::task::spawn_blocking(move || {
        let (mut done, started) = (0, Instant::now());
        while started.elapsed() < time {
            done += iteration()?;
        }
        anyhow::Ok(done as f64 / started.elapsed().as_secs_f64())
    });
    counted.await?
}

impl Measured {
    /// Returns how many operations one full core of `process` completes per second.
    pub fn per_core(&self, process: &str) -> f64 {
        let used = self.used.by_process.iter().find(|(name, _)| name == process);
        self.outcome.items as f64 / used.map_or(f64::NAN, |(_, time)| time.as_secs_f64())
    }
}
