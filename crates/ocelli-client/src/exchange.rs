//! One whole exchange as a language server makes it: ask, register, receive.

use crate::{ClientError, Content, EncodeClient, EncodeRequest, Received, Receiver};
use std::time::{Duration, Instant};

/// How the encoder learns where to deliver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// The destination registers while the encoder works.
    ZmqToScheduler,
    /// The destination is in the request.
    ZmqToTokenizer,
}

/// Asks for one part and receives it on `receiver`. Returns when the rows are here and the server has answered
/// every request; [`Received::at`] says when the rows were.
///
/// # Errors
/// `Delivered` when the server delivers an error, `Status` when it answers with one, whichever comes first.
pub async fn encode_and_receive(
    client: &EncodeClient,
    receiver: &mut Receiver,
    backend: Backend,
    request: &EncodeRequest,
    limit: Duration,
) -> Result<Received, ClientError> {
    match backend {
        Backend::ZmqToTokenizer => {
            let request = EncodeRequest { destination: Some(receiver.destination().clone()), ..request.clone() };
            let ((), received) = tokio::try_join!(client.encode(&request), rows_of(&request.req_id, receiver, limit))?;
            Ok(received)
        }
        Backend::ZmqToScheduler => {
            let to = receiver.destination().clone();
            let ((), (), received) = tokio::try_join!(
                client.encode(request),
                client.register(&request.req_id, &to, 1),
                rows_of(&request.req_id, receiver, limit),
            )?;
            Ok(received)
        }
    }
}

/// The message of this part. Those of earlier parts that were given up are dropped, as the language server does.
async fn rows_of(req_id: &str, receiver: &mut Receiver, limit: Duration) -> Result<Received, ClientError> {
    let ends = Instant::now() + limit;
    loop {
        let left = ends.saturating_duration_since(Instant::now());
        let received = receiver.receive(left).await.map_err(|why| match why {
            ClientError::TimedOut(_) => ClientError::TimedOut(limit),
            other => other,
        })?;
        if received.header.req_id != req_id {
            continue;
        }
        return match received.header.content {
            Content::Error { message, code } => Err(ClientError::Delivered { code, message }),
            Content::Rows { .. } => Ok(received),
        };
    }
}
