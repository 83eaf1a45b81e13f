//! Progress of work with a known size: a bar on a terminal, elsewhere a line every few seconds.

use std::io::IsTerminal;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const LINE_INTERVAL: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub struct Bar {
    shown: ProgressBar,
    /// When the last line was written; `None` on a terminal.
    lines: Option<Arc<Mutex<Instant>>>,
    what: &'static str,
    began: Instant,
}

impl Bar {
    /// Shows a bar for `total` units of work.
    pub fn new(what: &'static str, total: u64) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let target = if terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(total), target);
        let template = "{prefix:>10} {wide_bar} {human_pos}/{human_len}  {msg}  {elapsed}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_prefix(what);
        let lines = (!terminal).then(|| Arc::new(Mutex::new(Instant::now())));
        Self { shown: bar, lines, what, began: Instant::now() }
    }

    /// Advances by `n` units and shows the rate.
    pub fn add(&self, n: u64) {
        self.shown.inc(n);
        let rate = self.shown.position() as f64 / self.began.elapsed().as_secs_f64().max(0.001);
        self.show(format!("{rate:.0}/s"));
    }

    /// Advances to a position and shows a message.
    pub fn at(&self, position: u64, message: String) {
        self.shown.set_position(position);
        self.show(message);
    }

    fn show(&self, message: String) {
        if let Some(last) = &self.lines {
            let Ok(mut last) = last.lock() else { return };
            if last.elapsed() >= LINE_INTERVAL {
                *last = Instant::now();
                let (at, of) = (self.shown.position(), self.shown.length().unwrap_or(0));
                eprintln!("{:>10} {at}/{of}  {message}", self.what);
            }
        }
        self.shown.set_message(message);
    }

    /// Replaces the bar with a line that shows the position and the elapsed time.
    pub fn done(&self) {
        let seconds = self.began.elapsed().as_secs_f64();
        self.shown.finish_and_clear();
        eprintln!("{:>10} {} in {seconds:.1} s", self.what, self.shown.position());
    }
}
