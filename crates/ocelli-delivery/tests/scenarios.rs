//! What every backend must do, each behaviour written once; zmq is the one that there is.
//! The receivers are real PULL sockets, but where a test must rule over each byte. Nothing sleeps: what
//! takes time is waited for, with a limit.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // helpers of tests are tests

mod support;

use futures_util::future::join_all;
use ocelli_delivery::{DeliveryError, SendReport, ZmqDelivery, ZmqOptions};
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;
use support::{Peer, Silent, Watched, closed_port, error, rows, until};

/// Never reached by what works.
const AMPLE: Duration = Duration::from_secs(60);
/// For what has to run out of time.
const SHORT: Duration = Duration::from_millis(200);
/// More than kernel buffers take.
const LARGE: usize = 16 << 20;

fn zmq(send_timeout: Duration) -> Arc<ZmqDelivery> {
    with(ZmqOptions { send_timeout, ..ZmqOptions::default() })
}

fn with(options: ZmqOptions) -> Arc<ZmqDelivery> {
    Arc::new(ZmqDelivery::start(options).unwrap())
}

type Sending = tokio::task::JoinHandle<Result<SendReport, DeliveryError>>;

fn send(delivery: &Arc<ZmqDelivery>, to: ocelli_core::Destination, message: ocelli_delivery::Message) -> Sending {
    let delivery = delivery.clone();
    tokio::spawn(async move { delivery.send(&to, message).await })
}

#[tokio::test]
async fn an_embedding_is_two_frames_and_an_error_is_one() {
    let (delivery, peer) = (zmq(AMPLE), Peer::bind("127.0.0.1"));
    let sent = delivery.send(&peer.destination(), rows("a", vec![7; 64])).await.unwrap();
    delivery.send(&peer.destination(), error("b", "no picture")).await.unwrap();

    let first = peer.receive();
    assert_eq!((first.len(), &first[1]), (2, &vec![7; 64]));
    assert_eq!(sent.bytes, first[0].len() + 64);
    let second = peer.receive();
    assert_eq!(second.len(), 1);
    assert!(String::from_utf8_lossy(&second[0]).contains("no picture"));
    let stats = delivery.stats();
    assert_eq!((stats.sent_total, stats.failed_total, stats.sockets_total), (2, 0, 1));
}

#[tokio::test]
async fn a_thousand_messages_are_pipelined_over_one_socket_in_order() {
    let (delivery, peer) = (zmq(AMPLE), Peer::bind("127.0.0.1"));
    let to = peer.destination();
    let payload = |i: u32| [i.to_le_bytes().to_vec(), vec![0; 4096]].concat();
    let sent = join_all((0..1000).map(|i| delivery.send(&to, rows("r", payload(i))))).await;
    assert!(sent.iter().all(Result::is_ok));
    for i in 0..1000 {
        assert!(peer.receive()[1] == payload(i), "message {i}");
    }
    assert_eq!(delivery.stats().sockets_total, 1);
}

#[tokio::test]
async fn a_second_message_is_queued_before_the_first_has_left() {
    let (delivery, silent) = (zmq(AMPLE), Silent::bind());
    let sends: Vec<_> = (0..3).map(|_| send(&delivery, silent.destination(), rows("r", vec![0; LARGE]))).collect();
    tokio::task::yield_now().await;
    let mut stream = silent.accept();
    until("three in flight", || delivery.stats().in_flight == 3).await;
    let reader = std::thread::spawn(move || std::io::copy(&mut stream, &mut std::io::sink()).unwrap());
    for sent in join_all(sends).await {
        sent.unwrap().unwrap();
    }
    drop(delivery);
    assert!(reader.join().unwrap() > 3 * LARGE as u64);
}

#[tokio::test]
async fn many_destinations_read_from_one_buffer() {
    let (delivery, silents) = (zmq(AMPLE), [Silent::bind(), Silent::bind(), Silent::bind()]);
    let (memory, freed) = Watched::new(LARGE);
    let message = rows("r", memory);
    let sends: Vec<_> = silents.iter().map(|peer| send(&delivery, peer.destination(), message.clone())).collect();
    drop(message);
    tokio::task::yield_now().await;
    let streams: Vec<_> = silents.iter().map(Silent::accept).collect();
    until("all in flight", || delivery.stats().in_flight == 3).await;
    // libzmq has everything now, and none of it is a copy
    freed.not_yet();
    for mut stream in streams {
        std::thread::spawn(move || std::io::copy(&mut stream, &mut std::io::sink()));
    }
    for sent in join_all(sends).await {
        sent.unwrap().unwrap();
    }
    freed.soon();
}

