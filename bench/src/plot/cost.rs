//! CPU per event, stacked by process: for each load, and as sizes grow.

use std::path::Path;

use anyhow::Result;
use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use super::style::{FAINT, FONT, GOAL, INK, ORDER, centered, of_process, short, text};
use crate::load::GENERATOR;
use crate::report::{Cost, Report};

const LEGEND: u32 = 190;
/// Smallest visible share of a bar.
const VISIBLE: f64 = 0.008;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// One bar: a label and its parts by process.
#[derive(Clone, Debug)]
pub struct Bar {
    label: String,
    parts: Vec<(String, f64)>,
    goal: Option<f64>,
}

impl Bar {
    fn of(label: String, cost: &Cost) -> Self {
        let micros = |name: &&str| cost.cpu_of(name);
        let mut parts: Vec<(String, f64)> = ORDER.iter().map(|name| ((*name).to_owned(), micros(name))).collect();
        let named: f64 = parts.iter().map(|(_, v)| v).sum();
        let all = cost.cpu.iter().filter(|(name, _)| name != GENERATOR).map(|(_, v)| v).sum::<f64>();
        parts.push(("others".to_owned(), (all - named).max(0.0)));
        Self { label, parts, goal: cost.goal }
    }

    fn total(&self) -> f64 {
        self.parts.iter().map(|(_, v)| v).sum()
    }
}

/// Bars along one varied size.
#[derive(Clone, Debug)]
pub struct Axis {
    name: String,
    bars: Vec<Bar>,
}

/// Returns the bars of the end-to-end loads.
pub fn end_to_end(report: &Report) -> Vec<Bar> {
    let mut bars = Vec::new();
    for section in report.sections.iter().filter(|s| s.scenario.starts_with("end-to-end")) {
        for cost in &section.costs {
            let label = if cost.load.is_empty() { "singles".to_owned() } else { format!("batches, {}", cost.load) };
            bars.push(Bar::of(label, cost));
        }
    }
    bars
}

/// Returns one axis for each varied size.
pub fn growth(report: &Report) -> Vec<Axis> {
    let mut axes: Vec<Axis> = Vec::new();
    for cost in report.sections.iter().flat_map(|section| &section.costs) {
        let Some(along) = &cost.along else { continue };
        let bar = Bar::of(short(along.size), cost);
        match axes.iter_mut().find(|axis| axis.name == along.axis) {
            Some(axis) => axis.bars.push(bar),
            None => axes.push(Axis { name: along.axis.clone(), bars: vec![bar] }),
        }
    }
    axes
}

pub fn draw_loads(path: &Path, bars: &[Bar]) -> Result<()> {
    let size = (300 + 190 * bars.len() as u32, 460);
    let root = SVGBackend::new(path, size).into_drawing_area();
    root.fill(&WHITE)?;
    let (left, right) = root.split_horizontally(size.0 - LEGEND);
    panel(&left, "CPU per event, end to end", "", bars, top(bars.iter()))?;
    legend(&right, bars.iter())?;
    root.present()?;
    Ok(())
}

pub fn draw_growth(path: &Path, axes: &[Axis]) -> Result<()> {
    let size = (LEGEND + 340 * axes.len() as u32, 440);
    let root = SVGBackend::new(path, size).into_drawing_area();
    root.fill(&WHITE)?;
    let (left, right) = root.split_horizontally(size.0 - LEGEND);
    let all = || axes.iter().flat_map(|axis| &axis.bars);
    for (axis, area) in axes.iter().zip(left.split_evenly((1, axes.len()))) {
        panel(&area, &format!("By {}", axis.name), &axis.name, &axis.bars, top(all()))?;
    }
    legend(&right, all())?;
    root.present()?;
    Ok(())
}

/// Returns an axis maximum that fits all bars and goals.
fn top<'a>(bars: impl Iterator<Item = &'a Bar>) -> f64 {
    bars.map(|bar| bar.total().max(bar.goal.unwrap_or_default())).fold(1.0, f64::max) * 1.12
}

fn panel(area: &Area<'_>, title: &str, x_desc: &str, bars: &[Bar], top: f64) -> Result<()> {
    let count = bars.len();
    let mut chart = ChartBuilder::on(area)
        .caption(title, text(18))
        .margin(14)
        .x_label_area_size(46)
        .y_label_area_size(58)
        .build_cartesian_2d(-0.5..count as f64 - 0.5, 0.0..top)?;
    let label = |x: &f64| {
        let at = x.round();
        let bar = if (x - at).abs() < 0.01 && at >= 0.0 { bars.get(at as usize) } else { None };
        bar.map(|bar| bar.label.clone()).unwrap_or_default()
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(count + 1)
        .x_label_formatter(&label)
        .x_desc(x_desc)
        .y_desc("µs of CPU per event")
        .label_style(text(13))
        .axis_desc_style(text(14))
        .bold_line_style(FAINT)
        .light_line_style(TRANSPARENT)
        .y_label_formatter(&|y| short(*y))
        .draw()?;
    for (position, bar) in bars.iter().enumerate() {
        stack(&mut chart, position as f64, bar)?;
    }
    Ok(())
}

fn stack(chart: &mut Chart<'_, '_>, x: f64, bar: &Bar) -> Result<()> {
    let mut bottom = 0.0;
    for (name, value) in &bar.parts {
        let corners = [(x - 0.32, bottom), (x + 0.32, bottom + value)];
        chart.draw_series([Rectangle::new(corners, of_process(name).filled())])?;
        bottom += value;
    }
    if let Some(goal) = bar.goal {
        chart.draw_series([PathElement::new([(x - 0.42, goal), (x + 0.42, goal)], GOAL.stroke_width(3))])?;
    }
    let shown = EmptyElement::at((x, bottom)) + Text::new(format!("{bottom:.1}"), (0, -18), centered(14));
    chart.draw_series([shown])?;
    Ok(())
}

/// Draws a legend of the processes that are visible in some bar, in stacking order from the top.
fn legend<'a>(area: &Area<'_>, bars: impl Iterator<Item = &'a Bar> + Clone) -> Result<()> {
    let seen =
        |name: &str| bars.clone().any(|bar| bar.parts.iter().any(|(n, v)| n == name && *v >= bar.total() * VISIBLE));
    let names: Vec<&str> = ORDER.iter().copied().chain(["others"]).filter(|name| seen(name)).rev().collect();
    let mut y = 56;
    for name in names {
        area.draw(&Rectangle::new([(6, y), (22, y + 14)], of_process(name).filled()))?;
        area.draw(&Text::new(name.to_owned(), (30, y), (FONT, 14).into_font().color(&INK)))?;
        y += 26;
    }
    if bars.clone().any(|bar| bar.goal.is_some()) {
        area.draw(&PathElement::new([(4, y + 7), (24, y + 7)], GOAL.stroke_width(3)))?;
        area.draw(&Text::new("goal, at most", (30, y), (FONT, 14).into_font().color(&INK)))?;
    }
    Ok(())
}
