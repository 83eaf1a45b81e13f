//! The table for a terminal.

use std::fmt::Write;

use super::{Cost, Figure, Goal, Report, Section};

const NAME: usize = 44;

/// Renders one table of figure, ceiling, ratio and goal, with the cost of the loads below each scenario.
pub fn render(report: &Report) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "\n{}\n{} · {}", report.machine, report.date, report.commit);
    let _ =
        writeln!(text, "\n{:NAME$} {:>12} {:>12} {:>6}   goal", "median of the rounds", "measured", "ceiling", "ratio");
    for section in &report.sections {
        of_section(&mut text, section);
    }
    text
}

fn of_section(text: &mut String, section: &Section) {
    let _ = writeln!(text, "\n{}: {}", section.scenario, section.about);
    for figure in &section.figures {
        let _ = writeln!(text, "{}", row(figure));
    }
    for cost in &section.costs {
        let _ = writeln!(text, "{}", of_cost(cost));
    }
    if let Some(error) = &section.error {
        let _ = writeln!(text, "  INCOMPLETE: {error}");
    }
}

fn row(figure: &Figure) -> String {
    let name = format!("  {}, {}", figure.name, figure.unit);
    let ceiling = figure.ceiling.map(number).unwrap_or_default();
    let ratio = figure.ratio().map(|r| format!("{r:.2}")).unwrap_or_default();
    let goal = goals(figure);
    let against = figure.against.as_ref().map(|what| format!("  ({what})")).unwrap_or_default();
    format!("{name:NAME$} {:>12} {ceiling:>12} {ratio:>6}   {goal}{against}", number(figure.value))
}

/// Renders the goals, and one mark that says whether all are met. Returns an empty string if there are none.
pub fn goals(figure: &Figure) -> String {
    let one = |goal: &Goal| match *goal {
        Goal::AtLeast(bound) => format!("≥ {}", number(bound)),
        Goal::AtMost(bound) => format!("≤ {}", number(bound)),
        Goal::RatioAtLeast(bound) => format!("≥ {bound:.2} ×"),
        Goal::RatioAtMost(bound) => format!("≤ {bound:.2} ×"),
    };
    let mark = match figure.met() {
        None => return String::new(),
        Some(true) => "✓",
        Some(false) => "✗",
    };
    format!("{} {mark}", figure.goals.iter().map(one).collect::<Vec<_>>().join(", "))
}

fn of_cost(cost: &Cost) -> String {
    let list = |values: &[(String, f64)]| {
        values.iter().map(|(name, value)| format!("{name} {}", number(*value))).collect::<Vec<_>>().join(" · ")
    };
    let load = if cost.load.is_empty() { String::new() } else { format!(" ({})", cost.load) };
    let others: Vec<String> = cost.others.iter().map(|share| format!("{:.0}", share * 100.0)).collect();
    let noisy = if cost.is_noisy() { "  ! noisy" } else { "" };
    if cost.along.is_some() {
        return format!(
            "  CPU, µs/{}{load}: {} · all {}{noisy}",
            cost.per,
            list(&cost.cpu),
            number(cost.product_cpu())
        );
    }
    format!(
        "  CPU, µs/{}{load}: {} · without load generator and sink {}\n  peak memory, MiB: {}\n  other processes, % of a core, by round: {}{noisy}",
        cost.per,
        list(&cost.cpu),
        number(cost.product_cpu()),
        list(&cost.memory),
        others.join(" ")
    )
}

/// Formats a number: two decimals below 10, one below 1,000, otherwise none, with thousands separators.
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let size = value.abs();
    if size < 10.0 {
        return format!("{value:.2}");
    }
    if size < 1_000.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{size:.0}");
    let mut grouped = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if value < 0.0 { format!("-{grouped}") } else { grouped }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        let shown: Vec<String> = [0.4567, 12.34, 123.0, 1_234.6, 1_234_567.0, -5_000.0, f64::NAN].map(number).into();
        assert_eq!(shown, ["0.46", "12.3", "123.0", "1,235", "1,234,567", "-5,000", "–"]);
    }

    #[test]
    fn unmet_goal_is_shown() {
        let figure = Figure::one("x", "ms", 12.0).goal(Goal::AtMost(10.0));
        assert_eq!(goals(&figure), "≤ 10.0 ✗");
        assert!(row(&figure).contains("x, ms"));
    }
}