#[tokio::test]
async fn a_receiver_that_binds_late_gets_the_message() {
    let (delivery, to) = (zmq(AMPLE), closed_port());
    let sending = send(&delivery, to.clone(), rows("r", vec![5; 8]));
    until("it waits", || delivery.stats().queued == 1).await;
    let peer = Peer::bind_port("127.0.0.1", to.port());
    sending.await.unwrap().unwrap();
    assert_eq!(peer.receive()[1], [5; 8]);
}

#[tokio::test]
async fn a_receiver_that_dies_and_comes_back_gets_the_next_messages() {
    let (delivery, peer) = (zmq(AMPLE), Peer::bind("127.0.0.1"));
    let to = peer.destination();
    delivery.send(&to, rows("r", vec![1; 8])).await.unwrap();
    assert_eq!(peer.receive()[1], [1; 8]);
    drop(peer);
    let peer = Peer::bind_port("127.0.0.1", to.port());
    peer.connected();
    for i in 2..5 {
        delivery.send(&to, rows("r", vec![i; 8])).await.unwrap();
        assert_eq!(peer.receive()[1], [i; 8]);
    }
}

#[tokio::test]
async fn what_a_dying_receiver_had_not_taken_fails_at_once_and_the_rest_waits_for_its_return() {
    let (delivery, silent) = (zmq(AMPLE), Silent::bind());
    let to = silent.destination();
    let large = || rows("r", vec![0; LARGE]);
    let sends: Vec<_> = (0..3).map(|_| send(&delivery, to.clone(), large())).collect();
    tokio::task::yield_now().await;
    let stream = silent.accept();
    until("three in flight", || delivery.stats().in_flight == 3).await;
    drop((stream, silent));
    for sent in join_all(sends).await {
        assert_eq!(sent.unwrap(), Err(DeliveryError::ConnectionLost));
    }
    let sending = send(&delivery, to.clone(), rows("r", vec![5; 8]));
    let peer = Peer::bind_port("127.0.0.1", to.port());
    sending.await.unwrap().unwrap();
    assert_eq!(peer.receive()[1], [5; 8]);
    assert!(peer.is_empty(), "nothing is sent twice");
}

#[tokio::test]
async fn one_that_never_reads_delays_nobody_and_its_memory_is_freed_on_time_out() {
    let (delivery, silent, good) = (zmq(SHORT), Silent::bind(), Peer::bind("127.0.0.1"));
    let (memory, freed) = Watched::new(LARGE);
    let stuck = send(&delivery, silent.destination(), rows("r", memory));
    tokio::task::yield_now().await;
    let stream = silent.accept();
    until("it is stuck", || delivery.stats().in_flight == 1).await;
    delivery.send(&good.destination(), rows("r", vec![5; 8])).await.unwrap();
    assert_eq!(good.receive()[1], [5; 8]);
    freed.not_yet();
    assert_eq!(stuck.await.unwrap(), Err(DeliveryError::TimedOut(SHORT)));
    freed.soon();
    drop(stream);
}

#[tokio::test]
async fn ten_dead_ones_do_not_delay_a_live_one() {
    let (delivery, good) = (zmq(AMPLE), Peer::bind("127.0.0.1"));
    let dead: Vec<_> = (0..10).map(|_| send(&delivery, closed_port(), rows("r", vec![0; 8]))).collect();
    until("ten wait", || delivery.stats().queued == 10).await;
    let sent = delivery.send(&good.destination(), rows("r", vec![5; 8])).await.unwrap();
    assert_eq!(good.receive()[1], [5; 8]);
    // the dead have 60 s; the bound asked for is 100 ms, with room here for a busy machine
    assert!(sent.waited < Duration::from_secs(5), "{:?}", sent.waited);
    assert!(dead.iter().all(|sending| !sending.is_finished()));
}

#[tokio::test]
async fn a_dead_destination_times_out_and_its_memory_is_freed() {
    let delivery = zmq(SHORT);
    let (memory, freed) = Watched::new(64);
    let sent = delivery.send(&closed_port(), rows("r", memory)).await;
    assert_eq!(sent, Err(DeliveryError::TimedOut(SHORT)));
    freed.soon();
    until("its socket is gone", || delivery.stats().endpoints == 0).await;
    assert_eq!(delivery.stats().timed_out_total, 1);
}

