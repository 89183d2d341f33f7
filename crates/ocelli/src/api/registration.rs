//! Who wants a part: `/scheduler_receive_url`; and the two calls of one-sided backends.

use crate::api::{answer, body};
use crate::app::App;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use ocelli_core::{Destination, Fault, Reason, ReqId};
use serde_json::{Map, Value, json};
use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

/// Adds a destination to a part; waits until the part's encode has begun, which may be later.
pub async fn receive_url(State(app): State<Arc<App>>, headers: HeaderMap, raw: Body) -> Response {
    let fields = match body::json_object(&app, &headers, raw).await {
        Ok(fields) => fields,
        Err(refused) => return refused,
    };
    match register(&app, &fields).await {
        Ok(()) => answer::done(),
        Err(fault) => {
            let id = fields.get("req_id").and_then(|id| id.as_str()).unwrap_or_default();
            tracing::warn!(req_id = id, reason = fault.reason.as_str(), %fault, "registration refused");
            answer::error(&fault, fields.get("req_id"))
        }
    }
}

async fn register(app: &App, fields: &Map<String, Value>) -> Result<(), Fault> {
    let id = req_id(fields)?;
    let count =
        fields.get("receive_count").and_then(Value::as_u64).and_then(|n| u32::try_from(n).ok()).filter(|n| *n > 0);
    let count = count.ok_or_else(|| bad("receive_count must be a positive integer"))?;
    let url = fields.get("receive_url").and_then(Value::as_str).ok_or_else(|| bad("missing or invalid receive_url"))?;
    let destination = Destination::parse(url).map_err(|e| bad(format!("receive_url: {e}")))?;
    let destination = app.destinations.admit(&destination).await?;
    let registered = app.table.register(&id, destination, count, Instant::now());
    within(app, &id, "no encode of this id began", registered).await
}

/// Sizes of a part, as soon as its items are prepared.
pub async fn receive_meta_data(State(app): State<Arc<App>>, headers: HeaderMap, raw: Body) -> Response {
    let fields = match body::json_object(&app, &headers, raw).await {
        Ok(fields) => fields,
        Err(refused) => return refused,
    };
    let sizes = async {
        let id = req_id(&fields)?;
        within(&app, &id, "encode metadata not ready", app.table.sizes(&id)).await
    };
    match sizes.await {
        Ok(sizes) => axum::response::IntoResponse::into_response(axum::Json(json!({
            "req_id": fields.get("req_id"),
            "part_idx": fields.get("part_idx"),
            "embedding_size": sizes.bytes,
            "embedding_len": sizes.rows,
            "embedding_dim": sizes.dim,
        }))),
        Err(fault) => answer::error(&fault, fields.get("req_id")),
    }
}

/// `/send` starts a one-sided write. No backend of this version does that: the parts go by themselves.
pub async fn send(State(app): State<Arc<App>>, headers: HeaderMap, raw: Body) -> Response {
    let fields = match body::json_object(&app, &headers, raw).await {
        Ok(fields) => fields,
        Err(refused) => return refused,
    };
    let message = format!(
        "/send is for one-sided backends; this server delivers by {} without being asked",
        app.config.backend.as_str()
    );
    answer::error(&bad(message), fields.get("req_id"))
}

/// Bounds a wait by the encode time-out.
async fn within<T>(
    app: &App,
    id: &ReqId,
    what: &str,
    waiting: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    let limit = app.config.encode_timeout;
    let timeout = || Fault::new(Reason::UnknownRequest, format!("[{id}] {what} within {} s", limit.as_secs_f32()));
    tokio::time::timeout(limit, waiting).await.unwrap_or_else(|_| Err(timeout()))
}

fn req_id(fields: &Map<String, Value>) -> Result<ReqId, Fault> {
    fields.get("req_id").and_then(Value::as_str).and_then(ReqId::new).ok_or_else(|| bad("missing or invalid req_id"))
}

fn bad(message: impl Into<String>) -> Fault {
    Fault::new(Reason::BadRequest, message)
}
