//! Everything that a client can get wrong, over HTTP, one after another on one server: each gets its
//! error, the server goes on, nothing is left.

#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use serde_json::{Value, json};
use support::{TestServer, data_url, encode_body, goldens, medium};

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// Field by field. Points 15 and 29 of wire-protocol.md 9.2, Q37 of the field cases.
#[tokio::test]
async fn wrong_fields_get_400_and_leave_nothing() {
    let server = TestServer::start(&["--send-timeout-s", "1"]).await;
    let wrong: Vec<(&str, Vec<Value>)> = vec![
        ("req_id", vec![json!(null), json!(1), json!(""), json!([]), json!({}), json!(true)]),
        (
            "modality",
            vec![json!(null), json!(1), json!(""), json!("SMELL"), json!(["IMAGE"]), json!("VIDEO"), json!("AUDIO")],
        ),
        (
            "mm_items",
            vec![
                json!(null),
                json!([]),
                json!(1),
                json!(true),
                json!([null]),
                json!([1]),
                json!([""]),
                json!([[[]]]),
                json!({}),
                json!({"url": 1}),
                json!([{"url": "x", "content_hash": 1}]),
                json!("relative/path.png"),
                json!("ftp://x/y.png"),
                json!("http://"),
                json!("http://["),
                json!("data:image/png;base64,"),
                json!("data:,"),
                json!("file:///etc/passwd"),
                json!("/etc/passwd"),
                json!("http://127.0.0.1:1/x.png"),
                json!("http://169.254.169.254/latest/meta-data"),
                json!("🙂"),
            ],
        ),
        (
            "num_parts",
            vec![
                json!(null),
                json!(0),
                json!(-1),
                json!(1.5),
                json!("1"),
                json!(true),
                json!(1e300),
                json!(4294967296u64),
            ],
        ),
        ("part_idx", vec![json!(null), json!(-1), json!(1), json!(0.0), json!("0"), json!(false), json!(i64::MIN)]),
        ("hashes", vec![json!({}), json!(1.5)]),
        ("embedding_port", vec![json!([]), json!([0]), json!(-1), json!("80"), json!([70000]), json!({})]),
        ("prefill_host", vec![json!(1), json!(""), json!("a b"), json!("tcp://x")]),
    ];
    for (field, values) in wrong {
        for value in values {
            let mut body = encode_body("bad", &[data_url("size_27x29.png")]);
            if field == "prefill_host" || field == "embedding_port" {
                (body["prefill_host"], body["embedding_port"]) = (json!("127.0.0.1"), json!([9]));
            }
            body[field] = value.clone();
            let answer = server.post("/encode", &body).await;
            assert_eq!(answer.status, 400, "{field} = {value}: {}", answer.text());
            assert_eq!(answer.json()["status"], "error");
            assert!(
                !answer.message().is_empty() && answer.message().len() < 400,
                "{field} = {value}: {}",
                answer.message()
            );
            server.empty().await;
        }
    }
    for (route, wrong) in [
        ("/scheduler_receive_url", json!({"receive_count": 1, "receive_url": "127.0.0.1:9"})),
        ("/scheduler_receive_url", json!({"req_id": "x", "receive_count": 0, "receive_url": "127.0.0.1:9"})),
        ("/scheduler_receive_url", json!({"req_id": "x", "receive_count": true, "receive_url": "127.0.0.1:9"})),
        ("/scheduler_receive_url", json!({"req_id": "x", "receive_count": 1})),
        ("/scheduler_receive_meta_data", json!({"part_idx": 0})),
    ] {
        let answer = server.post(route, &wrong).await;
        assert_eq!(answer.status, 400, "{route} {wrong}: {}", answer.text());
    }
    server.still_serves().await;
    server.empty().await;
    server.stop().await;
}

/// Q35, Q38: the corpus of broken files.
#[tokio::test]
async fn every_broken_file_is_a_client_error_that_names_its_item() {
    let server = TestServer::start(&["--send-timeout-s", "1"]).await;
    let manifest: Value =
        serde_json::from_slice(&std::fs::read(goldens().join("media/manifest.json")).unwrap()).unwrap();
    let mut refused = 0;
    for (name, entry) in manifest["media"].as_object().unwrap().iter().filter(|(_, e)| e["kind"] == "bad") {
        let items = [data_url("size_27x29.png"), base64(&medium(name))];
        // an empty file is an empty string, which is refused before any medium is looked at
        let answer = server.post("/v1/embeddings/multimodal", &json!({"mm_items": items})).await;
        if entry["decode"]["ok"] == true {
            assert_eq!(answer.status, 200, "{name}: {}", answer.text());
            continue;
        }
        refused += 1;
        assert!(matches!(answer.status, 400 | 413), "{name}: {} {}", answer.status, answer.text());
        assert!(answer.message().starts_with("item 1: "), "{name}: {}", answer.message());
    }
    assert!(refused > 15, "the corpus was not found");
    server.still_serves().await;
    server.empty().await;
    server.stop().await;
}

