//! `POST /encode`: one part, from media to delivered rows.

use crate::api::encode_body::{self, BodyRules};
use crate::api::{answer, body};
use crate::app::App;
use crate::config::Backend;
use crate::pipeline;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use ocelli_core::Fault;
use serde_json::{Map, Value};
use std::sync::Arc;

/// Answers when every destination was served. A client that goes away cancels the encode.
pub async fn handle(State(app): State<Arc<App>>, headers: HeaderMap, raw: Body) -> Response {
    let fields = match body::json_object(&app, &headers, raw).await {
        Ok(fields) => fields,
        Err(refused) => return refused,
    };
    match encode(&app, &fields).await {
        Ok(()) => answer::done(),
        Err(fault) => answer::error(&fault, fields.get("req_id")),
    }
}

async fn encode(app: &Arc<App>, fields: &Map<String, Value>) -> Result<(), Fault> {
    let rules = BodyRules {
        needs_destination: app.config.backend == Backend::ZmqToTokenizer,
        max_items: app.config.max_items_per_request,
    };
    let request = encode_body::parse(fields, &rules)?;
    pipeline::run(app, request).await
}
