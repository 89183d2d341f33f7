//! `/start_profile`, `/stop_profile`: the original drives torch's profiler with them. There is no such
//! profiler here; the answers say so instead of pretending.

use axum::http::StatusCode;

/// 501: the stage times of each request are in its log line instead.
pub async fn start() -> (StatusCode, &'static str) {
    (StatusCode::NOT_IMPLEMENTED, "profiling is not supported by this server; stage times are in the request log")
}

/// 400, the original's answer when nothing is being profiled.
pub async fn stop() -> (StatusCode, &'static str) {
    (StatusCode::BAD_REQUEST, "profiling not running")
}
