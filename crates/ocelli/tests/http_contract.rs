//! The routes, their statuses and bodies (wire-protocol.md 1), and what is refused at the door.

#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use serde_json::{Value, json};
use support::{TestServer, data_url, encode_body, medium};

/// Recorded from the original: sglang 0.5.23, `conformance/golden/*.http.json`.
#[tokio::test]
async fn plain_http_answers_are_the_originals() {
    let server = TestServer::start(&[]).await;
    let good = json!({"req_id": "r0", "modality": "IMAGE", "mm_items": ["x"], "num_parts": 1, "part_idx": 0});
    let with = |key: &str, value: Value| {
        let mut body = good.clone();
        body[key] = value;
        body.to_string()
    };
    let error = |message: &str, id: Value| json!({"status": "error", "message": message, "req_id": id});
    for (method, path, body, status, answer) in [
        ("GET", "/health", String::new(), 200, None),
        ("GET", "/health_generate", String::new(), 200, None),
        ("GET", "/nope", String::new(), 404, Some(json!({"detail": "Not Found"}))),
        ("GET", "/encode", String::new(), 405, Some(json!({"detail": "Method Not Allowed"}))),
        ("POST", "/encode", "{}".into(), 400, Some(error("missing or invalid req_id", Value::Null))),
        (
            "POST",
            "/encode",
            with("modality", Value::Null),
            400,
            Some(error("missing or invalid modality", "r0".into())),
        ),
        (
            "POST",
            "/encode",
            with("modality", "SMELL".into()),
            400,
            Some(error("unsupported modality: SMELL", "r0".into())),
        ),
        ("POST", "/encode", with("mm_items", json!([])), 400, Some(error("missing or empty mm_items", "r0".into()))),
        (
            "POST",
            "/encode",
            with("num_parts", json!(true)),
            400,
            Some(error("num_parts must be a positive integer", "r0".into())),
        ),
        ("POST", "/encode", with("part_idx", json!(1)), 400, Some(error("part_idx must be in [0, 1)", "r0".into()))),
        (
            "POST",
            "/encode",
            with("hashes", json!({})),
            400,
            Some(error("hashes must be list/scalar, got dict", "r0".into())),
        ),
        ("POST", "/stop_profile", String::new(), 400, None),
    ] {
        let got = support::Answer::read(server.send(method, path, "application/json", body.as_bytes()).await).await;
        assert_eq!(got.status, status, "{method} {path} {body}: {}", got.text());
        if let Some(answer) = answer {
            assert_eq!(got.json(), answer, "{method} {path} {body}");
        }
    }
    assert_eq!(server.get("/health").await.text(), "");
    for (body, kind) in [("{", "json_invalid"), ("[]", "dict_type"), ("", "missing"), ("7", "dict_type")] {
        let got = server.post_bytes("/encode", "application/json", body.as_bytes()).await;
        assert_eq!((got.status, got.json()["detail"][0]["type"].clone()), (422, json!(kind)), "{body}");
    }
    server.stop().await;
}

#[tokio::test]
async fn model_info_says_what_is_served_and_within_which_limits() {
    let server = TestServer::start(&["--served-model-name", "tiny"]).await;
    let info = server.get("/model_info").await.json();
    assert_eq!(info["model"], "tiny");
    assert_eq!(info["architecture"], "Qwen2_5_VLForConditionalGeneration");
    assert_eq!((info["dim"].clone(), info["dtype"].clone()), (json!(64), json!("float32")));
    assert_eq!(info["modalities"], json!(["image"]));
    assert!(info["limits"]["max_image_pixels"].is_u64());
    assert_eq!(info["requests"]["active"], 0);
    server.stop().await;
}

