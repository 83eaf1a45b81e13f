//! Progress on standard error: a bar on a terminal, a line every few seconds elsewhere.

use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::time::Instant;

const LINE_EVERY: Duration = Duration::from_secs(5);

pub struct Progress {
    bar: ProgressBar,
    /// Where there is no terminal: when the last line was written.
    lines: Option<Mutex<Instant>>,
    what: &'static str,
    began: Instant,
}

impl Progress {
    pub fn new(what: &'static str, total: u64) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let target = if terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(total), target);
        let template = "{prefix:>10} {wide_bar} {human_pos}/{human_len}  {msg}  {elapsed}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_prefix(what);
        let lines = (!terminal).then(|| Mutex::new(Instant::now()));
        Self { bar, lines, what, began: Instant::now() }
    }

    /// So many more, of what the total counts.
    pub fn add(&self, n: u64) {
        self.bar.inc(n);
        let rate = self.bar.position() as f64 / self.began.elapsed().as_secs_f64().max(0.001);
        self.show(format!("{rate:.0}/s"));
    }

    /// So many in all by now.
    pub fn at(&self, position: u64, message: String) {
        self.bar.set_position(position);
        self.show(message);
    }

    fn show(&self, message: String) {
        if let Some(last) = &self.lines {
            let Ok(mut last) = last.lock() else { return };
            if last.elapsed() >= LINE_EVERY {
                *last = Instant::now();
                let (at, of) = (self.bar.position(), self.bar.length().unwrap_or(0));
                eprintln!("{:>10} {at}/{of}  {message}", self.what);
            }
        }
        self.bar.set_message(message);
    }

    pub fn done(&self) {
        let seconds = self.began.elapsed().as_secs_f64();
        self.bar.finish_and_clear();
        eprintln!("{:>10} {} in {seconds:.1} s", self.what, self.bar.position());
    }
}
