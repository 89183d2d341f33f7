//! The loop of the device thread: take a batch, run it, hand each item its rows.

use super::{Device, EncodedItem, Shared};
use ocelli_core::scheduler::BatchLimits;
use ocelli_core::{Fault, Reason};
use ocelli_delivery::Staged;
use ocelli_models::Prepared;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::PoisonError;
use std::time::Instant;
use tokio::sync::oneshot;

/// One item on its way to the device.
pub(super) struct Job {
    pub prepared: Prepared,
    pub reply: oneshot::Sender<Result<EncodedItem, Fault>>,
    pub submitted: Instant,
}

impl Job {
    /// Somebody still waits for it.
    fn is_live(&self) -> bool {
        !self.reply.is_closed()
    }
}

/// Runs until the encoder is closed and its queue is empty.
pub(super) fn run(
    shared: &Shared,
    mut device: Device,
    limits: BatchLimits,
    row_bytes: usize,
    rows_of: &dyn Fn(&Prepared) -> usize,
) {
    while let Some(batch) = next_batch(shared, limits) {
        if batch.is_empty() {
            continue;
        }
        run_batch(shared, &mut device, batch, row_bytes, rows_of);
    }
}

fn next_batch(shared: &Shared, limits: BatchLimits) -> Option<Vec<Job>> {
    let mut waiting = shared.lock();
    while waiting.queue.is_empty() {
        if waiting.closed {
            return None;
        }
        waiting = shared.wake.wait(waiting).unwrap_or_else(PoisonError::into_inner);
    }
    let batch = waiting.queue.next_batch(limits, Job::is_live);
    shared.progress.taken(waiting.queue.len(), !batch.is_empty());
    Some(batch)
}

/// Runs a batch; when it fails, each of its items alone, once, so that one cannot fail its neighbours.
/// How it ended is known before anybody hears of it: whoever asks for health next must find it.
fn run_batch(
    shared: &Shared,
    device: &mut Device,
    batch: Vec<Job>,
    row_bytes: usize,
    rows_of: &dyn Fn(&Prepared) -> usize,
) {
    let began = Instant::now();
    let items: Vec<&Prepared> = batch.iter().map(|job| &job.prepared).collect();
    let result = forward(device, &items, row_bytes, rows_of);
    let patches: usize = items.iter().map(|item| item.grid.patches()).sum();
    shared.progress.ended(result.is_ok(), Instant::now());
    match result {
        Ok(rows) => hand_out(batch, rows, began),
        Err(why) if batch.len() == 1 => {
            tracing::error!(%why, patches, "forward failed");
            batch.into_iter().for_each(|job| answer(job.reply, Err(why.clone())));
        }
        Err(why) => {
            tracing::error!(%why, patches, items = batch.len(), "forward failed, its items are tried one by one");
            for job in batch {
                shared.progress.resumed();
                run_batch(shared, device, vec![job], row_bytes, rows_of);
            }
        }
    }
}

/// A waiter that left during the forward is no error: what it waited for is dropped here.
fn answer(reply: oneshot::Sender<Result<EncodedItem, Fault>>, result: Result<EncodedItem, Fault>) {
    drop(reply.send(result));
}

fn hand_out(batch: Vec<Job>, rows: Vec<Staged>, began: Instant) {
    let forward = began.elapsed();
    for (job, rows) in batch.into_iter().zip(rows) {
        let queued = began.saturating_duration_since(job.submitted);
        answer(job.reply, Ok(EncodedItem { rows, queued, forward }));
    }
}

/// One packed forward and one copy to the host; each item gets its slice of that.
fn forward(
    device: &mut Device,
    items: &[&Prepared],
    row_bytes: usize,
    rows_of: &dyn Fn(&Prepared) -> usize,
) -> Result<Vec<Staged>, Fault> {
    // a panic in a tower is a bug, but one request's bug must not end the service of all
    let computed = catch_unwind(AssertUnwindSafe(|| {
        let rows = device.tower.forward(device.ops.as_ref(), items)?;
        device.ops.download(&rows)
    }));
    let bytes = match computed {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(why)) => return Err(Fault::new(Reason::Engine, format!("internal encoding error: {why}"))),
        Err(_) => return Err(Fault::new(Reason::Internal, "internal encoding error: the tower panicked")),
    };
    let lengths: Vec<usize> = items.iter().map(|item| rows_of(item) * row_bytes).collect();
    let expected: usize = lengths.iter().sum();
    if expected != bytes.len() {
        let message =
            format!("internal encoding error: the tower gave {} bytes, its grids say {expected}", bytes.len());
        return Err(Fault::new(Reason::Internal, message));
    }
    let all = Staged::new(bytes);
    let mut start = 0;
    Ok(lengths
        .into_iter()
        .map(|length| {
            let rows = all.slice(start..start + length);
            start += length;
            rows
        })
        .collect())
}