/// Weakness 28: what a request names is checked before anything is connected to.
#[tokio::test]
async fn destinations_that_cannot_be_meant_are_refused_at_once() {
    let server = TestServer::start(&["--allowed-destinations", "127.0.0.0/8"]).await;
    for url in ["0.0.0.0:9", "[::]:9", "10.1.1.1:9", "tcp://127.0.0.1:9", "127.0.0.1", "::1:9"] {
        let body = json!({"req_id": "never", "receive_count": 1, "receive_url": url});
        let answer = server.post("/scheduler_receive_url", &body).await;
        assert_eq!(answer.status, 400, "{url}: {}", answer.text());
        assert!(answer.message().contains(url.trim_start_matches("tcp://")), "{}", answer.message());
        assert_eq!(answer.json()["req_id"], "never");
    }
    let mut body = encode_body("direct", &[data_url("size_27x29.png")]);
    body["prefill_host"] = json!("0.0.0.0");
    body["embedding_port"] = json!([9]);
    let answer = server.post("/encode", &body).await;
    assert_eq!(answer.status, 400, "{}", answer.text());
    server.empty().await;
    server.stop().await;
}

#[tokio::test]
async fn a_registration_without_an_encode_ends_with_504_and_leaves_nothing() {
    let server = TestServer::start(&["--encode-timeout-s", "1"]).await;
    let body = json!({"req_id": "never", "receive_count": 1, "receive_url": "127.0.0.1:9"});
    let answer = server.post("/scheduler_receive_url", &body).await;
    assert_eq!(answer.status, 504, "{}", answer.text());
    assert_eq!(server.app.table.stats().early_waiters, 0);
    server.stop().await;
}

#[tokio::test]
async fn the_routes_of_one_sided_backends_say_that_they_are_not_used() {
    let server = TestServer::start(&[]).await;
    let answer = server.post("/send", &json!({"req_id": "x"})).await;
    assert_eq!(answer.status, 400);
    assert!(answer.message().contains("zmq_to_scheduler"), "{}", answer.message());
    server.stop().await;
}

#[tokio::test]
async fn the_inline_answer_has_rows_grids_offsets_and_sizes() {
    let server = TestServer::start(&[]).await;
    let items = json!({"mm_items": [data_url("size_27x29.png"), data_url("png_rgb.png")], "format": "json", "encoding": "float"});
    let json_answer = server.post("/v1/embeddings/multimodal", &items).await;
    assert_eq!(json_answer.status, 200, "{}", json_answer.text());
    let by_json = json_answer.json();
    assert_eq!(by_json["shape"], json!([30, 64]));
    assert_eq!(
        by_json["items"][1],
        json!({"grid_thw": [1, 8, 12], "row_offset": 6, "rows": 24, "width": 160, "height": 120})
    );

    let mut form = Vec::new();
    for name in ["size_27x29.png", "png_rgb.png"] {
        form.extend_from_slice(
            format!("--b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\n").as_bytes(),
        );
        form.extend_from_slice(&medium(name));
        form.extend_from_slice(b"\r\n");
    }
    form.extend_from_slice(b"--b--\r\n");
    let answer = server.post_bytes("/v1/embeddings/multimodal", "multipart/form-data; boundary=b", &form).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let file = safetensors::SafeTensors::deserialize(&answer.body).expect("safetensors");
    let integers = |name: &str| -> Vec<i64> {
        file.tensor(name).expect(name).data().as_chunks().0.iter().map(|b| i64::from_le_bytes(*b)).collect()
    };
    assert_eq!(integers("grid_thw"), [1, 6, 4, 1, 8, 12]);
    assert_eq!(integers("row_offsets"), [0, 6, 30]);
    assert_eq!(integers("sizes"), [27, 29, 160, 120]);
    let rows = file.tensor("embeddings").expect("embeddings");
    assert_eq!(rows.shape(), [30, 64]);
    let first = f32::from_le_bytes(rows.data()[..4].try_into().unwrap());
    assert_eq!(by_json["embeddings"][0][0].as_f64().map(|v| v as f32), Some(first));

    for (query, body) in [
        ("?format=xml", items.clone()),
        ("", json!({"mm_items": []})),
        ("", json!({"mm_items": ["x"], "modality": "AUDIO"})),
    ] {
        let mut body = body;
        body.as_object_mut().unwrap().remove("format");
        let answer = server.post(&format!("/v1/embeddings/multimodal{query}"), &body).await;
        assert_eq!(answer.status, 400, "{}", answer.text());
    }
    server.empty().await;
    server.stop().await;
}
