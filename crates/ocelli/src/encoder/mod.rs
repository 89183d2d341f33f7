//! The device side: one OS thread owns a device and its tower, and takes batches from a bounded queue.
//!
//! An idle device starts at once with what is there; a busy one finds the next batch waiting. What
//! nobody waits for any more is skipped when a batch is built.

mod device;
mod progress;

pub use progress::{Pulse, Standing};

use device::Job;
use ocelli_core::scheduler::{BatchLimits, Queue, Work};
use ocelli_core::{Fault, Reason};
use ocelli_delivery::Staged;
use ocelli_engine::Ops;
use ocelli_models::{Prepared, Tower};
use progress::Progress;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Everything that the device thread needs, made on that thread: a device's memory belongs to it.
pub struct Device {
    /// The operations of the device.
    pub ops: Box<dyn Ops>,
    /// The loaded tower.
    pub tower: Box<dyn Tower>,
}

/// Sizes of the queue and of a batch.
#[derive(Debug, Clone, Copy)]
pub struct EncoderLimits {
    /// What one forward may hold.
    pub batch: BatchLimits,
    /// Items that may wait for the device.
    pub queue_items: usize,
}

/// Rows of one item, and where its time went.
pub struct EncodedItem {
    /// `[rows, dim]` in the card's dtype: a slice of its batch's output.
    pub rows: Staged,
    /// From submission to the start of its batch.
    pub queued: Duration,
    /// Upload, compute and download of its batch.
    pub forward: Duration,
}

/// Handle to the device thread. Dropping it ends the thread after its batch.
pub struct Encoder {
    shared: Arc<Shared>,
    requests: AtomicU64,
    thread: Option<JoinHandle<()>>,
}

/// What submitters and the device thread share: the queue behind one small lock.
struct Shared {
    waiting: Mutex<Waiting>,
    wake: Condvar,
    progress: Progress,
}

struct Waiting {
    queue: Queue<Job>,
    closed: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // the queue stays whole if a holder panics: each method leaves it consistent
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Rows that are being computed. Dropping it cancels the item.
pub struct Pending(oneshot::Receiver<Result<EncodedItem, Fault>>);

impl Pending {
    /// Waits for the rows.
    ///
    /// # Errors
    /// What the device or its batch failed with.
    pub async fn rows(self) -> Result<EncodedItem, Fault> {
        self.0.await.unwrap_or_else(|_| Err(Fault::new(Reason::Draining, "the encoder stopped before this item")))
    }
}

impl Encoder {
    /// Starts the thread and waits until `open` has loaded the tower on it. `rows_of` gives the output
    /// rows of a prepared item, `row_bytes` the bytes of one.
    ///
    /// # Errors
    /// What `open` fails with; a thread that cannot be started.
    pub fn start<E: Send + 'static>(
        limits: EncoderLimits,
        row_bytes: usize,
        rows_of: impl Fn(&Prepared) -> usize + Send + 'static,
        open: impl FnOnce() -> Result<Device, E> + Send + 'static,
    ) -> Result<Result<Self, E>, std::io::Error> {
        let queue = Queue::new(limits.queue_items);
        let shared = Arc::new(Shared {
            waiting: Mutex::new(Waiting { queue, closed: false }),
            wake: Condvar::new(),
            progress: Progress::new(Instant::now()),
        });
        let (ready, opened) = std::sync::mpsc::sync_channel(1);
        let of_thread = shared.clone();
        let thread = std::thread::Builder::new().name("ocelli-device".into()).spawn(move || match open() {
            Ok(device) => {
                let _ = ready.send(Ok(()));
                device::run(&of_thread, device, limits.batch, row_bytes, &rows_of);
            }
            Err(why) => {
                let _ = ready.send(Err(why));
            }
        })?;
        let gone = || std::io::Error::other("the device thread ended while it loaded the tower");
        match opened.recv().map_err(|_| gone())? {
            Ok(()) => Ok(Ok(Self { shared, requests: AtomicU64::new(0), thread: Some(thread) })),
            Err(why) => Ok(Err(why)),
        }
    }

    /// A number for a request, by which a batch counts requests.
    pub fn next_request(&self) -> u64 {
        self.requests.fetch_add(1, Ordering::Relaxed)
    }

    /// Queues an item.
    ///
    /// # Errors
    /// `Overloaded` when the queue is full, `Draining` when the encoder was stopped.
    pub fn submit(&self, request: u64, prepared: Prepared) -> Result<Pending, Fault> {
        let work = Work { patches: prepared.grid.patches(), bytes: prepared.bytes() };
        let (reply, rows) = oneshot::channel();
        let job = Job { prepared, reply, submitted: Instant::now() };
        let mut waiting = self.shared.lock();
        if waiting.closed {
            return Err(Fault::new(Reason::Draining, "the encoder is stopped"));
        }
        if waiting.queue.is_full() {
            waiting.queue.drop_dead(|job| !job.reply.is_closed());
        }
        waiting.queue.push(job, request, work)?;
        self.shared.progress.waiting(waiting.queue.len(), Instant::now());
        drop(waiting);
        self.shared.wake.notify_one();
        Ok(Pending(rows))
    }

    /// What the device is doing, for health.
    pub fn standing(&self, now: Instant) -> Standing {
        self.shared.progress.standing(now)
    }

    /// Items that wait for the device.
    pub fn queued(&self) -> usize {
        self.shared.lock().queue.len()
    }

    fn close(&self) {
        self.shared.lock().closed = true;
        self.shared.wake.notify_all();
    }
}

impl Drop for Encoder {
    fn drop(&mut self) {
        self.close();
        // not joined: a wedged device must not keep the process from ending
        drop(self.thread.take());
    }
}
