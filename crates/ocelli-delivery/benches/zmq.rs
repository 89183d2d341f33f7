//! What delivery over loopback costs: one message at a time, and many at once.
//! `cargo bench -p ocelli-delivery` prints a line a size; not part of the tests.
#![allow(clippy::unwrap_used)] // a bench is a test

use ocelli_core::{Destination, GridThw, Modality, ReqId};
use ocelli_delivery::{Embedding, Message, Part, Staged, WireDtype, ZmqDelivery, ZmqOptions};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for (bytes, alone, together) in [(64 << 10, 2000, 4000), (1 << 20, 500, 1000), (16 << 20, 40, 100)] {
            measure(bytes, alone, together).await;
        }
        measure_fresh(64 << 10, 300).await;
    });
}

async fn measure(bytes: usize, alone: usize, together: usize) {
    let socket = zmq::Context::new().socket(zmq::PULL).unwrap();
    socket.set_rcvhwm(0).unwrap();
    socket.bind("tcp://127.0.0.1:*").unwrap();
    let endpoint = socket.get_last_endpoint().unwrap().unwrap();
    let to = Destination::parse(endpoint.trim_start_matches("tcp://")).unwrap();
    let (arrived, arrivals) = sync_channel(alone + together);
    let receiving = std::thread::spawn(move || {
        for _ in 0..alone + together {
            socket.recv_msg(0).unwrap();
            socket.recv_msg(0).unwrap();
            arrived.send(Instant::now()).unwrap();
        }
    });

    let delivery = ZmqDelivery::start(ZmqOptions::default()).unwrap();
    let message = message(bytes);
    let mut latencies: Vec<Duration> = Vec::with_capacity(alone);
    for _ in 0..alone {
        let began = Instant::now();
        delivery.send(&to, message.clone()).await.unwrap();
        latencies.push(arrivals.recv().unwrap() - began);
    }
    latencies.sort_unstable();
    let began = Instant::now();
    futures_util::future::join_all((0..together).map(|_| delivery.send(&to, message.clone()))).await;
    let last = (0..together).fold(began, |_, _| arrivals.recv().unwrap());
    let seconds = (last - began).as_secs_f64();
    let rate = together as f64 / seconds;
    println!(
        "{bytes:>9} bytes: alone {:?} p50 {:?} p99; together {rate:.0} messages/s, {:.2} GB/s",
        latencies[alone / 2],
        latencies[alone * 99 / 100],
        rate * bytes as f64 / 1e9,
    );
    receiving.join().unwrap();
}

/// As `zmq_to_tokenizer` has it: every message to a socket that was just bound.
async fn measure_fresh(bytes: usize, count: usize) {
    let options = ZmqOptions { idle_timeout: Duration::ZERO, ..ZmqOptions::default() };
    let (delivery, context, message) = (ZmqDelivery::start(options).unwrap(), zmq::Context::new(), message(bytes));
    let mut latencies: Vec<Duration> = Vec::with_capacity(count);
    for _ in 0..count {
        let socket = context.socket(zmq::PULL).unwrap();
        socket.bind("tcp://127.0.0.1:*").unwrap();
        let endpoint = socket.get_last_endpoint().unwrap().unwrap();
        let to = Destination::parse(endpoint.trim_start_matches("tcp://")).unwrap();
        let began = Instant::now();
        delivery.send(&to, message.clone()).await.unwrap();
        socket.recv_multipart(0).unwrap();
        latencies.push(began.elapsed());
    }
    latencies.sort_unstable();
    let (p50, p99) = (latencies[count / 2], latencies[count * 99 / 100]);
    println!("{bytes:>9} bytes: to a fresh socket {p50:?} p50 {p99:?} p99");
}

fn message(bytes: usize) -> Message {
    let req_id = ReqId::new("req0_local_part_0").unwrap();
    let part = Part { req_id, num_parts: 1, part_idx: 0, modality: Modality::Image };
    let payload = Staged::new(vec![1u8; bytes]);
    let (rows, dim, dtype) = (bytes / 128, 64, WireDtype::BF16);
    Message::Embedding(part, Embedding { grid: vec![GridThw::new(1, 16, 16)], dtype, rows, dim, payload })
}
