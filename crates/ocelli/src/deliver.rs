//! One message to every destination of a part, as they register; failures take the same road.

use crate::api::answer;
use crate::app::App;
use crate::pipeline::Encoded;
use crate::request::Recipients;
use crate::trace::RequestLog;
use futures_util::stream::{FuturesUnordered, StreamExt};
use ocelli_core::lifecycle::EncodeGuard;
use ocelli_core::{Destination, Fault, Reason};
use ocelli_delivery::{Embedding, Failure, Message, Part, Staged, WireDtype};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::timeout_at;

/// What every message of a part has in common, and who gets it.
pub struct Outbound {
    /// The part's names.
    pub part: Part,
    /// Element type of the rows.
    pub dtype: WireDtype,
    /// Columns of a row.
    pub dim: usize,
    /// Named by the request, or whoever registers.
    pub recipients: Recipients,
}

/// Delivers the rows. Every destination gets its own try: a dead one costs the others nothing.
///
/// # Errors
/// `RegistrationTimeout` when not all destinations registered in time, `DeliveryFailed` naming those
/// that could not be served.
pub async fn rows(
    app: &App,
    entry: &EncodeGuard<Staged>,
    out: &Outbound,
    encoded: Encoded,
    log: &mut RequestLog,
) -> Result<(), Fault> {
    let began = Instant::now();
    let rows = encoded.rows.len() / (out.dim * out.dtype.size()).max(1);
    let embedding = Embedding { grid: encoded.grids, dtype: out.dtype, rows, dim: out.dim, payload: encoded.rows };
    let message = Message::Embedding(out.part.clone(), embedding);
    let done = everyone(app, entry, out, &message).await;
    log.delivered(rows, done.served, began.elapsed());
    done.verdict(&out.part, app.config.send_timeout)
}

/// Tells every destination of a part what went wrong. Named ones before the HTTP answer, as the
/// original does; those that have yet to register in the background, bounded in number and time.
pub async fn fault(app: &Arc<App>, entry: EncodeGuard<Staged>, out: Outbound, fault: &Fault) {
    let code = answer::status(fault.reason).as_u16();
    let message = Message::Error(out.part.clone(), Failure { message: fault.to_string(), code });
    if matches!(out.recipients, Recipients::Named(_)) {
        let done = everyone(app, &entry, &out, &message).await;
        report(&out, done.verdict(&out.part, app.config.send_timeout));
        return;
    }
    let Ok(permit) = app.error_deliveries.clone().try_acquire_owned() else {
        tracing::warn!(req_id = %out.part.req_id, "too many errors wait for their destinations; this one is told by HTTP only");
        return;
    };
    let app = app.clone();
    app.tasks.clone().spawn(async move {
        let done = everyone(&app, &entry, &out, &message).await;
        report(&out, done.verdict(&out.part, app.config.send_timeout));
        drop(permit);
    });
}

fn report(out: &Outbound, verdict: Result<(), Fault>) {
    if let Err(why) = verdict {
        tracing::debug!(req_id = %out.part.req_id, %why, "the error was not delivered to everyone");
    }
}

/// What became of the sends of one message.
#[derive(Default)]
struct Done {
    served: usize,
    failed: Vec<String>,
    /// Destinations that are known / that there should be, when time ran out before they all registered.
    missing: Option<(usize, Option<u32>)>,
    /// The server's patience ended first.
    cut: bool,
}

impl Done {
    fn verdict(self, part: &Part, limit: Duration) -> Result<(), Fault> {
        let id = &part.req_id;
        if !self.failed.is_empty() {
            let failed = self.failed.join(", ");
            let message = format!("[{id}] embedding delivery failed: delivery failed for [{failed}]");
            return Err(Fault::new(Reason::DeliveryFailed, message));
        }
        if let Some((known, expected)) = self.missing {
            let expected = expected.map_or_else(|| "?".to_owned(), |n| n.to_string());
            if self.cut {
                let message = format!("[{id}] the server shut down with {known}/{expected} destination(s) initiated");
                return Err(Fault::new(Reason::Draining, message));
            }
            let seconds = limit.as_secs_f32();
            let message =
                format!("[{id}] delivery timed out after {seconds}s with {known}/{expected} destination(s) initiated");
            return Err(Fault::new(Reason::RegistrationTimeout, message));
        }
        Ok(())
    }
}

async fn everyone(app: &App, entry: &EncodeGuard<Staged>, out: &Outbound, message: &Message) -> Done {
    let mut done = Done::default();
    let mut known = 0;
    let mut sends = FuturesUnordered::new();
    let mut more = true;
    if let Recipients::Named(named) = &out.recipients {
        named.iter().for_each(|to| sends.push(one(app, entry, to.clone(), message)));
        more = false;
    }
    let registration_ends = tokio::time::Instant::now() + app.config.send_timeout;
    loop {
        tokio::select! {
            next = timeout_at(registration_ends, entry.next_destination()), if more => match next {
                Ok(Some(to)) => {
                    known += 1;
                    sends.push(one(app, entry, to, message));
                }
                Ok(None) => more = false,
                Err(_) => {
                    done.missing = Some((known, entry.expected_destinations()));
                    more = false;
                }
            },
            Some(sent) = sends.next() => match sent {
                Ok(()) => done.served += 1,
                Err(why) => done.failed.push(why),
            },
            () = app.drain.hard_stop(), if more => {
                (done.missing, done.cut) = (Some((known, entry.expected_destinations())), true);
                more = false;
            }
            else => return done,
        }
    }
}

/// One send, with its guard: the staged rows live at least as long.
async fn one(app: &App, entry: &EncodeGuard<Staged>, to: Destination, message: &Message) -> Result<(), String> {
    let _guard = entry.begin_send(&to);
    let sent = app.delivery.send(&to, message.clone()).await;
    sent.map(|_| ()).map_err(|why| {
        tracing::warn!(req_id = %entry.id(), %to, %why, "send failed");
        format!("{to}: {why}")
    })
}
