//! Chart styles.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

pub const FONT: &str = "Helvetica, Arial, sans-serif";
pub const INK: RGBColor = RGBColor(40, 44, 52);
pub const FAINT: RGBColor = RGBColor(225, 228, 232);
pub const GREY: RGBColor = RGBColor(130, 136, 145);
/// Colour of goals.
pub const GOAL: RGBColor = RGBColor(200, 30, 60);
pub const FIRST: RGBColor = RGBColor(0, 114, 178);
pub const SECOND: RGBColor = RGBColor(230, 140, 0);

/// Returns a process's colour, the same in every chart. The palette suits colour-blind readers.
pub fn of_process(name: &str) -> RGBColor {
    match name {
        "gateway" => RGBColor(0, 114, 178),
        "nats" => RGBColor(86, 180, 233),
        "worker-automation" => RGBColor(230, 140, 0),
        "worker-automation 2" => RGBColor(240, 190, 90),
        "postgres" => RGBColor(0, 158, 115),
        "scheduler" => RGBColor(204, 121, 167),
        "worker-delivery" => RGBColor(120, 94, 180),
        "redis" => RGBColor(213, 94, 0),
        _ => RGBColor(150, 150, 150),
    }
}

/// Stacking order of processes, which is the path of an event.
pub const ORDER: [&str; 7] =
    ["gateway", "redis", "nats", "worker-automation", "postgres", "scheduler", "worker-delivery"];

pub fn text(size: u32) -> TextStyle<'static> {
    (FONT, size).into_font().color(&INK)
}

pub fn centered(size: u32) -> TextStyle<'static> {
    text(size).pos(Pos::new(HPos::Center, VPos::Top))
}

/// Formats a number: `12`, `1.5 k`, `80 k`, `1 M`.
pub fn short(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        v if v >= 1e6 => (value / 1e6, " M"),
        v if v >= 1e3 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    let text = if (scaled - scaled.round()).abs() < 0.05 { format!("{scaled:.0}") } else { format!("{scaled:.1}") };
    text + unit
}

#[cfg(test)]
mod tests {
    #[test]
    fn axes_have_short_numbers() {
        assert_eq!([12.0, 1_500.0, 80_000.0, 1e6].map(super::short), ["12", "1.5 k", "80 k", "1 M"]);
    }
}
