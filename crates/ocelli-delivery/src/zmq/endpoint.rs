//! One destination: its socket, what waits for it, what libzmq has of it. Used by the owner thread only.

use super::landing::{Landing, Ticket};
use super::{ZmqOptions, frame};
use crate::{DeliveryError, Staged};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

/// Who waits for a message's end, and the room that the message takes in the engine.
pub(super) struct Caller {
    pub(super) reply: oneshot::Sender<Result<(), DeliveryError>>,
    pub(super) permit: OwnedSemaphorePermit,
}

impl Caller {
    /// The room is given back first, so that whoever hears of the end finds it free.
    pub(super) fn hear(self, ended: Result<(), DeliveryError>) {
        drop(self.permit);
        // an error means that the caller has left
        let _ = self.reply.send(ended);
    }

    fn has_left(&self) -> bool {
        self.reply.is_closed()
    }
}

/// A message on its way to the owner thread or in a queue of it.
pub(super) struct Job {
    pub(super) address: SocketAddr,
    /// Frame 0.
    pub(super) header: Vec<u8>,
    /// Frame 1, if there is one.
    pub(super) rows: Option<Staged>,
    pub(super) deadline: Instant,
    pub(super) caller: Caller,
}

/// A message that libzmq has.
pub(super) struct Flying {
    number: u64,
    deadline: Instant,
    caller: Caller,
}

/// How a socket is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Farewell {
    /// Whatever libzmq still has is dropped and its memory freed.
    Now,
    /// Every frame has been let go of, but the last bytes of a small one may still be in libzmq's own
    /// buffer for a moment; the original lingers for 5 s.
    Linger,
}

const LINGER: Duration = Duration::from_secs(1);

/// One destination.
pub(super) struct Endpoint {
    address: SocketAddr,
    socket: zmq::Socket,
    /// In order; libzmq does not have them yet.
    queue: VecDeque<Job>,
    /// In order; libzmq has them.
    flying: VecDeque<Flying>,
    last_used: Instant,
}

impl Endpoint {
    /// Makes the socket; connecting goes on behind it.
    pub(super) fn open(
        context: &zmq::Context,
        address: SocketAddr,
        options: &ZmqOptions,
        now: Instant,
    ) -> Result<Self, DeliveryError> {
        let socket = open_socket(context, address, options)
            .map_err(|why| DeliveryError::System { what: "cannot open a socket", why: why.to_string() })?;
        Ok(Self { address, socket, queue: VecDeque::new(), flying: VecDeque::new(), last_used: now })
    }

    pub(super) fn queued(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn in_flight(&self) -> usize {
        self.flying.len()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.flying.is_empty()
    }

    pub(super) fn last_used(&self) -> Instant {
        self.last_used
    }

    /// When something here runs out of time.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let queue = self.queue.front().map(|job| job.deadline);
        let flying = self.flying.front().map(|sent| sent.deadline);
        queue.into_iter().chain(flying).min()
    }

