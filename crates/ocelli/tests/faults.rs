//! A device that fails, panics or hangs: requests are told, health tells the truth, the server stays up.
//!
//! The tower is the real one behind a switch; everything else is the server as it is.

#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use ocelli::encoder::Device;
use ocelli::start;
use ocelli_engine::{CpuOps, EngineError, Ops, Tensor};
use ocelli_models::{OpenOptions, Prepared, Tower};
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use support::{Answer, PATIENCE, TestServer, data_url, encode_body};

/// What the next forwards do.
#[derive(Default)]
struct Switch {
    fail: AtomicUsize,
    panic: AtomicUsize,
    /// Fails any batch that holds an item of this many patches.
    poison_patches: AtomicUsize,
    held: Mutex<bool>,
    released: Condvar,
    forwards: AtomicUsize,
}

impl Switch {
    fn hold(&self, held: bool) {
        *self.held.lock().unwrap() = held;
        self.released.notify_all();
    }
}

struct Switched {
    inner: Box<dyn Tower>,
    switch: Arc<Switch>,
}

fn take_one(counter: &AtomicUsize) -> bool {
    counter.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok()
}

impl Tower for Switched {
    fn forward(&self, ops: &dyn Ops, batch: &[&Prepared]) -> Result<Tensor, EngineError> {
        self.switch.forwards.fetch_add(1, Ordering::SeqCst);
        let mut held = self.switch.held.lock().unwrap();
        while *held {
            held = self.switch.released.wait(held).unwrap();
        }
        drop(held);
        if take_one(&self.switch.panic) {
            panic!("a bug in a tower, on purpose");
        }
        let poison = self.switch.poison_patches.load(Ordering::SeqCst);
        let poisoned = poison > 0 && batch.iter().any(|item| item.grid.patches() == poison);
        if poisoned || take_one(&self.switch.fail) {
            return Err(EngineError::Shape { op: "test", why: "a device error, on purpose".into() });
        }
        self.inner.forward(ops, batch)
    }
}

async fn server(flags: &[&str]) -> (TestServer, Arc<Switch>) {
    let config = support::config(flags);
    let options = OpenOptions { dtype: config.dtype, image_config: None };
    let opened = Arc::new(ocelli_models::open(&config.model_path, &options).unwrap());
    let switch = Arc::new(Switch::default());
    let (of_tower, model) = (switch.clone(), opened.clone());
    let server = start::start_with(config, opened, move || {
        let ops = Box::new(CpuOps::new(1)?);
        let inner = model.load(ops.as_ref(), &mut |_, _| ())?;
        Ok(Device { ops, tower: Box::new(Switched { inner, switch: of_tower }) })
    });
    (TestServer::run(server.await.unwrap()), switch)
}

/// Q7: a device error fails its batch at once, turns health, and is over when the device works again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_device_error_fails_what_was_in_flight_and_turns_health_until_it_works_again() {
    let (server, switch) = server(&[]).await;
    switch.fail.store(2, Ordering::SeqCst);
    let answer = server.post("/v1/embeddings/multimodal", &json!({"mm_items": data_url("size_27x29.png")})).await;
    assert_eq!(answer.status, 500, "{}", answer.text());
    assert!(answer.message().contains("internal encoding error"), "{}", answer.message());
    // the probe meets the second error
    assert_eq!(server.get("/health").await.status, 503);
    // and the next one none
    assert_eq!(server.get("/health").await.status, 200);
    server.still_serves().await;
    server.empty().await;
    server.stop().await;
}

/// Q8: a bug that one item triggers does not end the device thread.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_in_a_tower_fails_its_request_only() {
    let (server, switch) = server(&[]).await;
    switch.panic.store(1, Ordering::SeqCst);
    let answer = server.post("/v1/embeddings/multimodal", &json!({"mm_items": data_url("size_27x29.png")})).await;
    assert_eq!(answer.status, 500, "{}", answer.text());
    server.still_serves().await;
    server.stop().await;
}

