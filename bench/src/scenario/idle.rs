//! Idle: the programs' usage without any request.

use std::time::Duration;

use anyhow::Result;

use crate::load::GENERATOR;
use crate::report::{Figure, Goal, Section};
use crate::scenario::Lab;
use crate::system::PROGRAMS;
use crate::usage::{self, Moment};

/// Time for start-up to end and caches to fill.
const SETTLE: Duration = Duration::from_secs(10);

pub async fn run(lab: &mut Lab, section: &mut Section) -> Result<()> {
    let time = Duration::from_secs(if lab.settings.quick { 5 } else { 30 });
    section.about = format!("{} s without requests, in a newly started system", time.as_secs());
    let system = lab.system().await?;
    system.run_all().await?;
    tokio::time::sleep(SETTLE).await;
    let watched = system.watched();
    let before = Moment::now(&watched, GENERATOR)?;
    tokio::time::sleep(time).await;
    let used = Moment::now(&watched, GENERATOR)?.since(&before);
    let memory = usage::memory(&watched);

    let (mut cpu_of_all, mut memory_of_all) = (0.0, 0.0);
    for name in PROGRAMS {
        let of = used.by_process.iter().find(|(n, _)| n == name).map(|(_, d)| d.as_secs_f64());
        let percent = of.unwrap_or(f64::NAN) * 100.0 / time.as_secs_f64();
        let resident = memory.iter().find(|(n, _)| n == name).map_or(f64::NAN, |(_, m)| m.now);
        section.figures.push(Figure::one(format!("CPU of {name}"), "% of a core", percent));
        section.figures.push(Figure::one(format!("memory of {name}"), "MiB", resident));
        (cpu_of_all, memory_of_all) = (cpu_of_all + percent, memory_of_all + resident);
    }
    section.figures.push(Figure::one("CPU of all four programs", "% of a core", cpu_of_all).goal(Goal::AtMost(1.0)));
    section.figures.push(Figure::one("memory of all four programs", "MiB", memory_of_all).goal(Goal::AtMost(80.0)));
    Ok(())
}
