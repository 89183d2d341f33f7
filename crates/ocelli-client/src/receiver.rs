//! PULL sockets, and the checks that the language server makes on what arrives.

use crate::ClientError;
use crate::pickle::{self, Content, Header};
use ocelli_core::Destination;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A messaging context: receivers of one context share its I/O thread.
#[derive(Clone, Default)]
pub struct Receivers(zmq::Context);

impl Receivers {
    /// A context of its own.
    pub fn new() -> Self {
        Self::default()
    }

    /// Binds a receiver on `ip` and a free port. Needs a tokio runtime.
    ///
    /// # Errors
    /// The address is not one of this machine, or no socket is to be had.
    pub fn bind(&self, ip: IpAddr) -> Result<Receiver, ClientError> {
        let failed = ClientError::connection("cannot bind a receiver");
        let socket = self.0.socket(zmq::PULL).map_err(|why| failed(&why))?;
        let port = listen(&socket, ip).map_err(|why| failed(&why))?;
        let signal = socket.get_fd().map_err(|why| failed(&why))?;
        let signal = watch(Signal(signal)).map_err(|why| failed(&why))?;
        let destination = Destination::new(&ip.to_string(), port).map_err(|why| failed(&why))?;
        Ok(Receiver { signal, socket, destination })
    }
}

// The successor of this function is unsafe, for callers whose descriptor might close while it is watched. Ours
// cannot: `Receiver` owns both and drops the watch first.
#[allow(deprecated, reason = "sound here, and this crate has no unsafe code")]
fn watch(signal: Signal) -> std::io::Result<AsyncFd<Signal>> {
    AsyncFd::with_interest(signal, Interest::READABLE)
}

/// Options and port as the language server has them.
fn listen(socket: &zmq::Socket, ip: IpAddr) -> zmq::Result<u16> {
    socket.set_rcvhwm(0)?;
    socket.set_linger(0)?;
    socket.set_ipv6(ip.is_ipv6())?;
    let any_port = SocketAddr::new(ip, 0).to_string();
    let any_port = any_port.trim_end_matches('0');
    socket.bind(&format!("tcp://{any_port}*"))?;
    let endpoint = socket.get_last_endpoint()?.map_err(|_| zmq::Error::EINVAL)?;
    endpoint.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).ok_or(zmq::Error::EINVAL)
}

/// The descriptor that says when to look at a socket. The socket owns it.
struct Signal(RawFd);

impl AsRawFd for Signal {
    fn as_raw_fd(&self) -> RawFd {
        self.0
    }
}

/// One bound PULL socket.
pub struct Receiver {
    /// Before the socket, so that it is unregistered while its descriptor still exists.
    signal: AsyncFd<Signal>,
    socket: zmq::Socket,
    destination: Destination,
}

/// A message that passed the checks.
pub struct Received {
    /// Frame 0.
    pub header: Header,
    /// When it was taken off the socket.
    pub at: Instant,
    rows: Option<zmq::Message>,
}

impl Received {
    /// Frame 1: the rows, as long as the header says. Empty for an error.
    pub fn payload(&self) -> &[u8] {
        self.rows.as_deref().unwrap_or_default()
    }
}

impl std::fmt::Debug for Received {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Received({:?}, {} bytes)", self.header, self.payload().len())
    }
}

impl Receiver {
    /// Where to send to.
    pub fn destination(&self) -> &Destination {
        &self.destination
    }

    /// The next message, checked. Dropping the future loses nothing.
    ///
    /// # Errors
    /// `TimedOut`; `Header`, `Frames` or `Length` when what came is not as it must be.
    pub async fn receive(&mut self, limit: Duration) -> Result<Received, ClientError> {
        let frames = tokio::time::timeout(limit, self.frames());
        check(frames.await.map_err(|_| ClientError::TimedOut(limit))??)
    }

    async fn frames(&mut self) -> Result<Vec<zmq::Message>, ClientError> {
        let failed = ClientError::connection("receiving");
        loop {
            match take(&self.socket) {
                Ok(frames) => return Ok(frames),
                Err(zmq::Error::EAGAIN) => {}
                Err(why) => return Err(failed(&why)),
            }
            // the descriptor tells of a change only; whether there is a message, the socket says
            let events = self.socket.get_events().map_err(|why| failed(&why))?;
            if !events.contains(zmq::POLLIN) {
                self.signal.readable().await.map_err(|why| failed(&why))?.clear_ready();
            }
        }
    }
}

/// All frames of a message, or none.
fn take(socket: &zmq::Socket) -> zmq::Result<Vec<zmq::Message>> {
    let mut frames = vec![socket.recv_msg(zmq::DONTWAIT)?];
    while socket.get_rcvmore()? {
        frames.push(socket.recv_msg(0)?);
    }
    Ok(frames)
}

/// The protocol's rules for frames: an error is one, rows are two, and the second is as long as the first says.
fn check(mut frames: Vec<zmq::Message>) -> Result<Received, ClientError> {
    let at = Instant::now();
    let header = pickle::read(frames.first().map_or(&[][..], |frame| &**frame))?;
    let (due, expected) = match &header.content {
        Content::Error { .. } => (1, 0),
        Content::Rows { dtype, rows, columns, .. } => (2, rows.saturating_mul(*columns).saturating_mul(dtype.size())),
    };
    if frames.len() != due {
        return Err(ClientError::Frames(frames.len(), due));
    }
    let rows = frames.pop().filter(|_| due == 2);
    let actual = rows.as_ref().map_or(0, |rows| rows.len());
    if actual != expected {
        return Err(ClientError::Length { expected, actual });
    }
    Ok(Received { header, at, rows })
}
