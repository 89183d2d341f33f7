//! A real server in this process, a bare HTTP client that can also misbehave, and real receivers.

#![allow(dead_code)] // each test file uses its own part

use ocelli::app::App;
use ocelli::config::Config;
use ocelli::start::{self, Server};
use ocelli_client::pickle::{self, Content, Grids, Header};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

/// No wait of a test is longer; a test that gets here has failed.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until something is so; what never is fails the test instead of hanging it.
pub async fn until(what: &str, so: impl Fn() -> bool) {
    let coming = async {
        while !so() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, coming).await.unwrap_or_else(|_| panic!("never: {what}"));
}

pub fn goldens() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden")
}

pub fn checkpoint() -> PathBuf {
    goldens().join("checkpoints/qwen2_5_vl")
}

pub fn medium(name: &str) -> Vec<u8> {
    std::fs::read(goldens().join("media").join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

pub fn data_url(name: &str) -> String {
    use base64::Engine as _;
    format!("data:image/png;base64,{}", base64::engine::general_purpose::STANDARD.encode(medium(name)))
}

/// The configuration of `ocelli serve --model-path <tiny checkpoint> --port 0 --dtype float32 FLAGS`.
pub fn config(flags: &[&str]) -> Config {
    let model = checkpoint();
    let mut line = vec!["ocelli", "serve", "--model-path", model.to_str().unwrap(), "--port", "0"];
    line.extend(["--dtype", "float32", "--cpu-threads", "1"]);
    line.extend(flags);
    Config::from_command_line(line, &|_| None).unwrap_or_else(|e| panic!("{e}"))
}

pub struct TestServer {
    pub app: Arc<App>,
    pub address: SocketAddr,
    running: JoinHandle<()>,
}

impl TestServer {
    pub async fn start(flags: &[&str]) -> Self {
        Self::run(start::start(config(flags)).await.unwrap_or_else(|e| panic!("{e}")))
    }

    pub fn run(server: Server) -> Self {
        let (app, address) = (server.app(), server.address());
        Self { app, address, running: tokio::spawn(server.run()) }
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.post_bytes(path, "application/json", body.to_string().as_bytes()).await
    }

    pub async fn post_bytes(&self, path: &str, kind: &str, body: &[u8]) -> Answer {
        let stream = self.send("POST", path, kind, body).await;
        Answer::read(stream).await
    }

    pub async fn get(&self, path: &str) -> Answer {
        let stream = self.send("GET", path, "", b"").await;
        Answer::read(stream).await
    }

    /// Sends a request and gives the open connection, to be read or dropped.
    pub async fn send(&self, method: &str, path: &str, kind: &str, body: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.expect("connect");
        let typed = if kind.is_empty() { String::new() } else { format!("content-type: {kind}\r\n") };
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: x\r\n{typed}content-length: {length}\r\nconnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.expect("write");
        // a server that refuses early may have closed already
        let _ = stream.write_all(body).await;
        stream
    }

    /// Waits until nothing of any request is left.
    pub async fn empty(&self) {
        let gone = async {
            while self.app.table.stats().entries > 0 || self.app.admission.in_use().requests > 0 {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let stats = || format!("{:?} {:?}", self.app.table.stats(), self.app.admission.in_use());
        tokio::time::timeout(PATIENCE, gone).await.unwrap_or_else(|_| panic!("something is left: {}", stats()));
    }

    /// A request that must work, answered in the response: the proof that the server still serves.
    pub async fn still_serves(&self) {
        let answer = self.post("/v1/embeddings/multimodal", &json!({"mm_items": data_url("size_27x29.png")})).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(self.get("/health").await.status, 200);
    }

    pub async fn stop(self) {
        self.app.drain.begin();
        tokio::time::timeout(PATIENCE, self.running).await.expect("stops in time").expect("stops well");
    }
}

pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub async fn read(mut stream: TcpStream) -> Self {
        let mut all = Vec::new();
        let reading = stream.read_to_end(&mut all);
        // a reset after the answer was sent does not take the answer back
        let _ = tokio::time::timeout(PATIENCE, reading).await.expect("an answer in time");
        let cut = all.windows(4).position(|w| w == b"\r\n\r\n").unwrap_or_else(|| panic!("no answer"));
        let head = String::from_utf8_lossy(&all[..cut]).to_lowercase();
        let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).expect("status");
        let mut body = all[cut + 4..].to_vec();
        if head.contains("transfer-encoding: chunked") {
            body = unchunk(&body);
        }
        Self { status, head, body }
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.text()))
    }

    pub fn message(&self) -> String {
        self.json()["message"].as_str().unwrap_or_default().to_owned()
    }
}