#[tokio::test]
async fn ipv6_addresses_and_names_are_reached() {
    let delivery = zmq(AMPLE);
    let v6 = Peer::bind("::1");
    assert!(v6.destination().to_string().starts_with("[::1]:"));
    delivery.send(&v6.destination(), rows("r", vec![6; 8])).await.unwrap();
    assert_eq!(v6.receive()[1], [6; 8]);

    let v4 = Peer::bind("127.0.0.1");
    let named = ocelli_core::Destination::new("localhost", v4.destination().port()).unwrap();
    delivery.send(&named, rows("r", vec![4; 8])).await.unwrap();
    assert_eq!(v4.receive()[1], [4; 8]);
}

#[tokio::test]
async fn a_send_that_is_dropped_before_it_left_is_skipped() {
    let (delivery, to) = (zmq(AMPLE), closed_port());
    let (memory, freed) = Watched::new(64);
    let dropped = send(&delivery, to.clone(), rows("r", memory));
    until("it waits", || delivery.stats().queued == 1).await;
    dropped.abort();
    let _ = dropped.await;
    let sending = send(&delivery, to.clone(), rows("r", vec![5; 8]));
    let peer = Peer::bind_port("127.0.0.1", to.port());
    sending.await.unwrap().unwrap();
    freed.soon();
    assert_eq!(peer.receive()[1], [5; 8]);
    assert_eq!(delivery.stats().skipped_total, 1);
}

#[tokio::test]
async fn a_send_that_is_dropped_while_it_leaves_disturbs_nothing() {
    let (delivery, silent) = (zmq(AMPLE), Silent::bind());
    let (memory, freed) = Watched::new(LARGE);
    let dropped = send(&delivery, silent.destination(), rows("r", memory));
    tokio::task::yield_now().await;
    let mut stream = silent.accept();
    until("it leaves", || delivery.stats().in_flight == 1).await;
    dropped.abort();
    let _ = dropped.await;
    freed.not_yet();
    let next = send(&delivery, silent.destination(), rows("r", vec![0; 8]));
    std::thread::spawn(move || std::io::copy(&mut stream, &mut std::io::sink()));
    next.await.unwrap().unwrap();
    freed.soon();
}

#[tokio::test]
async fn closing_lets_everything_leave_and_accepts_nothing_more() {
    let (delivery, peer) = (zmq(AMPLE), Peer::bind("127.0.0.1"));
    let to = peer.destination();
    let sends: Vec<_> = (0..100).map(|_| send(&delivery, to.clone(), rows("r", vec![0; 1 << 16]))).collect();
    let accepted = |s: ocelli_delivery::ZmqStats| s.queued + s.in_flight + s.sent_total;
    until("all are accepted", || accepted(delivery.stats()) == 100).await;
    delivery.close(AMPLE).await;
    for sent in join_all(sends).await {
        sent.unwrap().unwrap();
    }
    (0..100).for_each(|_| drop(peer.receive()));
    assert_eq!(delivery.send(&to, rows("r", vec![0; 8])).await, Err(DeliveryError::Closed));
    delivery.close(AMPLE).await;
}

#[tokio::test]
async fn closing_fails_what_cannot_leave_in_time() {
    let delivery = zmq(AMPLE);
    let (memory, freed) = Watched::new(64);
    let sending = send(&delivery, closed_port(), rows("r", memory));
    until("it waits", || delivery.stats().queued == 1).await;
    delivery.close(SHORT).await;
    assert_eq!(sending.await.unwrap(), Err(DeliveryError::Closed));
    freed.soon();
}

#[tokio::test]
async fn a_destination_takes_no_more_than_its_room_and_leaves_the_others_theirs() {
    let delivery = with(ZmqOptions { send_timeout: AMPLE, endpoint_capacity: 2, ..ZmqOptions::default() });
    let (dead, good) = (closed_port(), Peer::bind("127.0.0.1"));
    let waiting: Vec<_> = (0..2).map(|_| send(&delivery, dead.clone(), rows("r", vec![0; 8]))).collect();
    until("both wait", || delivery.stats().queued == 2).await;
    let third = delivery.send(&dead, rows("r", vec![0; 8])).await;
    assert_eq!(third, Err(DeliveryError::QueueFull { limit: 2, one_destination: true }));
    delivery.send(&good.destination(), rows("r", vec![0; 8])).await.unwrap();
    drop(waiting);
}

