//! The HTTP server: connections with limits on their number and on the patience for their headers.

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// A language server holds one connection a part and one a registration while it waits, so there may be
/// many; each costs a few kilobytes.
pub const MAX_CONNECTIONS: usize = 16_384;
/// Request heads are small; whoever is slower than this is not serious.
const HEADER_TIMEOUT: Duration = Duration::from_secs(20);
/// Open responses get this long after everything else has ended.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Pause after a failed accept (out of file descriptors): without it the loop would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves until `until` resolves, then lets open responses finish.
pub async fn serve(listener: TcpListener, routes: Router, until: impl Future<Output = ()>) {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let open = GracefulShutdown::new();
    tokio::pin!(until);
    loop {
        let accepted = tokio::select! {
            () = &mut until => break,
            accepted = accept(&listener, &room) => accepted,
        };
        let Some((stream, permit)) = accepted else { continue };
        // rows go by ZMQ; what is answered here is small and should not wait for more
        let _ = stream.set_nodelay(true);
        let service = TowerToHyperService::new(routes.clone());
        let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
        let connection = open.watch(connection);
        tokio::spawn(async move {
            if let Err(why) = connection.await {
                tracing::debug!(%why, "connection ended");
            }
            drop(permit);
        });
    }
    drop(listener);
    if tokio::time::timeout(CLOSE_TIMEOUT, open.shutdown()).await.is_err() {
        tracing::warn!("some connections were still open and are cut");
    }
}

async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> Option<(tokio::net::TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let permit = room.clone().acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => Some((stream, permit)),
        Err(why) => {
            tracing::warn!(%why, "accept failed");
            tokio::time::sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}
