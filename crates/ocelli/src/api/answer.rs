//! From a fault to HTTP: the only place that knows status codes.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ocelli_core::{Fault, Reason, Side};
use serde_json::{Value, json};

/// Seconds after which an overloaded server is worth another try.
const RETRY_AFTER_S: &str = "1";

/// The status of a reason. Only codes that Python's `http.HTTPStatus` knows: the language server
/// passes them to its constructor, and an unknown one breaks its scheduler loop.
pub fn status(reason: Reason) -> StatusCode {
    use Reason::*;
    match reason {
        BadRequest
        | UnsupportedModality
        | MediaUnreachable
        | MediaRefused
        | MediaUndecodable
        | HashMismatch
        | Unprocessable
        | NotActive
        | InconsistentReceiveCount
        | DestinationRefused => StatusCode::BAD_REQUEST,
        BodyTooLarge | MediaTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        DuplicateRequest => StatusCode::CONFLICT,
        Cancelled => StatusCode::REQUEST_TIMEOUT,
        Overloaded | Draining | NotReady => StatusCode::SERVICE_UNAVAILABLE,
        EncodeTimeout | RegistrationTimeout | UnknownRequest => StatusCode::GATEWAY_TIMEOUT,
        DeliveryFailed => StatusCode::BAD_GATEWAY,
        Engine | Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// The body that the language server reads: `{"status":"error","message":…,"req_id":…}`.
pub fn error(fault: &Fault, req_id: Option<&Value>) -> Response {
    let body = json!({
        "status": "error",
        "message": fault.to_string(),
        "req_id": req_id.cloned().unwrap_or(Value::Null),
    });
    let mut response = (status(fault.reason), Json(body)).into_response();
    if fault.side() == Side::Overload {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_S));
    }
    response
}

/// `null`, the 200 of the protocol routes.
pub fn done() -> Response {
    Json(Value::Null).into_response()
}

/// The framework's way to say that there is no such route or method: `{"detail": …}`.
pub fn detail(status: StatusCode, text: &str) -> Response {
    (status, Json(json!({ "detail": text }))).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Python 3.11's `http.HTTPStatus`, 4xx and 5xx.
    const PYTHON_KNOWS: [u16; 41] = [
        400, 401, 402, 403, 404, 405, 406, 407, 408, 409, 410, 411, 412, 413, 414, 415, 416, 417, 418, 421, 422, 423,
        424, 425, 426, 428, 429, 431, 451, 500, 501, 502, 503, 504, 505, 506, 507, 508, 510, 511, 404,
    ];

    #[test]
    fn every_status_is_one_that_python_knows_and_agrees_with_the_side() {
        use Reason::*;
        for reason in [
            BadRequest,
            BodyTooLarge,
            UnsupportedModality,
            MediaUnreachable,
            MediaRefused,
            MediaTooLarge,
            MediaUndecodable,
            HashMismatch,
            Unprocessable,
            DuplicateRequest,
            NotActive,
            UnknownRequest,
            InconsistentReceiveCount,
            DestinationRefused,
            Overloaded,
            Draining,
            EncodeTimeout,
            RegistrationTimeout,
            DeliveryFailed,
            Engine,
            NotReady,
            Internal,
            Cancelled,
        ] {
            let code = status(reason).as_u16();
            assert!(PYTHON_KNOWS.contains(&code), "{reason:?} gives {code}");
            match reason.side() {
                Side::Client if reason != UnknownRequest => assert!(code < 500, "{reason:?}"),
                Side::Client => {}
                Side::Server | Side::Overload => assert!(code >= 500, "{reason:?}"),
            }
        }
    }

    #[test]
    fn overload_says_when_to_come_back() {
        let answer = error(&Fault::new(Reason::Overloaded, "full"), None);
        assert_eq!(answer.status(), 503);
        assert!(answer.headers().contains_key(header::RETRY_AFTER));
        assert!(!error(&Fault::new(Reason::Internal, "x"), None).headers().contains_key(header::RETRY_AFTER));
    }
}
