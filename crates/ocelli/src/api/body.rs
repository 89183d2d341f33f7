//! Reading a JSON body: room first, then bytes, then JSON; refusals as the original's framework words them.

use crate::api::answer;
use crate::app::App;
use axum::Json;
use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use ocelli_core::{Fault, Reason};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// A sender that takes longer for one body is not one.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// Above this, parsing takes long enough to be kept off the I/O threads.
const PARSE_INLINE_BYTES: usize = 256 * 1024;

/// A JSON object, or the answer that says why there is none.
///
/// # Errors
/// 422 for what is no JSON object, 413 over `--max-request-body-mb`, 408 for a body that does not come.
pub async fn json_object(app: &App, headers: &HeaderMap, body: Body) -> Result<Map<String, Value>, Response> {
    let bytes = read(app, headers, body).await?;
    if bytes.len() <= PARSE_INLINE_BYTES {
        parse(&bytes)
    } else {
        let parsing = tokio::task::spawn_blocking(move || parse(&bytes));
        parsing
            .await
            .unwrap_or_else(|_| Err(answer::error(&Fault::new(Reason::Internal, "parsing the body failed"), None)))
    }
}

/// The bytes of a body, within the limit and the time.
///
/// # Errors
/// 413 and 408, as answers.
pub async fn read(app: &App, headers: &HeaderMap, body: Body) -> Result<Bytes, Response> {
    let limit = app.config.max_request_body_bytes;
    let too_large = || {
        let mb = limit / (1024 * 1024);
        answer::error(
            &Fault::new(Reason::BodyTooLarge, format!("the body is larger than {mb} MiB (--max-request-body-mb)")),
            None,
        )
    };
    let declared =
        headers.get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()).and_then(|v| v.parse::<u64>().ok());
    if declared.is_some_and(|n| n > limit) {
        return Err(too_large());
    }
    // bodies that are being read are bounded together, before a byte of them is taken
    let expected = usize::try_from(declared.unwrap_or(limit)).unwrap_or(usize::MAX);
    let _room = app.bodies.admit(0, expected).map_err(|full| answer::error(&full, None))?;
    let limited = Limited::new(body, usize::try_from(limit).unwrap_or(usize::MAX));
    match tokio::time::timeout(BODY_TIMEOUT, limited.collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(answer::error(&Fault::new(Reason::BadRequest, "the body broke off"), None)),
        Err(_) => {
            let seconds = BODY_TIMEOUT.as_secs();
            Err(answer::error(
                &Fault::new(Reason::Cancelled, format!("the body did not come within {seconds} s")),
                None,
            ))
        }
    }
}

fn parse(bytes: &[u8]) -> Result<Map<String, Value>, Response> {
    if bytes.is_empty() {
        return Err(refused("missing", json!(["body"]), "Field required", Value::Null));
    }
    match serde_json::from_slice(bytes) {
        Ok(Value::Object(map)) => Ok(map),
        // what came is not repeated: it may be megabytes of media
        Ok(_) => Err(refused("dict_type", json!(["body"]), "Input should be a valid dictionary", Value::Null)),
        Err(error) => {
            let at = json!(["body", error.column()]);
            Err(refused("json_invalid", at, &format!("JSON decode error: {error}"), json!({})))
        }
    }
}

fn refused(kind: &str, loc: Value, message: &str, input: Value) -> Response {
    let detail = json!({"detail": [{"type": kind, "loc": loc, "msg": message, "input": input}]});
    (StatusCode::UNPROCESSABLE_ENTITY, Json(detail)).into_response()
}