/// Point 15, Q36: of a batch that fails, only the item that fails alone too is failed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_bad_item_does_not_fail_its_neighbours_in_the_batch() {
    let (server, switch) = server(&["--max-batch-size", "16"]).await;
    switch.poison_patches.store(96, Ordering::SeqCst); // png_rgb.png: 8 × 12 patches
    switch.hold(true);
    let mut open = Vec::new();
    for i in 0..8 {
        // the first is on the device before the others come, so that they share a batch
        if i == 1 {
            support::until("the first is on the device", || switch.forwards.load(Ordering::SeqCst) == 1).await;
        }
        let picture = if i == 3 { "png_rgb.png" } else { "size_27x29.png" };
        let body = json!({"mm_items": data_url(picture)}).to_string();
        open.push(server.send("POST", "/v1/embeddings/multimodal", "application/json", body.as_bytes()).await);
    }
    support::until("seven wait", || server.app.encoder.queued() >= 7).await;
    switch.hold(false);
    for (i, stream) in open.into_iter().enumerate() {
        assert_eq!(Answer::read(stream).await.status, if i == 3 { 500 } else { 200 }, "request {i}");
    }
    server.empty().await;
    server.stop().await;
}

/// Point 21, Q5: a busy device is well, within a second; a stalled one is not, also within a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_device_is_well_and_a_stalled_one_is_not() {
    let (server, switch) = server(&["--health-stall-s", "1"]).await;
    switch.hold(true);
    let mut open = Vec::new();
    for i in 0..32 {
        let body = encode_body(&format!("r{i}"), &[data_url("size_27x29.png")]).to_string();
        open.push(server.send("POST", "/encode", "application/json", body.as_bytes()).await);
    }
    support::until("work waits", || server.app.encoder.queued() > 0).await;
    let began = Instant::now();
    assert_eq!(server.get("/health").await.status, 200, "busy is not dead");
    assert!(began.elapsed() < Duration::from_secs(1));
    // Q1: a registration does not wait for the device either
    let register = json!({"req_id": "r0", "receive_count": 1, "receive_url": "127.0.0.1:9"});
    assert_eq!(server.post("/scheduler_receive_url", &register).await.status, 200);
    let stalled = async {
        while server.get("/health").await.status == 200 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, stalled).await.expect("a stalled device is found out");
    let began = Instant::now();
    assert_eq!(server.get("/health").await.status, 503);
    assert!(began.elapsed() < Duration::from_secs(1));
    switch.hold(false);
    let recovered = async {
        while server.get("/health").await.status != 200 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, recovered).await.expect("well again");
    drop(open);
    server.empty().await;
    server.stop().await;
}

/// Q2 for the deadline: 504 by HTTP, and the same by the destination's socket.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_encode_that_takes_too_long_is_told_to_everybody() {
    let (server, switch) = server(&["--encode-timeout-s", "1"]).await;
    let mut receiver = support::receiver();
    switch.hold(true);
    let body = encode_body("slow", &[data_url("size_27x29.png")]).to_string();
    let open = server.send("POST", "/encode", "application/json", body.as_bytes()).await;
    let register = json!({"req_id": "slow", "receive_count": 1, "receive_url": receiver.url()});
    assert_eq!(server.post("/scheduler_receive_url", &register).await.status, 200);
    let answer = Answer::read(open).await;
    assert_eq!(answer.status, 504, "{}", answer.text());
    assert_eq!(receiver.next().await.error().map(|e| e.1), Some(504));
    switch.hold(false);
    server.empty().await;
    server.still_serves().await;
    server.stop().await;
}

/// Q56: batches are bounded by work. Q10: what was cancelled in the queue never reaches the device.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_are_bounded_by_work_and_skip_what_nobody_waits_for() {
    let (server, switch) = server(&["--max-batch-patches", "200"]).await;
    switch.hold(true);
    let mut open = Vec::new();
    for i in 0..9 {
        if i == 1 {
            support::until("the first is on the device", || switch.forwards.load(Ordering::SeqCst) == 1).await;
        }
        let body = json!({"mm_items": data_url("png_rgb.png")}).to_string(); // 96 patches
        open.push(server.send("POST", "/v1/embeddings/multimodal", "application/json", body.as_bytes()).await);
    }
    support::until("eight wait", || server.app.encoder.queued() >= 8).await;
    // two of them leave
    drop(open.drain(7..));
    support::until("two have left", || server.app.admission.in_use().requests <= 7).await;
    switch.hold(false);
    for stream in open {
        assert_eq!(Answer::read(stream).await.status, 200);
    }
    // the first alone, then six in pairs
    assert_eq!(switch.forwards.load(Ordering::SeqCst), 4);
    server.empty().await;
    server.stop().await;
}
