//! An encode server of a hundred lines: knows the routes, encodes nothing.

use ocelli_core::Destination;
use serde_json::Value;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub fn snapshot(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ocelli-delivery/tests/snapshots");
    std::fs::read(folder.join(format!("{name}.pickle"))).unwrap()
}

/// How it behaves.
#[derive(Clone, Copy, PartialEq)]
pub enum Speaks {
    /// 64 bytes of rows for every request.
    Rows,
    /// An error frame and status 400 after that was received.
    ErrorFrame,
    /// Status 400 and no frame.
    Refusal,
    /// It accepts and never answers.
    Nothing,
}

pub struct Server {
    pub url: String,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    speaks: Speaks,
    connections: AtomicUsize,
    context: zmq::Context,
    sockets: Mutex<HashMap<Destination, zmq::Socket>>,
    registrations: Mutex<HashMap<String, Waiting>>,
}

enum Waiting {
    ForUrl(oneshot::Sender<Destination>),
    ForEncode(Destination),
}

impl Server {
    pub async fn start(speaks: Speaks) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared {
            speaks,
            connections: AtomicUsize::new(0),
            context: zmq::Context::new(),
            sockets: Mutex::default(),
            registrations: Mutex::default(),
        });
        let task = tokio::spawn(accept(listener, shared.clone()));
        Self { url, shared, task }
    }

    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        shared.connections.fetch_add(1, Ordering::Relaxed);
        connections.spawn(serve(stream, shared.clone()));
    }
}

/// One keep-alive connection.
async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    let mut stream = BufReader::new(stream);
    loop {
        let (mut line, mut length) = (String::new(), 0);
        if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
            return;
        }
        let path = line.split(' ').nth(1).unwrap().to_owned();
        loop {
            let mut header = String::new();
            stream.read_line(&mut header).await.unwrap();
            if let Some(value) = header.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if header == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.unwrap();
        if shared.speaks == Speaks::Nothing {
            std::future::pending::<()>().await;
        }
        let (code, answer) = shared.answer(&path, &body).await;
        let head = format!("HTTP/1.1 {code} x\r\ncontent-length: {}\r\n\r\n", answer.len());
        stream.write_all((head + &answer).as_bytes()).await.unwrap();
    }
}

impl Shared {
    async fn answer(&self, path: &str, body: &[u8]) -> (u16, String) {
        let refused = r#"{"status":"error","message":"missing or empty mm_items","req_id":null}"#;
        match path {
            "/health" => (200, String::new()),
            _ if self.speaks == Speaks::Refusal => (400, refused.to_owned()),
            "/scheduler_receive_url" => {
                let body: Value = serde_json::from_slice(body).unwrap();
                assert_eq!(body["receive_count"], 1);
                let to = Destination::parse(body["receive_url"].as_str().unwrap()).unwrap();
                self.register(body["req_id"].as_str().unwrap(), to);
                (200, "null".to_owned())
            }
            "/encode" => {
                let body: Value = serde_json::from_slice(body).unwrap();
                let id = body["req_id"].as_str().unwrap();
                assert_eq!((&body["modality"], &body["num_parts"]), (&"IMAGE".into(), &1.into()));
                let to = match body["embedding_port"].as_u64() {
                    Some(port) => Destination::new(body["prefill_host"].as_str().unwrap(), port as u16).unwrap(),
                    None => self.registered(id).await,
                };
                self.deliver(id, to);
                // after an error frame the status comes only once the client is gone
                if self.speaks == Speaks::ErrorFrame {
                    std::future::pending::<()>().await;
                }
                (200, "null".to_owned())
            }
            _ => (404, String::new()),
        }
    }

    fn register(&self, id: &str, to: Destination) {
        let mut registrations = self.registrations.lock().unwrap();
        match registrations.remove(id) {
            Some(Waiting::ForUrl(encode)) => drop(encode.send(to)),
            _ => drop(registrations.insert(id.to_owned(), Waiting::ForEncode(to))),
        }
    }

    async fn registered(&self, id: &str) -> Destination {
        let waiting = {
            let mut registrations = self.registrations.lock().unwrap();
            if let Some(Waiting::ForEncode(to)) = registrations.remove(id) {
                return to;
            }
            let (encode, waiting) = oneshot::channel();
            registrations.insert(id.to_owned(), Waiting::ForUrl(encode));
            waiting
        };
        waiting.await.unwrap()
    }

    fn deliver(&self, id: &str, to: Destination) {
        let mut sockets = self.sockets.lock().unwrap();
        let socket = sockets.entry(to).or_insert_with_key(|to| {
            let socket = self.context.socket(zmq::PUSH).unwrap();
            socket.set_linger(0).unwrap();
            socket.connect(&format!("tcp://{to}")).unwrap();
            socket
        });
        if self.speaks == Speaks::ErrorFrame {
            return socket.send(snapshot("error_short"), 0).unwrap();
        }
        socket.send_multipart([named(id), vec![9; 64]], 0).unwrap();
    }
}

/// The header of the snapshot under another id: the text's length byte and the text change.
fn named(id: &str) -> Vec<u8> {
    let header = snapshot("image_bf16");
    let old = b"\x8c\x11req0_local_part_0";
    let at = header.windows(old.len()).position(|w| w == old).unwrap();
    [&header[..at], &[0x8c, id.len() as u8], id.as_bytes(), &header[at + old.len()..]].concat()
}
