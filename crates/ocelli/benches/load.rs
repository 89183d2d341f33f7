//! Closed-loop load on an encode server, from POST to received rows. Works against sglang's too. Prints JSON.
//!
//! `cargo bench -p ocelli --bench load -- URL CONCURRENCY SECONDS PICTURE`

#![expect(clippy::expect_used, reason = "a bench has no input but its own")]

use base64::Engine as _;
use ocelli_client::{Backend, LoadOptions, Until, load};
use serde_json::json;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let [url, concurrency, seconds, picture] = args.as_slice() else {
        eprintln!("load URL CONCURRENCY SECONDS PICTURE");
        return;
    };
    let bytes = std::fs::read(picture).expect("a picture");
    let item = json!(format!("data:image/png;base64,{}", base64::engine::general_purpose::STANDARD.encode(bytes)));
    let options = |until, prefix: &str| LoadOptions {
        url: url.clone(),
        backend: Backend::ZmqToScheduler,
        concurrency: concurrency.parse().expect("a number"),
        until,
        items: vec![vec![item.clone()]],
        receive_on: IpAddr::V4(Ipv4Addr::LOCALHOST),
        id_prefix: prefix.to_owned(),
        limit: Duration::from_secs(60),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        load::run(options(Until::Requests(20), &format!("warm-{}-", std::process::id()))).await.expect("warm-up");
        let elapsed = Until::Elapsed(Duration::from_secs_f64(seconds.parse().expect("seconds")));
        let report = load::run(options(elapsed, &format!("load-{}-", std::process::id()))).await.expect("load");
        let ms = |percent| report.percentile(percent).as_secs_f64() * 1e3;
        println!(
            "{}",
            json!({
                "requests_per_second": report.requests_per_second(),
                "p50_ms": ms(50.0), "p99_ms": ms(99.0),
                "done": report.latencies.len(), "failed": report.failed,
                "first_failure": report.first_failure.map(|why| why.to_string()),
            })
        );
    });
}
