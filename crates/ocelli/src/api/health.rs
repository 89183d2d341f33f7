//! `/health`, `/health_generate`: empty body, 200 or 503.

use crate::app::App;
use axum::extract::State;
use axum::http::StatusCode;
use std::sync::Arc;

/// Truthful and within a second: see [`crate::health`].
pub async fn handle(State(app): State<Arc<App>>) -> StatusCode {
    match app.health.check(&app.encoder, app.drain.is_draining()).await {
        Ok(()) => StatusCode::OK,
        Err(why) => {
            tracing::warn!(%why, "health check failed");
            StatusCode::SERVICE_UNAVAILABLE
        }
    }
}
