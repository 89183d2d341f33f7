//! Receiver, HTTP client and load against a small encode server that answers what a test says.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // helpers of tests are tests

mod support;

use ocelli_client::{
    Backend, ClientError, Content, Dtype, EncodeClient, EncodeRequest, LoadOptions, Receivers, Until,
    encode_and_receive, load,
};
use serde_json::json;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;
use support::{Server, Speaks, snapshot};

const AMPLE: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(100);
const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

/// Sends frames as an encoder does.
fn push(to: &ocelli_core::Destination, messages: &[&[&[u8]]]) -> zmq::Socket {
    let socket = zmq::Context::new().socket(zmq::PUSH).unwrap();
    socket.set_ipv6(true).unwrap();
    socket.connect(&format!("tcp://{to}")).unwrap();
    for frames in messages {
        socket.send_multipart(frames.iter(), 0).unwrap();
    }
    socket
}

#[tokio::test]
async fn messages_are_checked_as_the_language_server_checks_them() {
    let header = snapshot("image_bf16");
    let error = snapshot("error_short");
    let mut receiver = Receivers::new().bind(V4).unwrap();
    let (good, short, long) = ([7u8; 64], [7u8; 63], [7u8; 65]);
    let messages: [&[&[u8]]; 7] = [
        &[&header, &good],
        &[&header],
        &[&header, &short],
        &[&header, &long],
        &[&header, &good, b""],
        &[&error],
        &[b"garbage", &good],
    ];
    let _socket = push(receiver.destination(), &messages);

    let received = receiver.receive(AMPLE).await.unwrap();
    assert_eq!(received.payload(), good);
    let Content::Rows { dtype, rows, columns, .. } = received.header.content else { panic!("rows") };
    assert_eq!((dtype, rows, columns), (Dtype::BF16, 4, 8));
    let mut refusal = async || receiver.receive(AMPLE).await.map(|_| ()).unwrap_err();
    assert_eq!(refusal().await, ClientError::Frames(1, 2));
    assert_eq!(refusal().await, ClientError::Length { expected: 64, actual: 63 });
    assert_eq!(refusal().await, ClientError::Length { expected: 64, actual: 65 });
    assert_eq!(refusal().await, ClientError::Frames(3, 2));
    let told = receiver.receive(AMPLE).await.unwrap();
    let message = "Failed to process mm items: bad".to_owned();
    assert_eq!(told.header.content, Content::Error { message, code: Some(400) });
    assert!(matches!(receiver.receive(AMPLE).await, Err(ClientError::Header(_))));
    assert_eq!(receiver.receive(SHORT).await.map(|_| ()), Err(ClientError::TimedOut(SHORT)));
}

#[tokio::test]
async fn a_receiver_listens_on_ipv6() {
    let mut receiver = Receivers::new().bind(V6).unwrap();
    assert!(receiver.destination().to_string().starts_with("[::1]:"));
    let _socket = push(receiver.destination(), &[&[&snapshot("error_short")]]);
    assert!(receiver.receive(AMPLE).await.is_ok());
}

#[tokio::test]
async fn an_exchange_gets_its_rows_over_both_backends() {
    for backend in [Backend::ZmqToScheduler, Backend::ZmqToTokenizer] {
        let server = Server::start(Speaks::Rows).await;
        let client = EncodeClient::new(&server.url, AMPLE).unwrap();
        let mut receiver = Receivers::new().bind(V4).unwrap();
        client.health().await.unwrap();
        for _ in 0..3 {
            let request = EncodeRequest::images("req0_local_part_0", vec![json!("file:///a.png")]);
            let received = encode_and_receive(&client, &mut receiver, backend, &request, AMPLE).await.unwrap();
            assert_eq!((received.header.req_id.as_str(), received.payload()), ("req0_local_part_0", &[9u8; 64][..]));
        }
        let connections = if backend == Backend::ZmqToScheduler { 2 } else { 1 };
        assert_eq!(server.connections(), connections, "connections are kept");
    }
}

#[tokio::test]
async fn a_refusal_ends_the_exchange_at_once() {
    let server = Server::start(Speaks::Refusal).await;
    let client = EncodeClient::new(&server.url, AMPLE).unwrap();
    let mut receiver = Receivers::new().bind(V4).unwrap();
    let request = EncodeRequest::images("req0_local_part_0", vec![]);
    let refused = encode_and_receive(&client, &mut receiver, Backend::ZmqToTokenizer, &request, AMPLE).await;
    let right = ClientError::Status { code: 400, message: "missing or empty mm_items".into() };
    assert_eq!(refused.map(|_| ()), Err(right));
}

#[tokio::test]
async fn an_error_that_is_delivered_ends_the_exchange() {
    let server = Server::start(Speaks::ErrorFrame).await;
    let client = EncodeClient::new(&server.url, AMPLE).unwrap();
    let mut receiver = Receivers::new().bind(V4).unwrap();
    let request = EncodeRequest::images("req0_local_part_0", vec![json!("x")]);
    let failed = encode_and_receive(&client, &mut receiver, Backend::ZmqToTokenizer, &request, AMPLE).await;
    let right = ClientError::Delivered { code: Some(400), message: "Failed to process mm items: bad".into() };
    assert_eq!(failed.map(|_| ()), Err(right));
}

#[tokio::test]
async fn a_silent_server_runs_into_the_limit_and_an_absent_one_does_not_wait_for_it() {
    let server = Server::start(Speaks::Nothing).await;
    let client = EncodeClient::new(&server.url, SHORT).unwrap();
    assert_eq!(client.health().await, Err(ClientError::TimedOut(SHORT)));
    let url = server.url.clone();
    drop(server);
    let absent = EncodeClient::new(&url, AMPLE).unwrap().health().await;
    assert!(matches!(absent, Err(ClientError::Connection { .. })), "{absent:?}");
    for bad in ["", "127.0.0.1:80", "https://127.0.0.1:80", "http://", "http://a:b", "http://::1:80"] {
        assert!(EncodeClient::new(bad, AMPLE).is_err(), "{bad}");
    }
}

#[tokio::test]
async fn load_counts_every_exchange_once() {
    let server = Server::start(Speaks::Rows).await;
    let options = LoadOptions {
        url: server.url.clone(),
        backend: Backend::ZmqToScheduler,
        concurrency: 4,
        until: Until::Requests(40),
        items: vec![vec![json!("a")], vec![json!("b")]],
        receive_on: V4,
        id_prefix: "echo-".into(),
        limit: AMPLE,
    };
    let report = load::run(options.clone()).await.unwrap();
    assert_eq!((report.latencies.len(), report.failed, report.first_failure), (40, 0, None));

    let tokenizer = LoadOptions { backend: Backend::ZmqToTokenizer, ..options.clone() };
    assert_eq!(load::run(tokenizer).await.unwrap().latencies.len(), 40);

    let refusing = Server::start(Speaks::Refusal).await;
    let report = load::run(LoadOptions { url: refusing.url.clone(), ..options }).await.unwrap();
    assert_eq!((report.latencies.len(), report.failed), (0, 40));
}
