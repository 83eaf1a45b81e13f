//! Generates the part of docs/reference/measurements.md between two markers. The rest is written by hand.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::table::{goals, number};
use super::{Cost, Drawing, Report, Section};

const BEGIN: &str = "<!-- bench:begin -->";
const END: &str = "<!-- bench:end -->";

/// Replaces the text between the markers of a file.
pub fn write(report: &Report, drawings: &[Drawing], path: &Path) -> Result<()> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    std::fs::write(path, replaced(&text, &render(report, drawings))?)?;
    Ok(())
}

fn replaced(text: &str, generated: &str) -> Result<String> {
    let (Some((before, rest)), true) = (text.split_once(BEGIN), text.contains(END)) else {
        bail!("the file lacks the lines {BEGIN} and {END}");
    };
    let after = rest.split_once(END).map_or("", |(_, after)| after);
    Ok(format!("{before}{BEGIN}\n{generated}{END}{after}"))
}

/// Renders the generated part as Markdown.
fn render(report: &Report, drawings: &[Drawing]) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{}; {}, {}.\n", report.machine, report.date, report.commit);
    let _ = writeln!(text, "| figure | measured | ceiling | ratio | goal |\n|---|---:|---:|---:|---|");
    for section in &report.sections {
        figures(&mut text, section);
    }
    missed(&mut text, &report.sections);
    for Drawing { file, shows } in drawings {
        let _ = writeln!(text, "\n![{shows}](measurements/{file})");
    }
    let costs: Vec<(&Section, &Cost)> =
        report.sections.iter().flat_map(|section| section.costs.iter().map(move |cost| (section, cost))).collect();
    let _ = writeln!(
        text,
        "\nCPU of each process, in microseconds per event (per request for bare servers, per message for delivery, and per run, wait or recipient where the load consists of those):\n"
    );
    by_process(&mut text, &costs, |cost| &cost.cpu, number);
    let _ = writeln!(text, "\nPeak memory of each process, in MiB:\n");
    by_process(&mut text, &costs, |cost| &cost.memory, |mib| format!("{mib:.0}"));
    let noisy: Vec<String> =
        costs.iter().filter(|(_, cost)| cost.is_noisy()).map(|(section, cost)| load(section, cost)).collect();
    if noisy.is_empty() {
        let _ = writeln!(text, "\nIn no round did other processes use more than 15 % of a core.");
    } else {
        let _ = writeln!(
            text,
            "\nOther processes used more than 15 % of a core in at least one round of: {}.",
            noisy.join("; ")
        );
    }
    text
}

fn figures(text: &mut String, section: &Section) {
    let _ = writeln!(text, "| **{}**: {} | | | | |", section.scenario, section.about);
    for figure in &section.figures {
        let ceiling = figure.ceiling.map(number).unwrap_or_default();
        let against = figure.against.as_ref().map(|what| format!(" ({what})")).unwrap_or_default();
        let ratio = figure.ratio().map(|r| format!("{r:.2}")).unwrap_or_default();
        let (name, unit, value) = (&figure.name, figure.unit, number(figure.value));
        let _ = writeln!(text, "| {name}, {unit} | {value} | {ceiling}{against} | {ratio} | {} |", goals(figure));
    }
    if let Some(error) = &section.error {
        let _ = writeln!(text, "| incomplete: {} | | | | |", error.replace(['\n', '|'], " "));
    }
}

/// Lists each missed goal, and by how much it is missed.
fn missed(text: &mut String, sections: &[Section]) {
    let mut lines = Vec::new();
    for section in sections {
        for figure in &section.figures {
            for by in figure.goals.iter().filter_map(|goal| figure.missed(*goal)) {
                let (name, value) = (&figure.name, number(figure.value));
                lines.push(format!("- {}: {name}, {value} {}: by {:.0} %", section.scenario, figure.unit, by * 100.0));
            }
        }
    }
    if lines.is_empty() {
        let _ = writeln!(text, "\nEvery goal is met.");
    } else {
        let _ = writeln!(text, "\nMissed goals:\n\n{}", lines.join("\n"));
    }
}

fn load(section: &Section, cost: &Cost) -> String {
    let load = if cost.load.is_empty() { String::new() } else { format!(", {}", cost.load) };
    format!("{}{load}", section.scenario)
}

fn by_process(
    text: &mut String,
    costs: &[(&Section, &Cost)],
    of: impl Fn(&Cost) -> &Vec<(String, f64)>,
    shown: impl Fn(f64) -> String,
) {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in costs.iter().flat_map(|(_, cost)| of(cost)) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let _ = writeln!(text, "| load | {} |\n|---|{}", names.join(" | "), "---:|".repeat(names.len()));
    for (section, cost) in costs {
        let value = |name: &&str| of(cost).iter().find(|(n, _)| n == name).map(|(_, v)| shown(*v)).unwrap_or_default();
        let values: Vec<String> = names.iter().map(value).collect();
        let _ = writeln!(text, "| {} | {} |", load(section, cost), values.join(" | "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Figure, Goal};

    #[test]
    fn only_text_between_the_markers_is_replaced() {
        let text = format!("before\n{BEGIN}\nold\n{END}\nafter\n");
        assert_eq!(replaced(&text, "new\n").unwrap(), format!("before\n{BEGIN}\nnew\n{END}\nafter\n"));
        assert!(replaced("no markers", "new").is_err());
    }

    #[test]
    fn tables_contain_figures_and_costs() {
        let cost = Cost { load: "x".into(), per: "event", cpu: vec![("gateway".into(), 1.5)], ..Cost::default() };
        let figure = Figure::one("accepted", "events/s", 5.0).against("bare", &[10.0]).goal(Goal::RatioAtLeast(0.6));
        let section =
            Section { scenario: "single".into(), figures: vec![figure], costs: vec![cost], ..Section::default() };
        let (machine, date, commit) = ("m".into(), "d".into(), "c".into());
        let report = Report { machine, date, commit, quick: false, sections: vec![section] };
        let text = render(&report, &[]);
        assert!(text.contains("| accepted, events/s | 5.00 | 10.0 (bare) | 0.50 | ≥ 0.60 × ✗ |"), "{text}");
        assert!(text.contains("| single, x | 1.50 |"), "{text}");
        assert!(text.contains("\nMissed goals:\n\n- single: accepted, 5.00 events/s: by 17 %\n"), "{text}");
    }
}
