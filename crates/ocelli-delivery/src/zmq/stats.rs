//! What the engine counts.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Gauges and counters at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ZmqStats {
    /// Open sockets.
    pub endpoints: u64,
    /// Messages that libzmq does not have yet.
    pub queued: u64,
    /// Messages that libzmq has and has not let go of.
    pub in_flight: u64,
    /// Messages that have left.
    pub sent_total: u64,
    /// Messages that ended otherwise, time-outs included.
    pub failed_total: u64,
    /// Messages that ended by the send time-out.
    pub timed_out_total: u64,
    /// Messages that were skipped because nobody waited for them any more.
    pub skipped_total: u64,
    /// Sockets made.
    pub sockets_total: u64,
}

/// Written by the owner thread, read by anyone.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) endpoints: AtomicU64,
    pub(super) queued: AtomicU64,
    pub(super) in_flight: AtomicU64,
    pub(super) sent: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) timed_out: AtomicU64,
    pub(super) skipped: AtomicU64,
    pub(super) sockets: AtomicU64,
}

impl Counters {
    pub(super) fn read(&self) -> ZmqStats {
        ZmqStats {
            endpoints: self.endpoints.load(Relaxed),
            queued: self.queued.load(Relaxed),
            in_flight: self.in_flight.load(Relaxed),
            sent_total: self.sent.load(Relaxed),
            failed_total: self.failed.load(Relaxed),
            timed_out_total: self.timed_out.load(Relaxed),
            skipped_total: self.skipped.load(Relaxed),
            sockets_total: self.sockets.load(Relaxed),
        }
    }
}

pub(super) fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Relaxed);
}
