//! Delivery of the same number of messages by one project, by a few, and by many.

use anyhow::Result;
use domain::push_token::Platform;
use store_sending::send_chunks::CAPACITY;

use super::ledger::Load;
use super::{device, pushes, rate};
use crate::measure::{self, Measured};
use crate::provision::delivery;
use crate::report::Section;
use crate::scenario::Lab;
use crate::sink::{self, Kind};
use crate::system::DELIVERY;
use crate::tenants::PROJECTS;

const SIZES: [u32; 3] = [1, 10, PROJECTS];
/// Recipients per project.
const USERS: u32 = 10;
/// Members of a chunk, with the label used in the report.
const CHUNKS: [(usize, &str); 2] = [(CAPACITY, "in full chunks"), (1, "one by one")];

/// Measures pushes of 1, 10 and 1,000 projects, in full chunks as automations and campaigns queue them, and in chunks
/// of one message.
pub async fn projects(lab: &mut Lab, section: &mut Section) -> Result<()> {
    let count = if lab.settings.quick { 2_000 } else { 10_000 };
    section.about = format!(
        "{count} pushes through the JSON API, split evenly among 1, 10 and {PROJECTS} projects, in chunks of up to {CAPACITY} and of 1"
    );
    let sink = sink::start(Kind::Http, None).await?;
    let ledger = pushes(sink.addr);
    ledger.open_for(lab, PROJECTS, &delivery::apns()?).await?;
    let system = lab.system().await?;
    delivery::devices(system, 0..PROJECTS, USERS, Platform::Ios, |n| Ok(device(n))).await?;
    let template = ledger.template(system, PROJECTS).await?;
    system.run(&[DELIVERY]).await?;
    for (chunk, how) in CHUNKS {
        let mut first: Vec<f64> = Vec::new();
        for projects in SIZES {
            let load = Load { projects, users: USERS, count, chunk };
            let rounds = ledger.rounds(lab, &sink, template, load).await?;
            let figure = rate(&format!("{projects} projects, {how}"), "sends/s", &rounds);
            let rates = rounds.iter().map(|m: &Measured| m.outcome.items_per_second()).collect();
            section.figures.push(if first.is_empty() { figure } else { figure.against("1 project", &first) });
            section.costs.push(measure::cost(&format!("{projects} projects, {how}"), "send", &rounds, |o| o.items));
            if first.is_empty() {
                first = rates;
            }
        }
    }
    ledger.close(lab.system().await?).await
}
