//! Showing what is being done, on standard error: bars and a spinner on a terminal, plain lines elsewhere.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Results go to standard output, everything else goes here.
#[derive(Clone)]
pub struct Progress {
    spinner: Option<ProgressBar>,
}

impl Progress {
    pub fn start() -> Self {
        let spinner = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{spinner:.cyan} {elapsed} {msg}");
            let spinner =
                ProgressBar::new_spinner().with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            spinner.enable_steady_tick(Duration::from_millis(100));
            spinner
        });
        Self { spinner }
    }

    /// What is under way now. On a terminal it is replaced by the next step.
    pub fn step(&self, what: &str) {
        match &self.spinner {
            Some(spinner) => spinner.set_message(what.to_owned()),
            None => eprintln!("  {what}"),
        }
    }

    /// What is done, to stay on the screen.
    pub fn done(&self, what: &str) {
        self.line("✓", what);
    }

    /// What the user should know, though all goes on.
    pub fn warn(&self, what: &str) {
        self.line("!", what);
    }

    fn line(&self, mark: &str, what: &str) {
        match &self.spinner {
            Some(spinner) => spinner.println(format!("{mark} {what}")),
            None => eprintln!("{mark} {what}"),
        }
    }

    /// A bar for something of known size; it hides itself where there is no terminal.
    pub fn bar(&self, what: &str, total: u64) -> ProgressBar {
        self.step(&format!("filling {total} {what}"));
        let bar = if self.spinner.is_some() { ProgressBar::new(total) } else { ProgressBar::hidden() };
        let style = ProgressStyle::with_template("{msg:8} {wide_bar} {human_pos}/{human_len} {per_sec} {eta}");
        bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())).with_message(what.to_owned())
    }

    /// Takes the spinner away.
    pub fn end(&self) {
        if let Some(spinner) = &self.spinner {
            spinner.finish_and_clear();
        }
    }
}
