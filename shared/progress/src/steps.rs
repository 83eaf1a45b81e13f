//! Steps of unknown length: a spinner on a terminal, plain lines elsewhere.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

#[derive(Clone)]
pub struct Steps {
    spinner: Option<ProgressBar>,
}

impl Steps {
    /// Starts the spinner.
    pub fn start() -> Self {
        Self::with_template("{spinner:.cyan} {msg}")
    }

    /// Starts the spinner with the elapsed time.
    pub fn start_timed() -> Self {
        Self::with_template("{spinner:.cyan} {elapsed} {msg}")
    }

    fn with_template(template: &str) -> Self {
        let spinner = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template(template);
            let spinner =
                ProgressBar::new_spinner().with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            spinner.enable_steady_tick(Duration::from_millis(100));
            spinner
        });
        Self { spinner }
    }

    /// Shows the current step. On a terminal it replaces the previous one.
    pub fn step(&self, what: &str) {
        match &self.spinner {
            Some(spinner) => spinner.set_message(what.to_owned()),
            None => eprintln!("  {what}"),
        }
    }

    /// Shows what the command waits for. On a terminal only, because elsewhere each call would add a line.
    pub fn waiting(&self, what: &str) {
        if let Some(spinner) = &self.spinner {
            spinner.set_message(what.to_owned());
        }
    }

    /// Writes a line about a completed step.
    pub fn done(&self, what: &str) {
        self.line("✓", what);
    }

    /// Writes a warning.
    pub fn warn(&self, what: &str) {
        self.line("!", what);
    }

    fn line(&self, mark: &str, what: &str) {
        match &self.spinner {
            Some(spinner) => spinner.println(format!("{mark} {what}")),
            None => eprintln!("{mark} {what}"),
        }
    }

    /// Removes the spinner.
    pub fn end(&self) {
        if let Some(spinner) = &self.spinner {
            spinner.finish_and_clear();
        }
    }
}
