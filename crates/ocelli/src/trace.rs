//! One log line a request: what it was, where its time went, how it ended. Never media, never rows.

use crate::encoder::EncodedItem;
use crate::prepare::PreparedItem;
use ocelli_core::{Fault, Modality, ReqId};
use std::time::{Duration, Instant};

/// Collects what the line says; written when the request ends, also when its client went away.
pub struct RequestLog {
    req_id: String,
    modality: Modality,
    items: usize,
    began: Instant,
    patches: usize,
    rows: usize,
    destinations: usize,
    fetch: Duration,
    decode: Duration,
    process: Duration,
    queue: Duration,
    forward: Duration,
    deliver: Duration,
    ended: bool,
}

impl RequestLog {
    /// A request that came now.
    pub fn begin(id: &ReqId, modality: Modality, items: usize) -> Self {
        let zero = Duration::ZERO;
        Self {
            // ids are the client's: shown, but never at length
            req_id: id.as_str().chars().take(128).collect(),
            modality,
            items,
            began: Instant::now(),
            patches: 0,
            rows: 0,
            destinations: 0,
            fetch: zero,
            decode: zero,
            process: zero,
            queue: zero,
            forward: zero,
            deliver: zero,
            ended: false,
        }
    }

    /// An item was prepared. Stage times of items add up, though they overlap.
    pub fn prepared(&mut self, item: &PreparedItem) {
        self.patches += item.prepared.grid.patches();
        self.fetch += item.fetch;
        self.decode += item.decode;
        self.process += item.process;
    }

    /// An item was encoded. Of several, the slowest counts.
    pub fn encoded(&mut self, item: &EncodedItem) {
        self.queue = self.queue.max(item.queued);
        self.forward = self.forward.max(item.forward);
    }

    /// The sends ended.
    pub fn delivered(&mut self, rows: usize, destinations: usize, took: Duration) {
        (self.rows, self.destinations, self.deliver) = (rows, destinations, took);
    }

    /// Writes the line.
    pub fn end(mut self, fault: Option<&Fault>) {
        self.ended = true;
        match fault {
            None => self.write("ok", ""),
            Some(fault) => self.write(fault.reason.as_str(), &fault.to_string()),
        }
    }

    fn write(&self, outcome: &str, message: &str) {
        let ms = |d: Duration| (d.as_secs_f64() * 1e6).round() / 1e3;
        tracing::info!(
            target: "ocelli::request",
            req_id = self.req_id,
            modality = self.modality.as_str(),
            items = self.items,
            patches = self.patches,
            rows = self.rows,
            destinations = self.destinations,
            fetch_ms = ms(self.fetch),
            decode_ms = ms(self.decode),
            process_ms = ms(self.process),
            queue_ms = ms(self.queue),
            forward_ms = ms(self.forward),
            deliver_ms = ms(self.deliver),
            total_ms = ms(self.began.elapsed()),
            outcome,
            detail = message,
            "request"
        );
    }
}

impl Drop for RequestLog {
    fn drop(&mut self) {
        if !self.ended {
            self.write("cancelled", "the client went away");
        }
    }
}
