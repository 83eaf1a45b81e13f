//! SVG charts of the report.

mod cost;
mod rates;
mod style;

use std::path::Path;

use anyhow::Result;

use crate::report::{Drawing, Report};

/// Draws every chart that the report has figures for.
pub fn draw(report: &Report, dir: &Path) -> Result<Vec<Drawing>> {
    std::fs::create_dir_all(dir)?;
    let mut drawn = Vec::new();
    for section in report.sections.iter().filter(|s| s.steps.len() > 1) {
        let what = if section.scenario.ends_with("single") { "single events" } else { "batches of 100" };
        let name = format!("load-{}.svg", section.scenario);
        rates::draw(&dir.join(&name), what, &section.steps, section.wanted)?;
        let shows = format!("Throughput and latency against offered load, {what}, end to end");
        drawn.push(Drawing { file: name, shows });
    }
    let loads = cost::end_to_end(report);
    if !loads.is_empty() {
        cost::draw_loads(&dir.join("cpu.svg"), &loads)?;
        let shows = "CPU per event by process, end to end".to_owned();
        drawn.push(Drawing { file: "cpu.svg".to_owned(), shows });
    }
    let axes = cost::growth(report);
    if !axes.is_empty() {
        cost::draw_growth(&dir.join("growth.svg"), &axes)?;
        let shows = "CPU per event as one size grows".to_owned();
        drawn.push(Drawing { file: "growth.svg".to_owned(), shows });
    }
    Ok(drawn)
}
