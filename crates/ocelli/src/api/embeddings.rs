//! `POST /v1/embeddings/multimodal`: for people and other programs; the rows come in the answer itself.
//!
//! The body is JSON (`mm_items` as in `/encode`, optional `modality`, `format`, `encoding`) or multipart,
//! each file part an item. `format` (`safetensors`, the default, or `json`) and `encoding` of JSON rows
//! (`base64`, the default, or `float`) may also be in the query.

use crate::api::encode_body::{parse_items, parse_modality};
use crate::api::{answer, body};
use crate::app::App;
use crate::pipeline::{self, Encoded};
use crate::request::{Item, ItemSource};
use crate::trace::RequestLog;
use axum::Json;
use axum::body::Body;
use axum::extract::{FromRequest, Multipart, Query, Request, State};
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use half::{bf16, f16};
use ocelli_core::{Fault, Modality, Reason, ReqId};
use ocelli_engine::DType;
use safetensors::tensor::{Dtype, TensorView};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// How the caller wants the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Safetensors,
    JsonBase64,
    JsonFloat,
}

struct Wanted {
    items: Vec<Item>,
    modality: Modality,
    format: Format,
}

/// Encodes and answers with the rows.
pub async fn handle(
    State(app): State<Arc<App>>,
    Query(query): Query<HashMap<String, String>>,
    request: Request,
) -> Response {
    let multipart =
        request.headers().get(CONTENT_TYPE).is_some_and(|v| v.as_bytes().starts_with(b"multipart/form-data"));
    let wanted =
        if multipart { from_multipart(&app, request, &query).await } else { from_json(&app, request, &query).await };
    let wanted = match wanted {
        Ok(wanted) => wanted,
        Err(refused) => return refused,
    };
    match encode(&app, wanted).await {
        Ok(answer) => answer,
        Err(fault) => answer::error(&fault, None),
    }
}

async fn from_json(app: &App, request: Request, query: &HashMap<String, String>) -> Result<Wanted, Response> {
    let (head, raw) = request.into_parts();
    let fields = body::json_object(app, &head.headers, raw).await?;
    let word = |key: &str| fields.get(key).and_then(Value::as_str).or_else(|| query.get(key).map(String::as_str));
    let parsed = || {
        let items = parse_items(fields.get("mm_items"), app.config.max_items_per_request)?;
        let modality = fields.get("modality").map_or(Ok(Modality::Image), |value| parse_modality(Some(value)))?;
        Ok(Wanted { items, modality, format: format(word("format"), word("encoding"))? })
    };
    parsed().map_err(|fault: Fault| answer::error(&fault, None))
}

async fn from_multipart(app: &App, request: Request, query: &HashMap<String, String>) -> Result<Wanted, Response> {
    let refuse = |fault: Fault| answer::error(&fault, None);
    // the whole body is read under its limit first; the parts are slices of it
    let (head, raw) = request.into_parts();
    let bytes = body::read(app, &head.headers, raw).await?;
    let whole = Request::from_parts(head, Body::from(bytes));
    let broken = |why: String| refuse(Fault::new(Reason::BadRequest, format!("multipart: {why}")));
    let mut parts = Multipart::from_request(whole, &()).await.map_err(|e| broken(e.body_text()))?;
    let (mut items, mut words) = (Vec::new(), query.clone());
    while let Some(part) = parts.next_field().await.map_err(|e| broken(e.body_text()))? {
        let name = part.name().unwrap_or_default().to_owned();
        let is_file = part.file_name().is_some();
        let bytes = part.bytes().await.map_err(|e| broken(e.body_text()))?;
        if !is_file && matches!(name.as_str(), "format" | "encoding" | "modality") {
            words.insert(name, String::from_utf8_lossy(&bytes).into_owned());
            continue;
        }
        if items.len() == app.config.max_items_per_request {
            let message = format!("more than {} items (--max-items-per-request)", items.len());
            return Err(refuse(Fault::new(Reason::BadRequest, message)));
        }
        items.push(Item { source: ItemSource::Bytes(bytes), content_hash: None });
    }
    if items.is_empty() {
        return Err(refuse(Fault::new(Reason::BadRequest, "the multipart body holds no file")));
    }
    let word = |key: &str| words.get(key).map(String::as_str);
    let modality = word("modality").map_or(Ok(Modality::Image), |w| parse_modality(Some(&Value::from(w))));
    let format = format(word("format"), word("encoding"));
    Ok(Wanted { items, modality: modality.map_err(refuse)?, format: format.map_err(refuse)? })
}

fn format(format: Option<&str>, encoding: Option<&str>) -> Result<Format, Fault> {
    match (format.unwrap_or("safetensors"), encoding) {
        ("safetensors", None) => Ok(Format::Safetensors),
        ("json", None | Some("base64")) => Ok(Format::JsonBase64),
        ("json", Some("float")) => Ok(Format::JsonFloat),
        ("safetensors", Some(_)) => Err(Fault::new(Reason::BadRequest, "encoding is for format json")),
        ("json", Some(_)) => Err(Fault::new(Reason::BadRequest, "encoding must be base64 or float")),
        _ => Err(Fault::new(Reason::BadRequest, "format must be safetensors or json")),
    }
}