#[tokio::test]
async fn too_much_of_anything_is_refused_with_its_limit_and_flag() {
    let server = TestServer::start(&[
        "--max-request-body-mb",
        "64",
        "--max-items-per-request",
        "512",
        "--max-image-pixels",
        "700",
    ])
    .await;
    // 1,000 items
    let answer = server.post("/encode", &encode_body("many", &vec!["x".to_owned(); 1000])).await;
    assert_eq!(answer.status, 400);
    assert!(
        answer.message().contains("512") && answer.message().contains("--max-items-per-request"),
        "{}",
        answer.message()
    );
    // a body of 100 MiB, declared: refused before it is read
    let mut stream = server.send("POST", "/encode", "application/json", b"").await;
    drop(stream);
    stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
    let head = b"POST /encode HTTP/1.1\r\nhost: x\r\ncontent-length: 104857600\r\nconnection: close\r\n\r\n";
    tokio::io::AsyncWriteExt::write_all(&mut stream, head).await.unwrap();
    let answer = support::Answer::read(stream).await;
    assert_eq!(answer.status, 413);
    assert!(answer.message().contains("64 MiB (--max-request-body-mb)"), "{}", answer.message());
    // the same, chunked: cut off where the limit is
    let mut stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
    let head = b"POST /encode HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n";
    tokio::io::AsyncWriteExt::write_all(&mut stream, head).await.unwrap();
    let chunk = [b"100000\r\n".as_slice(), &vec![b' '; 1 << 20], b"\r\n"].concat();
    for _ in 0..100 {
        if tokio::io::AsyncWriteExt::write_all(&mut stream, &chunk).await.is_err() {
            break;
        }
    }
    drop(stream);
    // a picture over the pixel limit: 27 × 29 = 783 pixels
    let answer = server.post("/v1/embeddings/multimodal", &json!({"mm_items": data_url("size_27x29.png")})).await;
    assert_eq!(answer.status, 413, "{}", answer.text());
    assert!(answer.message().contains("--max-image-pixels"), "{}", answer.message());
    server.empty().await;
    server.stop().await;
}

/// Q12: a second copy of an id in flight is 409; the id is free again afterwards.
#[tokio::test]
async fn an_id_in_flight_is_refused_and_free_again_after_completion() {
    let server = TestServer::start(&[]).await;
    let body = encode_body("twin", &[data_url("size_27x29.png")]);
    let first = server.send("POST", "/encode", "application/json", body.to_string().as_bytes()).await;
    support::until("rows are staged", || server.app.table.stats().staged > 0).await;
    let second = server.post("/encode", &body).await;
    assert_eq!(second.status, 409, "{}", second.text());
    assert_eq!(second.json()["req_id"], "twin");
    drop(first); // the client goes away
    server.empty().await;
    let third = server.send("POST", "/encode", "application/json", body.to_string().as_bytes()).await;
    support::until("rows are staged", || server.app.table.stats().staged > 0).await;
    drop(third);
    server.empty().await;
    server.stop().await;
}

/// Point 20: room is bounded, and the answer is quick and says when to come back.
#[tokio::test]
async fn more_requests_than_there_is_room_for_get_503_with_retry_after() {
    let server = TestServer::start(&["--max-pending-requests", "4"]).await;
    let mut held = Vec::new();
    for i in 0..4 {
        let body = encode_body(&format!("held-{i}"), &[data_url("size_27x29.png")]);
        held.push(server.send("POST", "/encode", "application/json", body.to_string().as_bytes()).await);
    }
    support::until("four are staged", || server.app.table.stats().staged >= 4).await;
    let answer = server.post("/encode", &encode_body("more", &[data_url("size_27x29.png")])).await;
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert!(answer.head.contains("retry-after: "), "{}", answer.head);
    assert!(answer.message().contains("--max-pending-requests"), "{}", answer.message());
    assert_eq!(server.get("/health").await.status, 200, "full is not unwell");
    drop(held);
    server.empty().await;
    server.still_serves().await;
    server.stop().await;
}

/// Point 20 for memory: bodies that are being read are bounded together, by what they declare.
#[tokio::test]
async fn bodies_beyond_the_room_for_media_are_refused_before_they_are_read() {
    let server = TestServer::start(&["--max-pending-mb", "8"]).await;
    let declare = |mib: usize| format!("POST /encode HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", mib << 20);
    let mut slow = tokio::net::TcpStream::connect(server.address).await.unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut slow, declare(6).as_bytes()).await.unwrap();
    support::until("the slow body has its room", || server.app.bodies.in_use().bytes > 0).await;
    let mut second = tokio::net::TcpStream::connect(server.address).await.unwrap();
    let head = declare(6).replace("host: x", "host: x\r\nconnection: close");
    tokio::io::AsyncWriteExt::write_all(&mut second, head.as_bytes()).await.unwrap();
    let answer = support::Answer::read(second).await;
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert!(answer.message().contains("--max-pending-mb"), "{}", answer.message());
    assert_eq!(server.get("/health").await.status, 200);
    drop(slow);
    support::until("the room is given back", || server.app.bodies.in_use().bytes == 0).await;
    server.still_serves().await;
    server.stop().await;
}
