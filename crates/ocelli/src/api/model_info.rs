//! `/model_info`: what is served, and within which limits. The original has no such route.

use crate::app::App;
use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};
use std::sync::Arc;

/// The card, the limits, what is in the table now.
pub async fn handle(State(app): State<Arc<App>>) -> Json<Value> {
    let (card, config) = (&app.card, &app.config);
    let stats = app.table.stats();
    Json(json!({
        "server": "ocelli",
        "version": env!("CARGO_PKG_VERSION"),
        "model": config.served_model_name,
        "architecture": card.architecture,
        "model_type": card.model_type,
        "modalities": card.modalities.iter().map(|m| m.as_str()).collect::<Vec<_>>(),
        "dim": card.dim,
        "dtype": card.dtype.name(),
        "patch_size": card.patch_size,
        "merge_size": card.merge_size,
        "temporal_patch_size": card.temporal_patch_size,
        "encoder_transfer_backend": config.backend.as_str(),
        "limits": {
            "max_request_body_bytes": config.max_request_body_bytes,
            "max_items_per_request": config.max_items_per_request,
            "max_image_pixels": config.max_image_pixels,
            "max_media_bytes": config.max_media_bytes,
            "max_pending_requests": config.max_pending_requests,
            "max_pending_bytes": config.max_pending_bytes,
            "max_batch_requests": config.max_batch_requests,
            "max_batch_patches": config.max_batch_patches,
        },
        "requests": {
            "active": stats.entries,
            "staged": stats.staged,
            "active_sends": stats.active_sends,
            "early_waiters": stats.early_waiters,
        },
    }))
}
