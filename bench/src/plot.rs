//! Drawings of what would rather be looked at than read, as SVG.

mod cost;
mod rates;
mod style;

use std::path::Path;

use anyhow::Result;

use crate::report::Report;

/// Draws everything that the report has numbers for; returns the files' names with what they show.
pub fn draw(report: &Report, dir: &Path) -> Result<Vec<(String, String)>> {
    std::fs::create_dir_all(dir)?;
    let mut drawn = Vec::new();
    for section in report.sections.iter().filter(|s| s.steps.len() > 1) {
        let what = if section.scenario.ends_with("single") { "single events" } else { "batches of 100" };
        let name = format!("load-{}.svg", section.scenario);
        rates::draw(&dir.join(&name), what, &section.steps, section.wanted)?;
        drawn.push((name, format!("Throughput and latency against offered load, {what}, end to end")));
    }
    let loads = cost::end_to_end(report);
    if !loads.is_empty() {
        cost::draw_loads(&dir.join("cpu.svg"), &loads)?;
        drawn.push(("cpu.svg".to_owned(), "CPU per event by process, end to end".to_owned()));
    }
    let axes = cost::growth(report);
    if !axes.is_empty() {
        cost::draw_growth(&dir.join("growth.svg"), &axes)?;
        drawn.push(("growth.svg".to_owned(), "CPU per event as one size grows".to_owned()));
    }
    Ok(drawn)
}
