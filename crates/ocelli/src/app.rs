//! What a running server is made of: one value that the routes share.

use crate::config::Config;
use crate::destinations::Destinations;
use crate::drain::Drain;
use crate::encoder::Encoder;
use crate::health::Health;
use crate::prepare::Prepare;
use ocelli_core::lifecycle::Table;
use ocelli_core::scheduler::{Admission, Permit};
use ocelli_core::{Fault, Reason};
use ocelli_delivery::{Delivery, Staged, WireDtype};
use ocelli_engine::DType;
use ocelli_models::{Card, Processor};
use std::future::Future;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

/// All parts of a server, wired by [`crate::start`].
pub struct App {
    /// What was asked for, validated.
    pub config: Config,
    /// What the checkpoint is.
    pub card: Card,
    /// Grids to rows.
    pub processor: Arc<dyn Processor>,
    /// Items to patches.
    pub prepare: Prepare,
    /// Patches to rows.
    pub encoder: Encoder,
    /// One entry a request.
    pub table: Table<Staged>,
    /// Room in the system.
    pub admission: Admission,
    /// Room for bodies that are being read, by their declared length.
    pub bodies: Admission,
    /// Rows to other machines.
    pub delivery: Arc<dyn Delivery>,
    /// Who may be sent to.
    pub destinations: Destinations,
    /// The judge of `/health`.
    pub health: Health,
    /// Whether we are leaving.
    pub drain: Drain,
    /// Work that outlives its HTTP call: telling destinations of failures.
    pub tasks: TaskTracker,
    /// How many of those there may be.
    pub error_deliveries: Arc<Semaphore>,
}

impl App {
    /// Room for a request, until the permit is dropped.
    ///
    /// # Errors
    /// `Draining` and `Overloaded`.
    pub fn admit(&self, items: usize, bytes: usize) -> Result<Permit, Fault> {
        if self.drain.is_draining() {
            return Err(Fault::new(Reason::Draining, "the server is shutting down"));
        }
        self.admission.admit(items, bytes)
    }

    /// Bounds an encode by `--encode-timeout-s` and by the end of patience when draining.
    ///
    /// # Errors
    /// The encode's own, `EncodeTimeout`, `Draining`.
    pub async fn in_time<T>(&self, encode: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        let limit = self.config.encode_timeout;
        tokio::select! {
            done = tokio::time::timeout(limit, encode) => done.unwrap_or_else(|_| {
                let message = format!("encode timed out after {} s (--encode-timeout-s)", limit.as_secs_f32());
                Err(Fault::new(Reason::EncodeTimeout, message))
            }),
            () = self.drain.hard_stop() => Err(Fault::new(Reason::Draining, "the server shut down before the encode ended")),
        }
    }

    /// The element type of the rows, in the wire's words.
    pub fn wire_dtype(&self) -> WireDtype {
        match self.card.dtype {
            DType::F32 => WireDtype::F32,
            DType::F16 => WireDtype::F16,
            DType::BF16 => WireDtype::BF16,
        }
    }

    /// Bytes of one output row.
    pub fn row_bytes(&self) -> usize {
        self.card.dim * self.wire_dtype().size()
    }
}