    /// What to poll. A socket that only has frames in flight is polled for reading, which never comes: that
    /// makes libzmq look after it, and so free what a broken connection has left behind.
    pub(super) fn poll_item(&self) -> Option<zmq::PollItem<'_>> {
        match (self.queue.is_empty(), self.flying.is_empty()) {
            (false, _) => Some(self.socket.as_poll_item(zmq::POLLOUT)),
            (true, false) => Some(self.socket.as_poll_item(zmq::POLLIN)),
            (true, true) => None,
        }
    }

    pub(super) fn push(&mut self, job: Job) {
        self.queue.push_back(job);
    }

    /// Drops messages that nobody waits for and libzmq does not have.
    pub(super) fn skip_abandoned(&mut self) -> usize {
        let before = self.queue.len();
        self.queue.retain(|job| !job.caller.has_left());
        before - self.queue.len()
    }

    /// Hands over what the socket takes now, in order, without waiting. Returns how many were skipped because
    /// nobody waits for them.
    ///
    /// # Errors
    /// The socket is of no use any more.
    pub(super) fn flush(
        &mut self,
        numbers: &mut u64,
        landing: &Arc<Landing>,
        now: Instant,
    ) -> Result<usize, DeliveryError> {
        let mut skipped = 0;
        while let Some(job) = self.queue.front() {
            if job.caller.has_left() {
                self.queue.pop_front();
                skipped += 1;
                continue;
            }
            *numbers += 1;
            let ticket = Ticket { address: self.address, number: *numbers };
            match hand_over(&mut self.socket, job, ticket, landing) {
                Ok(()) => {}
                Err(libc::EAGAIN) => break,
                Err(why) => return Err(DeliveryError::System { what: "cannot send", why: error_text(why) }),
            }
            if let Some(Job { deadline, caller, .. }) = self.queue.pop_front() {
                self.flying.push_back(Flying { number: ticket.number, deadline, caller });
                self.last_used = now;
            }
        }
        Ok(skipped)
    }

    /// libzmq has sent a message: who waits for that. `None` when it is none of ours: a try that was taken back.
    pub(super) fn landed(&mut self, number: u64, now: Instant) -> Option<Caller> {
        let place = self.flying.iter().position(|sent| sent.number == number)?;
        self.last_used = now;
        self.flying.remove(place).map(|sent| sent.caller)
    }

    /// Whether something that libzmq has is out of time: only giving up the socket frees its memory.
    pub(super) fn is_stuck(&self, now: Instant) -> bool {
        self.flying.front().is_some_and(|sent| sent.deadline <= now)
    }

    /// Takes out what has waited too long without libzmq having it.
    pub(super) fn expired(&mut self, now: Instant) -> Vec<Caller> {
        let mut expired = Vec::new();
        while self.queue.front().is_some_and(|job| job.deadline <= now) {
            expired.extend(self.queue.pop_front().map(|job| job.caller));
        }
        expired
    }

    /// Gives up the socket and what libzmq has of it, and sorts what was lost by whether its time was up.
    pub(super) fn give_up(self, now: Instant) -> GivenUp {
        close(self.socket, Farewell::Now);
        let (timed_out, lost): (Vec<_>, Vec<_>) = self.flying.into_iter().partition(|sent| sent.deadline <= now);
        let callers = |sent: Vec<Flying>| sent.into_iter().map(|sent| sent.caller).collect();
        GivenUp { queue: self.queue, timed_out: callers(timed_out), lost: callers(lost) }
    }

    /// Closes a socket that has nothing more to do.
    pub(super) fn retire(self) {
        close(self.socket, Farewell::Linger);
    }
}

/// What remains of an endpoint whose socket was given up.
pub(super) struct GivenUp {
    /// Untouched: libzmq never had it.
    pub(super) queue: VecDeque<Job>,
    pub(super) timed_out: Vec<Caller>,
    pub(super) lost: Vec<Caller>,
}

fn close(socket: zmq::Socket, farewell: Farewell) {
    let linger_ms = match farewell {
        Farewell::Now => 0,
        Farewell::Linger => LINGER.as_millis() as i32,
    };
    // fails only on a closed context, where nothing lingers
    let _ = socket.set_linger(linger_ms);
}

/// All frames or none: what follows a frame of an unfinished message never waits, and libzmq takes the
/// first back when it refuses the second.
fn hand_over(socket: &mut zmq::Socket, job: &Job, ticket: Ticket, landing: &Arc<Landing>) -> Result<(), i32> {
    let Some(rows) = &job.rows else {
        return frame::send_last(socket, Staged::new(job.header.clone()), ticket, landing);
    };
    let header = zmq::Message::from(job.header.as_slice());
    socket.send(header, zmq::DONTWAIT | zmq::SNDMORE).map_err(zmq::Error::to_raw)?;
    frame::send_last(socket, rows.clone(), ticket, landing)
}

fn open_socket(context: &zmq::Context, address: SocketAddr, options: &ZmqOptions) -> zmq::Result<zmq::Socket> {
    let socket = context.socket(zmq::PUSH)?;
    // nothing is queued before there is a connection, so that what waits can still be taken back
    socket.set_immediate(true)?;
    // no limit here: the limits are the engine's, in messages, and admission's, in bytes
    socket.set_sndhwm(0)?;
    socket.set_sndbuf(options.sndbuf_bytes.unwrap_or(-1))?;
    socket.set_linger(0)?;
    socket.set_ipv6(address.is_ipv6())?;
    socket.set_reconnect_ivl(millis(options.reconnect))?;
    socket.set_reconnect_ivl_max(millis(options.reconnect_max))?;
    socket.connect(&format!("tcp://{address}"))?;
    Ok(socket)
}

fn millis(time: Duration) -> i32 {
    i32::try_from(time.as_millis()).unwrap_or(i32::MAX).max(1)
}

fn error_text(number: i32) -> String {
    std::io::Error::from_raw_os_error(number).to_string()
}
