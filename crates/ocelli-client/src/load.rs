//! Closed-loop load: so many clients, each with one exchange at a time.

use crate::{Backend, ClientError, EncodeClient, EncodeRequest, Receivers, encode_and_receive};
use serde_json::Value;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// When a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// So many exchanges were begun.
    Requests(usize),
    /// So much time is over; what was begun is finished.
    Elapsed(Duration),
}

/// What to do to a server.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// `http://host:port`.
    pub url: String,
    /// How destinations are told.
    pub backend: Backend,
    /// Clients.
    pub concurrency: usize,
    /// When to stop.
    pub until: Until,
    /// `mm_items` of the requests, taken in turn.
    pub items: Vec<Vec<Value>>,
    /// Where to receive: an address of this machine that the server reaches.
    pub receive_on: IpAddr,
    /// Begins every `req_id`; must differ from run to run.
    pub id_prefix: String,
    /// For each exchange.
    pub limit: Duration,
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct LoadReport {
    /// From the POST to the rows, of each exchange that succeeded, ascending.
    pub latencies: Vec<Duration>,
    /// Exchanges that failed.
    pub failed: usize,
    /// The first failure seen.
    pub first_failure: Option<ClientError>,
    /// From the first POST to the last answer.
    pub elapsed: Duration,
}

impl LoadReport {
    /// Successful exchanges a second.
    pub fn requests_per_second(&self) -> f64 {
        self.latencies.len() as f64 / self.elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// The latency that `percent` of the exchanges did not exceed (nearest rank); zero without exchanges.
    pub fn percentile(&self, percent: f64) -> Duration {
        let rank = (percent / 100.0 * self.latencies.len() as f64).ceil() as usize;
        self.latencies.get(rank.max(1) - 1).or(self.latencies.last()).copied().unwrap_or_default()
    }
}

/// Runs the load. Needs a tokio runtime.
///
/// # Errors
/// Only what prevents every exchange: the URL, or no receiver to be had. Failed exchanges are counted.
pub async fn run(options: LoadOptions) -> Result<LoadReport, ClientError> {
    let shared = Arc::new(Shared {
        client: EncodeClient::new(&options.url, options.limit)?,
        receivers: Receivers::new(),
        begun: AtomicUsize::new(0),
        start: Instant::now(),
        options,
    });
    let mut clients = JoinSet::new();
    for _ in 0..shared.options.concurrency {
        clients.spawn(one_client(shared.clone()));
    }
    let mut report = LoadReport { latencies: Vec::new(), failed: 0, first_failure: None, elapsed: Duration::default() };
    while let Some(ended) = clients.join_next().await {
        let mut part = ended.map_err(|why| ClientError::connection("client")(&why))??;
        report.latencies.append(&mut part.latencies);
        report.failed += part.failed;
        report.first_failure = report.first_failure.or(part.first_failure);
    }
    report.elapsed = shared.start.elapsed();
    report.latencies.sort_unstable();
    Ok(report)
}

struct Shared {
    client: EncodeClient,
    receivers: Receivers,
    begun: AtomicUsize,
    start: Instant,
    options: LoadOptions,
}

impl Shared {
    /// The number of the next exchange, while there is one.
    fn next(&self) -> Option<usize> {
        let number = self.begun.fetch_add(1, Relaxed);
        let more = match self.options.until {
            Until::Requests(total) => number < total,
            Until::Elapsed(time) => self.start.elapsed() < time,
        };
        more.then_some(number)
    }
}

#[derive(Default)]
struct Part {
    latencies: Vec<Duration>,
    failed: usize,
    first_failure: Option<ClientError>,
}

async fn one_client(shared: Arc<Shared>) -> Result<Part, ClientError> {
    let Shared { client, receivers, options, .. } = &*shared;
    let mut part = Part::default();
    let mut receiver = receivers.bind(options.receive_on)?;
    while let Some(number) = shared.next() {
        if options.backend == Backend::ZmqToTokenizer {
            // the language server binds a fresh socket for each request
            receiver = receivers.bind(options.receive_on)?;
        }
        let items = options.items.get(number % options.items.len().max(1)).cloned().unwrap_or_default();
        let request = EncodeRequest::images(format!("{}{number}_local_part_0", options.id_prefix), items);
        let began = Instant::now();
        match encode_and_receive(client, &mut receiver, options.backend, &request, options.limit).await {
            Ok(received) => part.latencies.push(received.at.saturating_duration_since(began)),
            Err(why) => {
                part.failed += 1;
                part.first_failure.get_or_insert(why);
            }
        }
    }
    Ok(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_ranks() {
        let latencies = (1..=100).map(Duration::from_millis).collect();
        let report = LoadReport { latencies, failed: 0, first_failure: None, elapsed: Duration::from_secs(2) };
        let ms = |percent| report.percentile(percent).as_millis();
        assert_eq!((ms(50.0), ms(99.0), ms(100.0), ms(0.0)), (50, 99, 100, 1));
        assert_eq!(report.requests_per_second(), 50.0);
        let none = LoadReport { latencies: Vec::new(), ..report };
        assert_eq!(none.percentile(50.0), Duration::ZERO);
    }
}
