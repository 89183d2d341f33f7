//! HTTP: parse and validate on the way in, render on the way out. Nothing below knows it.
//!
//! One file a route; the list is [`routes`].

pub mod answer;
mod body;
mod embeddings;
mod encode;
mod encode_body;
mod health;
mod model_info;
mod profile;
mod registration;
pub mod server;

use crate::app::App;
use axum::Router;
use axum::http::StatusCode;
use axum::routing::{get, post};
use std::sync::Arc;

/// Every route of the server. `/send` and `/scheduler_receive_meta_data` belong to one-sided backends
/// (wire-protocol.md 1.4, 1.5); with a ZMQ backend they answer as the original's do.
pub fn routes(app: Arc<App>) -> Router {
    Router::new()
        .route("/encode", post(encode::handle))
        .route("/scheduler_receive_url", post(registration::receive_url))
        .route("/scheduler_receive_meta_data", post(registration::receive_meta_data))
        .route("/send", post(registration::send))
        .route("/health", get(health::handle))
        .route("/health_generate", get(health::handle))
        .route("/model_info", get(model_info::handle))
        .route("/v1/embeddings/multimodal", post(embeddings::handle))
        .route("/start_profile", get(profile::start).post(profile::start))
        .route("/stop_profile", get(profile::stop).post(profile::stop))
        .fallback(|| async { answer::detail(StatusCode::NOT_FOUND, "Not Found") })
        .method_not_allowed_fallback(|| async { answer::detail(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed") })
        .with_state(app)
}
