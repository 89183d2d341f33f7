//! Leaving: what is here is finished or failed, nothing new is taken.

#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use serde_json::json;
use support::{Answer, TestServer, data_url, encode_body};

async fn staged(server: &TestServer, id: &str) -> tokio::net::TcpStream {
    let body = encode_body(id, &[data_url("size_27x29.png")]);
    let open = server.send("POST", "/encode", "application/json", body.to_string().as_bytes()).await;
    support::until("rows are staged", || server.app.table.stats().staged > 0).await;
    open
}

/// Point 25: a request that is staged when the server is told to leave is still delivered, its
/// registration still taken.
#[tokio::test]
async fn what_is_in_flight_is_delivered_while_nothing_new_is_taken() {
    let server = TestServer::start(&[]).await;
    let open = staged(&server, "kept").await;
    server.app.drain.begin();
    assert_eq!(server.get("/health").await.status, 503);
    let refused = server.post("/encode", &encode_body("new", &[data_url("size_27x29.png")])).await;
    assert_eq!(refused.status, 503, "{}", refused.text());
    let mut receiver = support::receiver();
    let register = json!({"req_id": "kept", "receive_count": 1, "receive_url": receiver.url()});
    assert_eq!(server.post("/scheduler_receive_url", &register).await.status, 200);
    let part = receiver.next().await;
    assert_eq!((part.rows(), part.error()), (6, None));
    assert_eq!(Answer::read(open).await.status, 200);
    server.stop().await;
}

/// Q2 for shutdown: whoever still waits at the end of patience is told.
#[tokio::test]
async fn what_cannot_be_finished_in_time_fails_with_a_message() {
    let server = TestServer::start(&["--drain-timeout", "0.2"]).await;
    let open = staged(&server, "late").await;
    server.app.drain.begin();
    let answer = Answer::read(open).await;
    assert!(matches!(answer.status, 502..=504), "{} {}", answer.status, answer.text());
    server.stop().await;
}