#[tokio::test]
async fn no_more_messages_are_taken_than_there_is_room_for() {
    let delivery = with(ZmqOptions { send_timeout: SHORT, queue_capacity: 1, ..ZmqOptions::default() });
    let waiting = send(&delivery, closed_port(), rows("r", vec![0; 8]));
    until("it waits", || delivery.stats().queued == 1).await;
    let second = delivery.send(&closed_port(), rows("r", vec![0; 8])).await;
    assert_eq!(second, Err(DeliveryError::QueueFull { limit: 1, one_destination: false }));
    assert_eq!(waiting.await.unwrap(), Err(DeliveryError::TimedOut(SHORT)));
    let peer = Peer::bind("127.0.0.1");
    delivery.send(&peer.destination(), rows("r", vec![0; 8])).await.unwrap();
}

#[tokio::test]
async fn idle_sockets_make_room_and_busy_ones_do_not() {
    let delivery = with(ZmqOptions { send_timeout: AMPLE, max_endpoints: 1, ..ZmqOptions::default() });
    for i in 0..3 {
        let peer = Peer::bind("127.0.0.1");
        delivery.send(&peer.destination(), rows("r", vec![i; 8])).await.unwrap();
        assert_eq!(peer.receive()[1], [i; 8]);
    }
    assert_eq!((delivery.stats().sockets_total, delivery.stats().endpoints), (3, 1));
    let _waiting = send(&delivery, closed_port(), rows("r", vec![0; 8]));
    until("it waits", || delivery.stats().queued == 1).await;
    let refused = delivery.send(&closed_port(), rows("r", vec![0; 8])).await;
    assert_eq!(refused, Err(DeliveryError::TooManyEndpoints(1)));
}

#[tokio::test]
async fn without_idle_time_a_socket_ends_with_its_last_message() {
    let delivery = with(ZmqOptions { idle_timeout: Duration::ZERO, ..ZmqOptions::default() });
    for i in 0..20 {
        let peer = Peer::bind("127.0.0.1");
        delivery.send(&peer.destination(), rows("r", vec![i; 8])).await.unwrap();
        assert_eq!(peer.receive()[1], [i; 8]);
        until("its socket is gone", || delivery.stats().endpoints == 0).await;
    }
    assert_eq!(delivery.stats().sockets_total, 20);
}

/// Receivers that break off after so many bytes, again and again, while messages of all sizes go out: each
/// message ends, all memory comes back, and a good receiver beside them gets everything in order.
#[tokio::test]
async fn connections_that_keep_breaking_lose_no_message_without_a_word() {
    const SEED: u64 = 7;
    println!("seed {SEED}");
    let (delivery, good) = (zmq(Duration::from_secs(10)), Peer::bind("127.0.0.1"));
    let mut state = SEED;
    let mut chance = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let breaking: Vec<_> = (0..4)
        .map(|_| {
            let silent = Silent::bind();
            let to = silent.destination();
            let breaks_after: Vec<u64> = (0..64).map(|_| chance(3 << 20)).collect();
            // ends with the process; after its last break it reads everything
            std::thread::spawn(move || {
                for bytes in breaks_after.into_iter().chain([u64::MAX]) {
                    if let Ok(stream) = silent.try_accept() {
                        let _ = std::io::copy(&mut stream.take(bytes), &mut std::io::sink());
                    }
                }
            });
            to
        })
        .collect();
    let (mut sends, mut memories) = (Vec::new(), Vec::new());
    for i in 0..400u32 {
        let (memory, freed) = Watched::new(2 * (1 + chance(1 << 19) as usize));
        memories.push(freed);
        sends.push(send(&delivery, breaking[i as usize % 4].clone(), rows("r", memory)));
        let message = rows("r", [i.to_le_bytes(), [0; 4]].concat());
        delivery.send(&good.destination(), message).await.unwrap();
    }
    for i in 0..400u32 {
        assert_eq!(good.receive()[1][..4], i.to_le_bytes(), "the good one, message {i}");
    }
    let mut lost = 0;
    for sent in join_all(sends).await {
        match sent.unwrap() {
            Ok(_) => {}
            Err(DeliveryError::ConnectionLost | DeliveryError::TimedOut(_)) => lost += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert!(lost > 0, "nothing broke");
    memories.iter().for_each(support::Freed::soon);
    let stats = delivery.stats();
    assert_eq!(stats.sent_total + stats.failed_total, 800, "{stats:?}");
}
