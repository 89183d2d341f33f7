//! The encoder's HTTP routes over keep-alive connections.

use crate::ClientError;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use ocelli_core::{Destination, Modality};
use serde_json::{Value, json};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

/// No answer of the protocol is longer.
const MAX_ANSWER_BYTES: usize = 16 << 20;
/// Idle connections kept; as many as one exchange has requests, a few times over.
const MAX_IDLE: usize = 64;

/// What `/encode` is asked.
#[derive(Debug, Clone)]
pub struct EncodeRequest {
    /// Identity of the part.
    pub req_id: String,
    /// What the items are.
    pub modality: Modality,
    /// `mm_items`: strings, or objects with `url`.
    pub items: Vec<Value>,
    /// Parts of the user request.
    pub num_parts: u32,
    /// This part.
    pub part_idx: u32,
    /// `zmq_to_tokenizer`: where to deliver. `zmq_to_scheduler`: none, destinations register.
    pub destination: Option<Destination>,
}

impl EncodeRequest {
    /// The only part of a request for pictures.
    pub fn images(req_id: impl Into<String>, items: Vec<Value>) -> Self {
        let req_id = req_id.into();
        Self { req_id, modality: Modality::Image, items, num_parts: 1, part_idx: 0, destination: None }
    }

    fn body(&self) -> Value {
        json!({
            "req_id": self.req_id,
            "modality": self.modality.as_str().to_uppercase(),
            "mm_items": self.items,
            "num_parts": self.num_parts,
            "part_idx": self.part_idx,
            "prefill_host": self.destination.as_ref().map(Destination::host),
            "embedding_port": self.destination.as_ref().map(Destination::port),
        })
    }
}

/// One encode server. Requests may run at the same time, each over a connection of its own.
pub struct EncodeClient {
    server: Destination,
    limit: Duration,
    idle: Mutex<Vec<Connection>>,
}

struct Connection {
    requests: SendRequest<Full<Bytes>>,
    driver: JoinHandle<()>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// An answer as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub code: u16,
    /// The body.
    pub body: Bytes,
}

impl Answer {
    fn ok(self) -> Result<Bytes, ClientError> {
        if self.code == 200 {
            return Ok(self.body);
        }
        let parsed: Option<Value> = serde_json::from_slice(&self.body).ok();
        let message = parsed.as_ref().and_then(|body| body.get("message")?.as_str()).map(str::to_owned);
        let message = message.unwrap_or_else(|| String::from_utf8_lossy(&self.body).chars().take(500).collect());
        Err(ClientError::Status { code: self.code, message })
    }
}

impl EncodeClient {
    /// A server by its base URL, `http://host:port`; `limit` is for each request as a whole.
    ///
    /// # Errors
    /// `Url`.
    pub fn new(url: &str, limit: Duration) -> Result<Self, ClientError> {
        let address = url.strip_prefix("http://").map(|rest| rest.trim_end_matches('/'));
        let server = address.and_then(|address| Destination::parse(address).ok());
        let server = server.ok_or_else(|| ClientError::Url(url.chars().take(100).collect()))?;
        Ok(Self { server, limit, idle: Mutex::default() })
    }

    /// `POST /encode`. Returns when the server has delivered to every destination.
    ///
    /// # Errors
    /// `Status` when the server refuses or fails.
    pub async fn encode(&self, request: &EncodeRequest) -> Result<(), ClientError> {
        self.post("/encode", &request.body()).await?.ok().map(drop)
    }

    /// `POST /scheduler_receive_url`: one of `receive_count` destinations of a part.
    ///
    /// # Errors
    /// `Status` when the server refuses.
    pub async fn register(&self, req_id: &str, to: &Destination, receive_count: u32) -> Result<(), ClientError> {
        let body = json!({
            "req_id": req_id,
            "receive_count": receive_count,
            "receive_url": to.to_string(),
            "modality": "IMAGE",
        });
        self.post("/scheduler_receive_url", &body).await?.ok().map(drop)
    }

    /// `GET /health`: whether it is well.
    ///
    /// # Errors
    /// `Status` when it is not.
    pub async fn health(&self) -> Result<(), ClientError> {
        self.request(Method::GET, "/health", Bytes::new()).await?.ok().map(drop)
    }

    /// `GET` of any route.
    ///
    /// # Errors
    /// The connection failed.
    pub async fn get(&self, path: &str) -> Result<Answer, ClientError> {
        self.request(Method::GET, path, Bytes::new()).await
    }

    /// `POST` of JSON to any route.
    ///
    /// # Errors
    /// The connection failed.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Answer, ClientError> {
        self.request(Method::POST, path, body.to_string().into()).await
    }

    async fn request(&self, method: Method, path: &str, body: Bytes) -> Result<Answer, ClientError> {
        let exchange = self.exchange(method, path, body);
        tokio::time::timeout(self.limit, exchange).await.map_err(|_| ClientError::TimedOut(self.limit))?
    }

    async fn exchange(&self, method: Method, path: &str, body: Bytes) -> Result<Answer, ClientError> {
        let failed = ClientError::connection("request");
        let mut connection = self.connection().await?;
        let request = Request::builder().method(method).uri(path).header(HOST, self.server.to_string());
        let request = request.header(CONTENT_TYPE, "application/json").body(Full::new(body));
        let request = request.map_err(|why| failed(&why))?;
        let answer = connection.requests.send_request(request).await.map_err(|why| failed(&why))?;
        let code = answer.status().as_u16();
        let body = Limited::new(answer.into_body(), MAX_ANSWER_BYTES).collect().await;
        let body = body.map_err(|why| failed(&why))?.to_bytes();
        let mut idle = self.idle();
        if idle.len() < MAX_IDLE && !connection.requests.is_closed() {
            idle.push(connection);
        }
        Ok(Answer { code, body })
    }

    /// An idle connection that is still good, or a new one.
    async fn connection(&self) -> Result<Connection, ClientError> {
        loop {
            let Some(mut kept) = self.idle().pop() else { break };
            if kept.requests.ready().await.is_ok() {
                return Ok(kept);
            }
        }
        let failed = ClientError::connection("cannot connect");
        let stream = TcpStream::connect((self.server.host(), self.server.port())).await.map_err(|why| failed(&why))?;
        stream.set_nodelay(true).map_err(|why| failed(&why))?;
        let (requests, connection) = handshake(TokioIo::new(stream)).await.map_err(|why| failed(&why))?;
        // its end is seen by the next request on it
        let driver = tokio::spawn(async move { drop(connection.await) });
        Ok(Connection { requests, driver })
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
