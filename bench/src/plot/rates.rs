//! Throughput, p50 and p99 against offered load.

use std::path::Path;

use anyhow::Result;
use plotters::coord::Shift;
use plotters::coord::ranged1d::Ranged;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use super::style::{FAINT, FIRST, FONT, GOAL, GREY, INK, SECOND, short, text};
use crate::report::Step;

const SIZE: (u32, u32) = (1_100, 440);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

pub fn draw(path: &Path, what: &str, steps: &[Step], wanted: Option<f64>) -> Result<()> {
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let (left, right) = root.split_horizontally(SIZE.0 / 2);
    throughput(&left, what, steps, wanted)?;
    latency(&right, what, steps)?;
    root.present()?;
    Ok(())
}

fn throughput(area: &Area<'_>, what: &str, steps: &[Step], wanted: Option<f64>) -> Result<()> {
    let end = steps.iter().map(|s| s.offered).fold(0.0, f64::max) * 1.05;
    let top = steps.iter().map(|s| s.accepted.max(s.recorded)).fold(0.0, f64::max);
    let top = top.max(end / 2.0).max(wanted.unwrap_or_default()) * 1.15;
    let mut chart = ChartBuilder::on(area)
        .caption(format!("Throughput, {what}"), text(18))
        .margin(14)
        .x_label_area_size(46)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..end, 0.0..top)?;
    chart
        .configure_mesh()
        .x_desc("offered, events/s")
        .y_desc("events/s")
        .label_style(text(13))
        .axis_desc_style(text(14))
        .bold_line_style(FAINT)
        .light_line_style(TRANSPARENT)
        .x_label_formatter(&|x| short(*x))
        .y_label_formatter(&|y| short(*y))
        .draw()?;
    // The diagonal of offered load, as far as it fits into the chart.
    let diagonal = [(0.0, 0.0), (end.min(top), end.min(top))];
    chart
        .draw_series(DashedLineSeries::new(diagonal, 5, 5, GREY.stroke_width(1)))?
        .label("offered load")
        .legend(|(x, y)| PathElement::new([(x, y), (x + 18, y)], GREY.stroke_width(1)));
    if let Some(wanted) = wanted {
        chart
            .draw_series(LineSeries::new([(0.0, wanted), (end, wanted)], GOAL.stroke_width(2)))?
            .label("goal, recorded")
            .legend(|(x, y)| PathElement::new([(x, y), (x + 18, y)], GOAL.stroke_width(2)));
    }
    let lines = [
        Line { name: "accepted", colour: FIRST, of: |step| step.accepted },
        Line { name: "recorded", colour: SECOND, of: |step| step.recorded },
    ];
    curves(&mut chart, steps, &lines)
}

fn latency(area: &Area<'_>, what: &str, steps: &[Step]) -> Result<()> {
    let end = steps.iter().map(|s| s.offered).fold(0.0, f64::max) * 1.05;
    let low = steps.iter().map(|s| s.p50).fold(f64::INFINITY, f64::min).max(0.01) / 1.6;
    let high = steps.iter().map(|s| s.p99).fold(0.1, f64::max) * 2.0;
    let mut chart = ChartBuilder::on(area)
        .caption(format!("Response time, {what}"), text(18))
        .margin(14)
        .x_label_area_size(46)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..end, (low..high).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("offered, events/s")
        .y_desc("ms (logarithmic)")
        .label_style(text(13))
        .axis_desc_style(text(14))
        .bold_line_style(FAINT)
        .light_line_style(TRANSPARENT)
        .x_label_formatter(&|x| short(*x))
        .y_label_formatter(&|y| if *y < 1.0 { format!("{y:.1}") } else { short(*y) })
        .draw()?;
    let lines = [
        Line { name: "p50", colour: FIRST, of: |step| step.p50 },
        Line { name: "p99", colour: SECOND, of: |step| step.p99 },
    ];
    curves(&mut chart, steps, &lines)
}

/// A curve over the offered load.
struct Line {
    name: &'static str,
    colour: RGBColor,
    of: fn(&Step) -> f64,
}

/// Draws curves with their points, and a legend of the whole chart.
fn curves<'a, 'b: 'a, Y: Ranged<ValueType = f64>>(
    chart: &mut ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, Y>>,
    steps: &[Step],
    lines: &[Line],
) -> Result<()> {
    for &Line { name, colour, of } in lines {
        let points: Vec<(f64, f64)> = steps.iter().map(|s| (s.offered, of(s))).collect();
        chart
            .draw_series(LineSeries::new(points.clone(), colour.stroke_width(3)))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(3)));
        chart.draw_series(points.into_iter().map(|point| Circle::new(point, 4, colour.filled())))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .label_font((FONT, 13).into_font().color(&INK))
        .background_style(WHITE.mix(0.85))
        .border_style(FAINT)
        .draw()?;
    Ok(())
}
