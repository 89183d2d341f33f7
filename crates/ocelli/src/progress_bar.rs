//! A bar while weights load, where somebody watches; a server that is ready in a second shows none.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Shown only after this long.
const PATIENCE: Duration = Duration::from_millis(500);
const REDRAW: Duration = Duration::from_millis(100);
const WIDTH: usize = 32;

/// Draws on standard error when it is a terminal.
pub struct ProgressBar {
    began: Instant,
    drawn: Option<Instant>,
    terminal: bool,
}

impl ProgressBar {
    /// Begins now.
    pub fn new() -> Self {
        Self { began: Instant::now(), drawn: None, terminal: std::io::stderr().is_terminal() }
    }

    /// `done` of `total` bytes are loaded.
    pub fn update(&mut self, done: u64, total: u64) {
        let due = self.drawn.map_or(self.began.elapsed() > PATIENCE, |last| last.elapsed() > REDRAW);
        if !self.terminal || !due {
            return;
        }
        self.drawn = Some(Instant::now());
        let share = done as f64 / total.max(1) as f64;
        let full = (share * WIDTH as f64) as usize;
        let gib = |bytes: u64| bytes as f64 / (1u64 << 30) as f64;
        let rate = gib(done) / self.began.elapsed().as_secs_f64();
        let bar = format!("{}{}", "=".repeat(full.min(WIDTH)), " ".repeat(WIDTH.saturating_sub(full)));
        // a bar that cannot be drawn is no reason to stop
        let _ = write!(
            std::io::stderr(),
            "\rloading weights [{bar}] {:.2} of {:.2} GiB, {rate:.1} GiB/s ",
            gib(done),
            gib(total)
        );
    }
}

impl Default for ProgressBar {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for ProgressBar {
    fn drop(&mut self) {
        if self.drawn.is_some() {
            let _ = writeln!(std::io::stderr());
        }
    }
}
