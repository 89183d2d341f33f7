//! Delivery over real libzmq: PUSH sockets that connect, two frames a message, the second out of the
//! staged rows without copying.
//!
//! ```text
//! send() ── resolve ── header ─▶ bounded queue ─▶ owner thread ─▶ one PUSH socket a destination ─▶ libzmq
//!    ▲                                              │    ▲                                          │
//!    └────────────── oneshot ◀──────────────────────┘    └──── landing ◀── frame freed ◀────────────┘
//! ```
//!
//! Invariants:
//! - every socket is made, used and closed by the one owner thread; nobody else has a handle on it;
//! - the owner never blocks on a destination: it sends without waiting and polls those that are not ready;
//! - a message counts as sent when libzmq has let go of its last frame by itself; frames that are freed
//!   because a connection broke are told apart (see `frame`);
//! - every message ends within the send time-out, and then its memory is free.
//!
//! Both ZMQ backends of the protocol are this engine. `zmq_to_tokenizer` names a fresh endpoint in each
//! request: set [`ZmqOptions::idle_timeout`] to zero there, which closes a socket when its last message is gone.

mod endpoint;
mod frame;
mod landing;
mod options;
mod owner;
mod resolve;
mod sndbuf;
mod stats;

pub use options::ZmqOptions;
pub use stats::ZmqStats;

use crate::{Delivery, DeliveryError, Message, SendFuture, SendReport, pickle};
use endpoint::{Caller, Job};
use landing::Landing;
use ocelli_core::Destination;
use owner::{Command, Owner};
use stats::Counters;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, oneshot};

/// The handle on the owner thread. Dropping it gives up whatever has not left; [`ZmqDelivery::close`] waits.
pub struct ZmqDelivery {
    options: ZmqOptions,
    commands: SyncSender<Command>,
    landing: Arc<Landing>,
    counters: Arc<Counters>,
    /// A permit a message that has not ended; also what makes the command channel never full.
    room: Arc<Semaphore>,
}

impl ZmqDelivery {
    /// Starts the owner thread.
    ///
    /// # Errors
    /// `System` when a thread, a wake-up pair or a messaging context cannot be had.
    pub fn start(options: ZmqOptions) -> Result<Self, DeliveryError> {
        let capacity = options.queue_capacity.clamp(1, Semaphore::MAX_PERMITS - 1);
        let landing = Arc::new(Landing::new()?);
        let counters = Arc::new(Counters::default());
        // one more for the command to close
        let (commands, inbox) = sync_channel(capacity + 1);
        let owner = Owner::new(options.clone(), inbox, landing.clone(), counters.clone())?;
        std::thread::Builder::new()
            .name("zmq-delivery".into())
            .spawn(move || owner.run())
            .map_err(|why| DeliveryError::System { what: "cannot start the delivery thread", why: why.to_string() })?;
        Ok(Self { options, commands, landing, counters, room: Arc::new(Semaphore::new(capacity)) })
    }

    /// Sends one message; see [`Delivery::send`].
    ///
    /// # Errors
    /// See [`DeliveryError`].
    pub async fn send(&self, to: &Destination, message: Message) -> Result<SendReport, DeliveryError> {
        let began = Instant::now();
        let deadline = began + self.options.send_timeout;
        message.check()?;
        let permit = self.room.clone().try_acquire_owned().map_err(|why| match why {
            tokio::sync::TryAcquireError::Closed => DeliveryError::Closed,
            tokio::sync::TryAcquireError::NoPermits => {
                DeliveryError::QueueFull { limit: self.options.queue_capacity, one_destination: false }
            }
        })?;
        let address = resolve::address(to, self.options.send_timeout).await?;
        let header = pickle::encode(&message);
        let rows = match message {
            Message::Embedding(_, embedding) => Some(embedding.payload),
            Message::Error(..) => None,
        };
        let bytes = header.len() + rows.as_ref().map_or(0, crate::Staged::len);
        let (reply, ended) = oneshot::channel();
        let job = Job { address, header, rows, deadline, caller: Caller { reply, permit } };
        self.commands.try_send(Command::Send(job)).map_err(|_| DeliveryError::Closed)?;
        self.landing.wake();
        ended.await.unwrap_or(Err(DeliveryError::Closed))?;
        Ok(SendReport { bytes, waited: began.elapsed() })
    }

    /// Accepts nothing more, lets what is on its way leave for at most `patience`, fails the rest and closes
    /// all sockets. Repeats are harmless.
    pub async fn close(&self, patience: Duration) {
        self.room.close();
        let (reply, closed) = oneshot::channel();
        if self.commands.try_send(Command::Close { deadline: Instant::now() + patience, reply }).is_ok() {
            self.landing.wake();
            let _ = closed.await;
        }
    }

    /// Gauges and counters as they stand.
    pub fn stats(&self) -> ZmqStats {
        self.counters.read()
    }
}

impl Delivery for ZmqDelivery {
    fn send<'a>(&'a self, to: &'a Destination, message: Message) -> SendFuture<'a> {
        Box::pin(ZmqDelivery::send(self, to, message))
    }
}

impl Drop for ZmqDelivery {
    fn drop(&mut self) {
        // the channel closes with its sender; the owner has to be awake to see that
        let _ = self.commands.try_send(Command::Abandon);
        self.landing.wake();
    }
}
