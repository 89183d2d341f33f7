//! Where libzmq's threads and callers leave word for the owner thread, and what wakes it.

use crate::DeliveryError;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Which message a freed frame belonged to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ticket {
    pub(super) address: SocketAddr,
    /// Rises with every message that libzmq takes, over all destinations.
    pub(super) number: u64,
}

/// libzmq has let go of a message's last frame.
#[derive(Debug, Clone, Copy)]
pub(super) struct Landed {
    pub(super) ticket: Ticket,
    /// Freed unsent, because the connection broke.
    pub(super) lost: bool,
}

/// Shared by the owner thread, its callers, and every frame that libzmq holds.
pub(super) struct Landing {
    /// No more entries than frames that libzmq holds. Locked for a push or a swap only.
    landed: Mutex<Vec<Landed>>,
    /// Set while a wake-up is on its way, so that a burst costs one.
    woken: AtomicBool,
    ring: UnixStream,
    hear: UnixStream,
}

impl Landing {
    pub(super) fn new() -> Result<Self, DeliveryError> {
        let pair = || {
            let (ring, hear) = UnixStream::pair()?;
            ring.set_nonblocking(true)?;
            hear.set_nonblocking(true)?;
            std::io::Result::Ok((ring, hear))
        };
        let (ring, hear) =
            pair().map_err(|why| DeliveryError::System { what: "cannot make a wake-up pair", why: why.to_string() })?;
        Ok(Self { landed: Mutex::default(), woken: AtomicBool::new(false), ring, hear })
    }

    /// Makes the owner thread look around. Never blocks.
    pub(super) fn wake(&self) {
        if !self.woken.swap(true, Ordering::AcqRel) {
            // a full pair wakes just as well
            let _ = (&self.ring).write(&[1]);
        }
    }

    /// Called by libzmq's threads.
    pub(super) fn report(&self, landed: Landed) {
        self.landed.lock().unwrap_or_else(PoisonError::into_inner).push(landed);
        self.wake();
    }

    /// The owner's: takes what has been reported since.
    pub(super) fn take(&self) -> Vec<Landed> {
        std::mem::take(&mut *self.landed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The owner's: forgets the wake-up. Must come before looking at what woke it, else news between the
    /// look and the forgetting would be slept over.
    pub(super) fn heard(&self) {
        let mut bytes = [0; 64];
        loop {
            match (&self.hear).read(&mut bytes) {
                Ok(n) if n == bytes.len() => {}
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                _ => break,
            }
        }
        self.woken.store(false, Ordering::Release);
    }

    /// What to poll for reading.
    pub(super) fn fd(&self) -> RawFd {
        self.hear.as_raw_fd()
    }
}
