//! Showing what is being done: a spinner on a terminal, plain lines elsewhere.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Writes to standard error; results belong on standard output.
#[derive(Clone)]
pub struct Progress {
    spinner: Option<ProgressBar>,
}

impl Progress {
    pub fn start() -> Self {
        let spinner = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{spinner:.cyan} {msg}");
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

    /// What is being waited for: on a terminal only, for elsewhere it would repeat itself.
    pub fn waiting(&self, what: &str) {
        if let Some(spinner) = &self.spinner {
            spinner.set_message(what.to_owned());
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

    /// Takes the spinner away.
    pub fn end(&self) {
        if let Some(spinner) = &self.spinner {
            spinner.finish_and_clear();
        }
    }
}
