//! The path: one request, from its items to rows at every destination, on one screen.
//!
//! Cancelling is dropping the future of [`run`]: the guards release the entry, queued work that nobody
//! waits for is skipped when a batch is built.

use crate::app::App;
use crate::deliver::{self, Outbound};
use crate::prepare::PreparedItem;
use crate::request::{EncodeRequest, Item, Recipients};
use crate::trace::RequestLog;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use ocelli_core::lifecycle::Sizes;
use ocelli_core::{Fault, GridThw, ItemIdx, Modality, Reason};
use ocelli_delivery::Staged;
use std::sync::Arc;
use std::time::Instant;

/// Items of one request that are fetched and prepared at the same time.
const ITEMS_IN_PREPARATION: usize = 16;

/// Encoded items of one request, in item order.
pub struct Encoded {
    /// `[Σ rows, dim]` in the card's dtype.
    pub rows: Staged,
    /// One an item.
    pub grids: Vec<GridThw>,
    /// Width and height of each item as it was decoded, in pixels.
    pub sizes: Vec<(u32, u32)>,
}

/// Serves one `/encode`: returns when every destination was served, or with the fault that all of them
/// are told by the road an embedding would have taken.
///
/// # Errors
/// Every [`Reason`] that the path knows.
pub async fn run(app: &Arc<App>, request: EncodeRequest) -> Result<(), Fault> {
    let mut log = RequestLog::begin(&request.id, request.modality, request.items.len());
    let outcome = serve(app, request, &mut log).await;
    log.end(outcome.as_ref().err());
    outcome
}

async fn serve(app: &Arc<App>, request: EncodeRequest, log: &mut RequestLog) -> Result<(), Fault> {
    // whoever registered early for a request that is not taken must not wait for its time-out
    let refuse = |fault: &Fault| app.table.refuse(&request.id, fault.clone());
    let permit = app.admit(request.items.len(), inline_bytes(&request.items)).inspect_err(refuse)?;
    let recipients = app.destinations.resolve(&request.recipients).await.inspect_err(refuse)?;
    let entry = app.table.begin(&request.id, Instant::now()).inspect_err(refuse)?;
    let publish = |sizes| entry.publish_sizes(sizes, Instant::now());
    let encoded = app.in_time(encode_items(app, &request.items, request.modality, log, publish)).await;
    let out = Outbound::of(&request, app, recipients);
    let result = match encoded {
        Ok(encoded) => {
            entry.stage(encoded.rows.clone())?;
            deliver::rows(app, &entry, &out, encoded, log).await
        }
        Err(fault) => {
            entry.fail(fault.clone(), Instant::now());
            deliver::fault(app, entry, out, &fault).await;
            return Err(fault);
        }
    };
    drop(permit);
    entry.release();
    result
}

/// Items to rows: every item is prepared, the sizes are published, then the device encodes them in
/// whatever batches it forms. One bad item fails its own request only.
///
/// # Errors
/// The first fault of an item, with its index.
pub async fn encode_items(
    app: &App,
    items: &[Item],
    modality: Modality,
    log: &mut RequestLog,
    publish: impl FnOnce(Sizes),
) -> Result<Encoded, Fault> {
    if !app.card.modalities.contains(&modality) {
        let message = format!("{} has no encoder for {modality}", app.card.architecture);
        return Err(Fault::new(Reason::UnsupportedModality, message));
    }
    if modality != Modality::Image {
        return Err(Fault::new(Reason::UnsupportedModality, format!("{modality} is not supported by this version")));
    }
    let jobs: Vec<_> = items.iter().enumerate().map(|(i, item)| prepare(app, i, item)).collect();
    let prepared: Vec<_> = stream::iter(jobs).buffered(ITEMS_IN_PREPARATION).try_collect().await?;
    let grids: Vec<GridThw> = prepared.iter().map(|p| p.prepared.grid).collect();
    let sizes = prepared.iter().map(|p| p.size).collect();
    let rows: usize = grids.iter().map(|grid| app.processor.rows(*grid)).sum();
    publish(Sizes { rows, dim: app.card.dim, bytes: rows * app.row_bytes() });
    prepared.iter().for_each(|p| log.prepared(p));

    let request = app.encoder.next_request();
    let submitted = prepared.into_iter().map(|p| app.encoder.submit(request, p.prepared));
    let submitted = submitted.collect::<Result<Vec<_>, _>>()?;
    let mut parts = Vec::with_capacity(submitted.len());
    for (i, waiting) in submitted.into_iter().enumerate() {
        let item = waiting.rows().await.map_err(|fault| fault.at(ItemIdx(i)))?;
        log.encoded(&item);
        parts.push(item.rows);
    }
    let rows = Staged::join(parts);
    Ok(Encoded { rows, grids, sizes })
}

async fn prepare(app: &App, index: usize, item: &Item) -> Result<PreparedItem, Fault> {
    app.prepare.item(item).await.map_err(|fault| fault.at(ItemIdx(index)))
}

/// What the request itself carries: `data:` URLs, base64, uploads.
fn inline_bytes(items: &[Item]) -> usize {
    items.iter().map(Item::inline_bytes).sum()
}

impl Outbound {
    fn of(request: &EncodeRequest, app: &App, recipients: Recipients) -> Self {
        Outbound {
            part: ocelli_delivery::Part {
                req_id: request.id.clone(),
                num_parts: request.num_parts,
                part_idx: request.part_idx,
                modality: request.modality,
            },
            dtype: app.wire_dtype(),
            dim: app.card.dim,
            recipients,
        }
    }
}
