//! Growth: CPU per event with more projects, more users, and more automations per project.

use std::time::Duration;

use anyhow::Result;
use kernel::clock::Clock;

use crate::load::{GENERATOR, Kind, Pace, Sender, Shape};
use crate::measure;
use crate::provision;
use crate::report::{Along, Figure, Goal, Section};
use crate::scenario::Lab;
use crate::tenants::PROJECTS;

const CONNECTIONS: usize = 32;
/// Items per second, in batches of 100 users.
const OFFERED: f64 = 30_000.0;
/// Maximum ratio of the cost per event at the largest size to that at the smallest that still counts as flat.
const FLAT: f64 = 1.25;
/// Projects while automations grow: at 500 each, 50,000 are active.
const WITH_AUTOMATIONS: u32 = 100;

/// One point: its sizes, and which one was varied.
#[derive(Clone, Copy, Debug)]
struct Point {
    axis: &'static str,
    size: u32,
    projects: u32,
    users: u32,
    automations: u32,
}

fn points(quick: bool) -> Vec<Point> {
    let mut points = Vec::new();
    for projects in [1, 10, 100, PROJECTS] {
        let users = if quick { 1_000 } else { 100_000 } / projects;
        points.push(Point { axis: "projects", size: projects, projects, users: users.max(1), automations: 50 });
    }
    for all in if quick { [1_000, 5_000, 10_000] } else { [10_000, 100_000, 1_000_000] } {
        let users = all / PROJECTS;
        points.push(Point { axis: "users", size: all, projects: PROJECTS, users, automations: 50 });
    }
    for automations in [1, 50, 500] {
        let (projects, users) = (WITH_AUTOMATIONS, if quick { 10 } else { 1_000 });
        points.push(Point { axis: "automations per project", size: automations, projects, users, automations });
    }
    points
}

pub async fn run(lab: &mut Lab, section: &mut Section) -> Result<()> {
    section.about = format!("CPU per event at {OFFERED} items/s in batches of 100 users, as one size grows");
    let time = lab.settings.round;
    for point in points(lab.settings.quick) {
        lab.progress.step(&format!("growth: {} {}", point.size, point.axis));
        measure_at(lab, section, point, time).await?;
    }
    for axis in ["projects", "users", "automations per project"] {
        let of_axis: Vec<(f64, f64)> = section
            .costs
            .iter()
            .filter_map(|cost| Some((cost.along.as_ref().filter(|a| a.axis == axis)?.size, cost.product_cpu())))
            .collect();
        if let (Some((small, first)), Some((large, last))) = (of_axis.first(), of_axis.last()) {
            section.figures.push(
                Figure::one(format!("CPU of all at {large} {axis}"), "µs/event", *last)
                    .against(&format!("at {small}"), &[*first])
                    .goal(Goal::RatioAtMost(FLAT)),
            );
        }
    }
    Ok(())
}

async fn measure_at(lab: &mut Lab, section: &mut Section, point: Point, time: Duration) -> Result<()> {
    let Point { axis, size, projects, users, automations } = point;
    lab.ensure_users(projects, users).await?;
    lab.activate(projects, automations).await?;
    let system = lab.system().await?;
    system.run_all().await?;
    let shape = Shape { projects, users, ..Shape::new(Kind::BatchOfMany) };
    let mut sender = Sender::connect(system.gateway, shape, CONNECTIONS).await?;
    let pace = Pace::Offered(OFFERED / f64::from(Kind::BATCH));
    measure::sustained(system, &mut sender, pace, time / 2).await?;
    let sustained = measure::sustained(system, &mut sender, pace, time).await?;
    system.purge().await?;
    let load = format!("{size} {axis}");
    let mut cost = measure::cost(&load, "event", &[sustained.measured], |o| o.items);
    cost.cpu.retain(|(name, _)| name != GENERATOR);
    cost.along = Some(Along { axis: axis.to_owned(), size: f64::from(size) });
    section.costs.push(cost);
    Ok(())
}

impl Lab {
    /// Ensures that the first `users` users of the first `projects` projects are in the database.
    async fn ensure_users(&mut self, projects: u32, users: u32) -> Result<()> {
        self.system().await?;
        let mut known = std::mem::take(&mut self.known);
        let system = self.system().await?;
        let (mut from, mut new) = (0, false);
        while from < projects {
            // Consecutive projects with the same number of users are filled together.
            let there = known[from as usize];
            let alike = known[from as usize..projects as usize].iter().take_while(|k| **k == there).count() as u32;
            if there < users {
                provision::users(&system.database, from..from + alike, there..users, Clock::system().now()).await?;
                known[from as usize..(from + alike) as usize].fill(users);
                new = true;
            }
            from += alike;
        }
        if new {
            provision::searchable(system.database_url()).await?;
        }
        self.known = known;
        Ok(())
    }

    /// Makes exactly `each` automations active in each of the first `projects` projects.
    async fn activate(&mut self, projects: u32, each: u32) -> Result<()> {
        if self.active == (projects, each) {
            return Ok(());
        }
        let system = self.system().await?;
        provision::automations(&system.database, projects, each, Clock::system().now()).await?;
        self.active = (projects, each);
        Ok(())
    }
}
