//! Whether the device makes progress: the facts that health is judged by.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How the last batch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pulse {
    /// No batch yet.
    None,
    /// Rows came out this long ago.
    Beat(Duration),
    /// The device failed this long ago.
    Failed(Duration),
}

/// What the device is doing at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// There is work: queued, or on the device.
    pub has_work: bool,
    /// With work: since when no batch has ended (or since the work came, if that is later).
    pub without_progress: Duration,
    /// How the last batch ended.
    pub pulse: Pulse,
}

pub(super) struct Progress(Mutex<Facts>);

struct Facts {
    queued: usize,
    on_device: bool,
    /// When work came to an idle device, or the last batch ended.
    moved: Instant,
    last: Option<(Instant, bool)>,
}

impl Progress {
    pub fn new(now: Instant) -> Self {
        Self(Mutex::new(Facts { queued: 0, on_device: false, moved: now, last: None }))
    }

    /// The queue holds `queued` items now.
    pub fn waiting(&self, queued: usize, now: Instant) {
        self.change(|facts| {
            if facts.queued == 0 && !facts.on_device {
                facts.moved = now;
            }
            facts.queued = queued;
        });
    }

    /// A batch was taken; `queued` items stay behind.
    pub fn taken(&self, queued: usize, on_device: bool) {
        self.change(|facts| (facts.queued, facts.on_device) = (queued, on_device));
    }

    /// The device goes on with a batch that was reported as ended.
    pub fn resumed(&self) {
        self.change(|facts| facts.on_device = true);
    }

    /// A batch ended, well or not.
    pub fn ended(&self, well: bool, now: Instant) {
        self.change(|facts| (facts.on_device, facts.moved, facts.last) = (false, now, Some((now, well))));
    }

    pub fn standing(&self, now: Instant) -> Standing {
        self.change(|facts| {
            let has_work = facts.queued > 0 || facts.on_device;
            let pulse = match facts.last {
                None => Pulse::None,
                Some((at, true)) => Pulse::Beat(now.saturating_duration_since(at)),
                Some((at, false)) => Pulse::Failed(now.saturating_duration_since(at)),
            };
            let without_progress = if has_work { now.saturating_duration_since(facts.moved) } else { Duration::ZERO };
            Standing { has_work, without_progress, pulse }
        })
    }

    fn change<T>(&self, f: impl FnOnce(&mut Facts) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_without_progress_counts_from_the_arrival_of_work_or_the_last_batch() {
        let start = Instant::now();
        let at = |s: u64| start + Duration::from_secs(s);
        let progress = Progress::new(start);
        assert_eq!(
            progress.standing(at(100)),
            Standing { has_work: false, without_progress: Duration::ZERO, pulse: Pulse::None }
        );
        progress.waiting(1, at(100));
        progress.waiting(2, at(105));
        assert_eq!(progress.standing(at(107)).without_progress, Duration::from_secs(7));
        progress.taken(0, true);
        assert!(progress.standing(at(110)).has_work);
        assert_eq!(progress.standing(at(110)).without_progress, Duration::from_secs(10));
        progress.ended(true, at(111));
        assert_eq!(
            progress.standing(at(113)),
            Standing { has_work: false, without_progress: Duration::ZERO, pulse: Pulse::Beat(Duration::from_secs(2)) }
        );
        progress.waiting(3, at(200));
        progress.taken(2, true);
        progress.ended(false, at(201));
        let standing = progress.standing(at(204));
        assert_eq!((standing.has_work, standing.without_progress), (true, Duration::from_secs(3)));
        assert_eq!(standing.pulse, Pulse::Failed(Duration::from_secs(3)));
    }
}
