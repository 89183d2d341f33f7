//! Wiring, top to bottom: each step is named in the log, and fails with one sentence.

use crate::api;
use crate::app::App;
use crate::config::{Backend, Config};
use crate::destinations::Destinations;
use crate::drain::Drain;
use crate::encoder::{Device, Encoder, EncoderLimits};
use crate::health::Health;
use crate::prepare::Prepare;
use crate::progress_bar::ProgressBar;
use ocelli_core::lifecycle::{Limits, Table};
use ocelli_core::scheduler::{Admission, AdmissionLimits, BatchLimits};
use ocelli_delivery::{ZmqDelivery, ZmqOptions};
use ocelli_engine::cpu::CpuOps;
use ocelli_media::{FetchPolicy, Fetcher, ImageLimits};
use ocelli_models::{ModelError, OpenOptions, Opened};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

/// Destinations of one part: TP ranks of a language server.
const MAX_DESTINATIONS: usize = 1024;
/// Parts whose failure is still to be told to destinations that have yet to register.
const MAX_ERROR_DELIVERIES: usize = 1024;
/// What is still in flight when patience ends gets this long to tell its destinations.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Why a server did not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The checkpoint cannot be served.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Another process has the port, or the host is not ours.
    #[error("cannot listen on {host}:{port}: {why}")]
    Listen {
        /// `--host`.
        host: String,
        /// `--port`.
        port: u16,
        /// The system's word.
        why: std::io::Error,
    },
    /// The client for media could not be made.
    #[error("media client: {0}")]
    Media(#[from] ocelli_media::MediaError),
    /// The delivery thread could not be started.
    #[error("delivery: {0}")]
    Delivery(#[from] ocelli_delivery::DeliveryError),
    /// The CPU backend could not be made.
    #[error("device: {0}")]
    Engine(#[from] ocelli_engine::EngineError),
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
}

/// A server that listens but does not serve yet.
pub struct Server {
    app: Arc<App>,
    listener: TcpListener,
    delivery: Arc<ZmqDelivery>,
}

/// Opens everything that `config` names.
///
/// # Errors
/// The first step that fails.
pub async fn start(config: Config) -> Result<Server, StartError> {
    let began = Instant::now();
    // the port first: a second server on it should fail at once, not after loading weights
    let listener = listen(&config).await?;
    let options = OpenOptions { dtype: config.dtype, image_config: config.image_config.clone() };
    let opened = Arc::new(ocelli_models::open(&config.model_path, &options)?);
    tracing::info!(architecture = opened.card().architecture, dtype = opened.card().dtype.name(), "checkpoint opened");
    let (threads, model) = (config.cpu_threads, opened.clone());
    let encoder = encoder(&config, &opened, move || {
        let ops = Box::new(CpuOps::new(threads)?);
        let mut bar = ProgressBar::new();
        let tower = model.load(ops.as_ref(), &mut |done, total| bar.update(done, total))?;
        Ok(Device { ops, tower })
    })?;
    tracing::info!(seconds = began.elapsed().as_secs_f32(), "weights loaded");
    let server = wire(config, &opened, encoder, listener)?;
    tracing::info!(
        address = %server.address(),
        backend = server.app.config.backend.as_str(),
        seconds = began.elapsed().as_secs_f32(),
        "ready"
    );
    Ok(server)
}

async fn listen(config: &Config) -> Result<TcpListener, StartError> {
    let host = config.host.trim_start_matches('[').trim_end_matches(']');
    let failed = |why| StartError::Listen { host: config.host.clone(), port: config.port, why };
    TcpListener::bind((host, config.port)).await.map_err(failed)
}

/// The same with a device of the caller's making, for programs that bring their own and for tests.
///
/// # Errors
/// The first step that fails.
pub async fn start_with(
    config: Config,
    opened: Arc<Opened>,
    device: impl FnOnce() -> Result<Device, StartError> + Send + 'static,
) -> Result<Server, StartError> {
    let listener = listen(&config).await?;
    let encoder = encoder(&config, &opened, device)?;
    wire(config, &opened, encoder, listener)
}

fn encoder(
    config: &Config,
    opened: &Opened,
    device: impl FnOnce() -> Result<Device, StartError> + Send + 'static,
) -> Result<Encoder, StartError> {
    let limits = EncoderLimits {
        batch: BatchLimits { max_requests: config.max_batch_requests, max_patches: config.max_batch_patches },
        queue_items: config.max_pending_requests.saturating_mul(config.max_items_per_request),
    };
    let processor = opened.processor();
    let row_bytes = opened.card().dim * opened.card().dtype.bytes();
    Encoder::start(limits, row_bytes, move |prepared| processor.rows(prepared.grid), device)?
}

fn wire(config: Config, opened: &Opened, encoder: Encoder, listener: TcpListener) -> Result<Server, StartError> {
    let policy = FetchPolicy {
        allowed_domains: (!config.allowed_media_domains.is_empty()).then(|| config.allowed_media_domains.clone()),
        allow_private_addresses: config.allow_private_media_addresses,
        allowed_local_path: config.allowed_local_media_path.clone(),
        max_bytes: config.max_media_bytes,
        timeout: config.media_timeout,
        ..FetchPolicy::default()
    };
    let limits = ImageLimits { max_pixels: config.max_image_pixels };
    let prepare =
        Prepare::new(Fetcher::new(policy)?, opened.processor(), limits, config.image_reading, config.prepare_workers);
    let delivery = Arc::new(ZmqDelivery::start(delivery_options(&config))?);
    let app = App {
        card: opened.card().clone(),
        processor: opened.processor(),
        prepare,
        encoder,
        table: Table::new(Limits {
            max_requests: config.max_pending_requests.saturating_add(MAX_ERROR_DELIVERIES),
            metadata_ttl: config.send_timeout,
            max_early_waiters: config.max_pending_requests.saturating_mul(8),
            max_destinations: MAX_DESTINATIONS,
        }),
        admission: Admission::new(AdmissionLimits {
            max_requests: config.max_pending_requests,
            max_bytes: config.max_pending_bytes,
        }),
        bodies: Admission::new(AdmissionLimits {
            max_requests: api::server::MAX_CONNECTIONS,
            max_bytes: config.max_pending_bytes,
        }),
        delivery: delivery.clone(),
        destinations: Destinations::new(config.allowed_destinations.clone()),
        health: Health::new(opened.card(), config.health_stall),
        drain: Drain::new(),
        tasks: TaskTracker::new(),
        error_deliveries: Arc::new(Semaphore::new(MAX_ERROR_DELIVERIES)),
        config,
    };
    Ok(Server { app: Arc::new(app), listener, delivery })
}

fn delivery_options(config: &Config) -> ZmqOptions {
    let mut options = ZmqOptions { send_timeout: config.send_timeout, ..ZmqOptions::default() };
    if config.backend == Backend::ZmqToTokenizer {
        // the tokenizer binds a fresh socket for each request: ours has no second message to wait for
        options.idle_timeout = Duration::ZERO;
    }
    options
}

impl Server {
    /// Where it listens: with `--port 0`, the port that the system chose.
    pub fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap_or_else(|_| SocketAddr::from(([0, 0, 0, 0], 0)))
    }

    /// The parts, for whoever runs a server inside a process.
    pub fn app(&self) -> Arc<App> {
        self.app.clone()
    }

    /// Serves until [`Drain::begin`], then finishes or fails what is here within `--drain-timeout`.
    pub async fn run(self) {
        let Self { app, listener, delivery } = self;
        let sweeper = tokio::spawn(sweep(app.clone()));
        let gone = leave(app.clone());
        api::server::serve(listener, api::routes(app.clone()), gone).await;
        sweeper.abort();
        delivery.close(LAST_WORDS).await;
        tracing::info!("stopped");
    }
}

/// Resolves when nothing is left to wait for: connections stay open until then, since the requests that
/// are being finished still need their registrations.
async fn leave(app: Arc<App>) {
    app.drain.draining().await;
    let patience = app.config.drain_timeout;
    tracing::info!(seconds = patience.as_secs_f32(), active = app.table.stats().entries, "draining");
    app.tasks.close();
    if tokio::time::timeout(patience, idle(&app)).await.is_err() {
        tracing::warn!(active = app.table.stats().entries, "drain time-out: what is left is failed");
        app.drain.stop_hard();
        let _ = tokio::time::timeout(LAST_WORDS, idle(&app)).await;
    }
}

async fn idle(app: &App) {
    // the table has no call for this: nobody but shutdown waits for emptiness
    while app.table.stats().entries > 0 || app.admission.in_use().requests > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    app.tasks.wait().await;
}

/// The backstop: whatever nobody came for.
async fn sweep(app: Arc<App>) {
    let every = (app.config.send_timeout / 4).max(Duration::from_millis(50));
    loop {
        tokio::time::sleep(every).await;
        for swept in app.table.sweep(Instant::now()) {
            tracing::warn!(?swept, "nobody came for this request, it is released");
        }
    }
}
