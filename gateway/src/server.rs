//! Connections: accepted up to a number, bounded in time, and let finish at the end.

mod wire;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use shared::shutdown::Shutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::app::App;
use crate::dispatch;
use wire::{Phase, Wire};

/// How long a request's head may take to arrive.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection may stay idle between requests: longer than load balancers keep theirs.
const IDLE_TIMEOUT: Duration = Duration::from_secs(75);
/// How long a client may take to read an answer that does not fit into the system's buffers.
const WRITE_TIMEOUT: Duration = Duration::from_mins(1);
const MAX_HEADERS: usize = 100;
/// Bytes of a request's head, and of a body read at once.
const READ_BUFFER: usize = 64 * 1024;

/// Serves until the shutdown; returns when every request under way is answered.
pub async fn serve(listener: TcpListener, app: Arc<App>, shutdown: Shutdown) {
    let room = Arc::new(Semaphore::new(app.config.max_connections));
    let connections = GracefulShutdown::new();
    loop {
        // The permit comes first: who finds no room waits in the listener's backlog.
        let permit = tokio::select! {
            () = shutdown.cancelled() => break,
            permit = room.clone().acquire_owned() => permit,
        };
        let stream = tokio::select! {
            () = shutdown.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // Out of file descriptors, most likely: wait for some to be freed.
                    tracing::warn!(%error, "accepting a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        let (app, watcher) = (app.clone(), connections.watcher());
        tokio::spawn(async move {
            if let Err(error) = connection(stream, app, watcher).await {
                tracing::debug!(%error, "a connection broke off");
            }
            drop(permit);
        });
    }
    app.draining.store(true, Ordering::Relaxed);
    drop(listener);
    connections.shutdown().await;
}

async fn connection(stream: TcpStream, app: Arc<App>, watcher: Watcher) -> hyper::Result<()> {
    let _ = stream.set_nodelay(true);
    let phase = Phase::default();
    let wire = Wire::new(stream, phase.clone(), HEAD_TIMEOUT, WRITE_TIMEOUT);
    let service = service_fn(move |request| {
        let (app, phase) = (app.clone(), phase.clone());
        phase.busy();
        async move {
            let response = dispatch::answer(&app, request).await;
            phase.idle();
            Ok::<_, Infallible>(response)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE_TIMEOUT)
        .max_headers(MAX_HEADERS)
        .max_buf_size(READ_BUFFER)
        .serve_connection(TokioIo::new(wire), service);
    watcher.watch(connection).await
}