fn unchunk(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(cut) = rest.windows(2).position(|w| w == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..cut]).expect("chunk"), 16).expect("chunk size");
        if size == 0 {
            break;
        }
        body.extend_from_slice(&rest[cut + 2..cut + 2 + size]);
        rest = &rest[cut + 2 + size + 2..];
    }
    body
}

/// A good `/encode` body.
pub fn encode_body(id: &str, items: &[String]) -> Value {
    json!({"req_id": id, "modality": "IMAGE", "mm_items": items, "num_parts": 1, "part_idx": 0})
}

/// A receiver on a free loopback port: a bare libzmq PULL socket, as the language server has one.
pub fn receiver() -> TestReceiver {
    receiver_at("127.0.0.1:*")
}

/// A receiver on a given address.
pub fn receiver_at(url: &str) -> TestReceiver {
    let context = zmq::Context::new();
    let socket = context.socket(zmq::PULL).expect("socket");
    socket.set_linger(0).expect("linger");
    socket.bind(&format!("tcp://{url}")).unwrap_or_else(|e| panic!("{url}: {e}"));
    let endpoint = socket.get_last_endpoint().expect("endpoint").expect("utf-8");
    TestReceiver { socket, url: endpoint.trim_start_matches("tcp://").to_owned() }
}

pub struct TestReceiver {
    socket: zmq::Socket,
    url: String,
}

impl TestReceiver {
    /// `host:port`, as it is registered.
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// The next message.
    pub async fn next(&mut self) -> Part {
        let arriving = async {
            loop {
                match self.socket.recv_multipart(zmq::DONTWAIT) {
                    Ok(frames) => return frames,
                    Err(zmq::Error::EAGAIN) => tokio::time::sleep(Duration::from_millis(1)).await,
                    Err(why) => panic!("{why}"),
                }
            }
        };
        let mut frames = tokio::time::timeout(PATIENCE, arriving).await.expect("a message in time").into_iter();
        let header = pickle::read(&frames.next().expect("frame 0")).expect("a header that the allow-list takes");
        Part { header, payload: frames.next().unwrap_or_default() }
    }
}

/// What arrived.
pub struct Part {
    header: Header,
    payload: Vec<u8>,
}

impl Part {
    pub fn id(&self) -> String {
        self.header.req_id.clone()
    }

    /// Rows, after the length of the payload was checked against shape and type.
    pub fn rows(&self) -> usize {
        let Content::Rows { dtype, rows, columns, .. } = &self.header.content else { panic!("{:?}", self.header) };
        assert_eq!(self.payload.len(), rows * columns * dtype.size());
        *rows
    }

    pub fn grids(&self) -> Vec<[u32; 3]> {
        match &self.header.content {
            Content::Rows { grids: Grids::Thw(grids), .. } => grids.iter().map(|g| [g.t, g.h, g.w]).collect(),
            other => panic!("{other:?}"),
        }
    }

    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    pub fn error(&self) -> Option<(String, u16)> {
        match &self.header.content {
            Content::Error { message, code } => Some((message.clone(), code.unwrap_or_default())),
            Content::Rows { .. } => None,
        }
    }
}
