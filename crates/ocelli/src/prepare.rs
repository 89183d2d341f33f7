//! From an item to patches: fetch on the I/O threads, decode and process on a bounded CPU pool.

use crate::request::{Item, ItemSource};
use ocelli_core::{Fault, Modality, Reason};
use ocelli_media::{Fetcher, ImageLimits, ReadingMode, Source};
use ocelli_models::{Prepared, Processor};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// One prepared item and where its time went.
pub struct PreparedItem {
    /// What the tower eats.
    pub prepared: Prepared,
    /// Width and height as decoded, in pixels.
    pub size: (u32, u32),
    /// Fetching, waiting for the other side included.
    pub fetch: Duration,
    /// Bytes to pixels.
    pub decode: Duration,
    /// Pixels to patches.
    pub process: Duration,
}

/// Prepares items of any request.
pub struct Prepare {
    fetcher: Fetcher,
    processor: Arc<dyn Processor>,
    limits: ImageLimits,
    mode: ReadingMode,
    /// As many as there are CPU workers: work beyond waits here, where dropping the wait costs nothing.
    workers: Arc<Semaphore>,
}

/// Set when nobody waits for a job any more; jobs look between their stages.
struct Abandon(Arc<AtomicBool>);

impl Drop for Abandon {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Prepare {
    /// `workers` items are decoded at a time.
    pub fn new(
        fetcher: Fetcher,
        processor: Arc<dyn Processor>,
        limits: ImageLimits,
        mode: ReadingMode,
        workers: usize,
    ) -> Self {
        Self { fetcher, processor, limits, mode, workers: Arc::new(Semaphore::new(workers)) }
    }

    /// Fetches, checks, decodes and processes one picture.
    ///
    /// # Errors
    /// The media and processor faults, without the item's index.
    pub async fn item(&self, item: &Item) -> Result<PreparedItem, Fault> {
        let began = Instant::now();
        let bytes = match &item.source {
            ItemSource::Bytes(bytes) => bytes.clone(),
            ItemSource::Text(text) => self.fetcher.fetch(&Source::parse(text, Modality::Image)?).await?,
        };
        let fetch = began.elapsed();
        let (hash, limits, mode, processor) =
            (item.content_hash.clone(), self.limits, self.mode, self.processor.clone());
        self.on_cpu(move |abandoned| {
            if let Some(hash) = hash {
                ocelli_media::verify_content_hash(&bytes, &hash)?;
            }
            let began = Instant::now();
            let picture = ocelli_media::decode_image(&bytes, &limits, mode)?;
            let decode = began.elapsed();
            if abandoned.load(Ordering::Relaxed) {
                return Err(Fault::new(Reason::Cancelled, "nobody waits for this item"));
            }
            let began = Instant::now();
            let prepared = processor.image(&picture)?;
            let size = (picture.width(), picture.height());
            Ok(PreparedItem { prepared, size, fetch, decode, process: began.elapsed() })
        })
        .await
    }

    async fn on_cpu<T: Send + 'static>(
        &self,
        job: impl FnOnce(&AtomicBool) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        let closed = |_| Fault::new(Reason::Draining, "the CPU pool is closed");
        let permit = self.workers.clone().acquire_owned().await.map_err(closed)?;
        let abandoned = Arc::new(AtomicBool::new(false));
        let abandon = Abandon(abandoned.clone());
        let done = tokio::task::spawn_blocking(move || {
            let result = job(&abandoned);
            drop(permit);
            result
        })
        .await;
        drop(abandon);
        done.unwrap_or_else(|_| Err(Fault::new(Reason::Internal, "preparing the item failed unexpectedly")))
    }
}