async fn encode(app: &App, wanted: Wanted) -> Result<Response, Fault> {
    let id = ReqId::new(&format!("inline-{}", app.encoder.next_request()));
    let id = id.ok_or_else(|| Fault::new(Reason::Internal, "no id"))?;
    let mut log = RequestLog::begin(&id, wanted.modality, wanted.items.len());
    let outcome = async {
        let bytes = wanted.items.iter().map(Item::inline_bytes).sum();
        let _permit = app.admit(wanted.items.len(), bytes)?;
        let began = Instant::now();
        let encoding = pipeline::encode_items(app, &wanted.items, wanted.modality, &mut log, |_| ());
        let encoded = app.in_time(encoding).await?;
        let rows = encoded.rows.len() / app.row_bytes().max(1);
        let answer = render(app, &wanted, &encoded);
        log.delivered(rows, 1, began.elapsed());
        answer
    }
    .await;
    log.end(outcome.as_ref().err());
    outcome
}

fn render(app: &App, wanted: &Wanted, encoded: &Encoded) -> Result<Response, Fault> {
    let mut offsets = vec![0usize];
    for grid in &encoded.grids {
        offsets.push(offsets.last().copied().unwrap_or(0) + app.processor.rows(*grid));
    }
    let rows = offsets.last().copied().unwrap_or(0);
    if wanted.format == Format::Safetensors {
        return safetensors(app, wanted.modality, encoded, &offsets);
    }
    let items: Vec<Value> = (encoded.grids.iter().zip(&encoded.sizes).enumerate())
        .map(|(i, (grid, (width, height)))| {
            json!({
                "grid_thw": [grid.t, grid.h, grid.w],
                "row_offset": offsets[i],
                "rows": offsets[i + 1] - offsets[i],
                "width": width,
                "height": height,
            })
        })
        .collect();
    let bytes = encoded.rows.as_bytes();
    let (encoding, embeddings) = if wanted.format == Format::JsonFloat {
        ("float", json!(floats(bytes, app.card.dtype).chunks(app.card.dim).collect::<Vec<_>>()))
    } else {
        ("base64", json!(base64::engine::general_purpose::STANDARD.encode(bytes)))
    };
    Ok(Json(json!({
        "model": app.config.served_model_name,
        "modality": wanted.modality.as_str(),
        "dtype": app.card.dtype.name(),
        "shape": [rows, app.card.dim],
        "items": items,
        "encoding": encoding,
        "embeddings": embeddings,
    }))
    .into_response())
}

/// Tensors `embeddings [rows, dim]`, `grid_thw [items, 3]`, `row_offsets [items + 1]`, `sizes [items, 2]`
/// (width, height in pixels as decoded).
fn safetensors(app: &App, modality: Modality, encoded: &Encoded, offsets: &[usize]) -> Result<Response, Fault> {
    let bug = |e: safetensors::SafeTensorError| Fault::new(Reason::Internal, format!("writing safetensors: {e}"));
    let integers = |values: Vec<u64>| values.into_iter().flat_map(|v| (v as i64).to_le_bytes()).collect::<Vec<u8>>();
    let items = encoded.grids.len();
    let grids = integers(encoded.grids.iter().flat_map(|g| [g.t, g.h, g.w].map(u64::from)).collect());
    let sizes = integers(encoded.sizes.iter().flat_map(|(w, h)| [*w, *h].map(u64::from)).collect());
    let starts = integers(offsets.iter().map(|o| *o as u64).collect());
    let dtype = match app.card.dtype {
        DType::F32 => Dtype::F32,
        DType::F16 => Dtype::F16,
        DType::BF16 => Dtype::BF16,
    };
    let rows = offsets.last().copied().unwrap_or(0);
    let tensors = [
        ("embeddings", TensorView::new(dtype, vec![rows, app.card.dim], encoded.rows.as_bytes()).map_err(bug)?),
        ("grid_thw", TensorView::new(Dtype::I64, vec![items, 3], &grids).map_err(bug)?),
        ("row_offsets", TensorView::new(Dtype::I64, vec![items + 1], &starts).map_err(bug)?),
        ("sizes", TensorView::new(Dtype::I64, vec![items, 2], &sizes).map_err(bug)?),
    ];
    let about = HashMap::from([
        ("model".to_owned(), app.config.served_model_name.clone()),
        ("modality".to_owned(), modality.as_str().to_owned()),
    ]);
    let file = safetensors::serialize(tensors, Some(about)).map_err(bug)?;
    let mut response = Body::from(file).into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/vnd.safetensors"));
    Ok(response)
}

fn floats(bytes: &[u8], dtype: DType) -> Vec<f32> {
    match dtype {
        DType::F32 => bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect(),
        DType::F16 => bytes.as_chunks::<2>().0.iter().map(|b| f16::from_le_bytes(*b).to_f32()).collect(),
        DType::BF16 => bytes.as_chunks::<2>().0.iter().map(|b| bf16::from_le_bytes(*b).to_f32()).collect(),
    }
}
