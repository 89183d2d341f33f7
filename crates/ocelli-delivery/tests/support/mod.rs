//! Receivers for the scenarios: real PULL sockets, and one that speaks just enough of the protocol to be
//! connected to and then does exactly what a test says.

use ocelli_core::{Destination, GridThw, Modality, ReqId};
use ocelli_delivery::{Embedding, Failure, Message, Part, Staged, WireDtype};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// What never happens in a test that passes.
const LIMIT: Duration = Duration::from_secs(30);

/// A PULL socket with a context of its own, so that dropping it is the end of its process.
pub struct Peer {
    socket: zmq::Socket,
    events: zmq::Socket,
    destination: Destination,
}

impl Peer {
    /// On a free port of `host`.
    pub fn bind(host: &str) -> Self {
        Self::bind_port(host, 0)
    }

    pub fn bind_port(host: &str, port: u16) -> Self {
        let context = zmq::Context::new();
        let socket = context.socket(zmq::PULL).unwrap();
        socket.set_ipv6(host.contains(':')).unwrap();
        socket.set_rcvhwm(0).unwrap();
        socket.set_linger(0).unwrap();
        socket.set_rcvtimeo(LIMIT.as_millis() as i32).unwrap();
        socket.monitor("inproc://events", zmq::SocketEvent::HANDSHAKE_SUCCEEDED.to_raw().into()).unwrap();
        let events = context.socket(zmq::PAIR).unwrap();
        events.set_rcvtimeo(LIMIT.as_millis() as i32).unwrap();
        events.connect("inproc://events").unwrap();
        let port = if port == 0 { "*".to_owned() } else { port.to_string() };
        let bracketed = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        socket.bind(&format!("tcp://{bracketed}:{port}")).unwrap();
        let endpoint = socket.get_last_endpoint().unwrap().unwrap();
        let destination = Destination::parse(endpoint.strip_prefix("tcp://").unwrap()).unwrap();
        Self { socket, events, destination }
    }

    pub fn destination(&self) -> Destination {
        self.destination.clone()
    }

    /// The next message's frames.
    pub fn receive(&self) -> Vec<Vec<u8>> {
        self.socket.recv_multipart(0).expect("a message in time")
    }

    /// Whether nothing is there.
    pub fn is_empty(&self) -> bool {
        self.socket.recv_multipart(zmq::DONTWAIT) == Err(zmq::Error::EAGAIN)
    }

    /// Waits until somebody has connected.
    pub fn connected(&self) {
        self.events.recv_multipart(0).expect("a connection in time");
    }
}

/// A receiver by hand: ZMTP 3.0, NULL mechanism, PULL. After the handshake it reads only when told to.
pub struct Silent {
    listener: TcpListener,
    destination: Destination,
}

impl Silent {
    pub fn bind() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let destination = Destination::parse(&listener.local_addr().unwrap().to_string()).unwrap();
        Self { listener, destination }
    }

    pub fn destination(&self) -> Destination {
        self.destination.clone()
    }

    /// Takes the next connection as far as the handshake.
    pub fn accept(&self) -> TcpStream {
        self.try_accept().unwrap()
    }

    /// The same, for connections that may break.
    pub fn try_accept(&self) -> std::io::Result<TcpStream> {
        let (mut stream, _) = self.listener.accept()?;
        stream.set_read_timeout(Some(LIMIT))?;
        let mut greeting = [0u8; 64];
        greeting[0] = 0xff;
        greeting[9] = 0x7f;
        greeting[10] = 3;
        greeting[12..16].copy_from_slice(b"NULL");
        stream.write_all(&greeting)?;
        stream.read_exact(&mut [0; 64])?;
        stream.write_all(b"\x04\x1a\x05READY\x0bSocket-Type\x00\x00\x00\x04PULL")?;
        let mut head = [0; 2];
        stream.read_exact(&mut head)?;
        stream.read_exact(&mut vec![0; head[1] as usize])?;
        Ok(stream)
    }
}

/// A port on which nobody listens.
pub fn closed_port() -> Destination {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    Destination::parse(&listener.local_addr().unwrap().to_string()).unwrap()
}

fn part(id: &str) -> Part {
    Part { req_id: ReqId::new(id).unwrap(), num_parts: 1, part_idx: 0, modality: Modality::Image }
}

/// A message whose second frame is `payload` (of even length).
pub fn rows(id: &str, payload: impl AsRef<[u8]> + Send + Sync + 'static) -> Message {
    let payload = Staged::new(payload);
    let (rows, grid) = (payload.len() / 2, vec![GridThw::new(1, 2, 2)]);
    Message::Embedding(part(id), Embedding { grid, dtype: WireDtype::BF16, rows, dim: 1, payload })
}

pub fn error(id: &str, message: &str) -> Message {
    Message::Error(part(id), Failure { message: message.to_owned(), code: 400 })
}

/// Memory that says when it is freed.
pub struct Watched {
    bytes: Vec<u8>,
    freed: SyncSender<()>,
}

impl Watched {
    pub fn new(bytes: usize) -> (Self, Freed) {
        let (freed, heard) = sync_channel(1);
        (Self { bytes: vec![1; bytes], freed }, Freed(heard))
    }
}

impl AsRef<[u8]> for Watched {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.freed.send(());
    }
}

pub struct Freed(Receiver<()>);

impl Freed {
    /// Not freed so far.
    pub fn not_yet(&self) {
        assert!(self.0.try_recv().is_err(), "the memory was freed too early: somebody copied it");
    }

    /// Waits until it is.
    pub fn soon(&self) {
        self.0.recv_timeout(LIMIT).expect("the memory is freed");
    }
}

/// Lets other tasks and threads run until `done`.
pub async fn until(what: &str, done: impl Fn() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < LIMIT, "not in time: {what}");
        std::thread::yield_now();
        tokio::task::yield_now().await;
    }
}
