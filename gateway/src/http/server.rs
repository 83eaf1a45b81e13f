//! Accepts connections up to a maximum, bounds them in time, and drains them at shutdown.

mod connection_io;

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use kernel::shutdown::Shutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::http::stream::ResponseBody;
use connection_io::{ConnectionIo, Limits, Phase};

const LIMITS: Limits = Limits {
    head: Duration::from_secs(10),
    // Longer than the idle timeouts of load balancers.
    idle: Duration::from_secs(75),
    write: Duration::from_mins(1),
};
/// Maximum bytes of a request's head, and of one read of a body.
const READ_BUFFER: usize = 64 * 1024;
/// How long, at least, connected clients receive responses that close the connection before the gateway closes idle
/// connections. Otherwise a request on its way could be lost.
const DRAIN_GRACE_PERIOD: Duration = Duration::from_secs(1);

/// Handles the requests.
pub trait Service: Send + Sync + 'static {
    /// Returns the maximum number of concurrent connections.
    fn max_connections(&self) -> usize;

    /// Stops the work on new requests: from now on, requests in flight are only completed.
    fn begin_drain(&self);

    /// Responds to a request from `peer`.
    fn handle(&self, request: Request<Incoming>, peer: IpAddr) -> impl Future<Output = Response<ResponseBody>> + Send;
}

/// Serves until shutdown, and returns when every request in flight has been answered.
///
/// New connections are still accepted while the gateway drains, and asked to retry: closing the listener would reset the
/// connections in its backlog.
pub async fn serve<S: Service>(listener: TcpListener, service: Arc<S>, shutdown: Shutdown) {
    let connection_permits = Arc::new(Semaphore::new(service.max_connections()));
    let acceptor = Acceptor { listener, connection_permits, service };
    let (connections, late_connections) = (GracefulShutdown::new(), GracefulShutdown::new());
    tokio::select! {
        () = shutdown.cancelled() => {}
        () = acceptor.accept(&connections) => {}
    }
    acceptor.service.begin_drain();
    tokio::select! {
        () = tokio::time::sleep(DRAIN_GRACE_PERIOD) => {}
        () = acceptor.accept(&connections) => {}
    }
    tokio::select! {
        () = connections.shutdown() => {}
        () = acceptor.accept(&late_connections) => {}
    }
    drop(acceptor);
    let _ = tokio::time::timeout(DRAIN_GRACE_PERIOD, wait_until_closed(&late_connections)).await;
    late_connections.shutdown().await;
}

/// Waits until all connections are closed.
async fn wait_until_closed(connections: &GracefulShutdown) {
    while connections.count() > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The listener, with the semaphore that bounds its connections.
struct Acceptor<S> {
    listener: TcpListener,
    connection_permits: Arc<Semaphore>,
    service: Arc<S>,
}

impl<S: Service> Acceptor<S> {
    /// Accepts connections for as long as the future is polled.
    async fn accept(&self, connections: &GracefulShutdown) {
        loop {
            // The permit is acquired first: while none is free, connections wait in the listener's backlog.
            let Ok(permit) = self.connection_permits.clone().acquire_owned().await else { return };
            let (stream, peer) = match self.listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Most likely out of file descriptors: wait until some are released.
                    tracing::warn!(%error, "cannot accept a connection; retrying");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let (service, watcher) = (self.service.clone(), connections.watcher());
            tokio::spawn(async move {
                if let Err(error) = connection(stream, peer.ip(), service, watcher).await {
                    tracing::debug!(%error, "connection failed");
                }
                drop(permit);
            });
        }
    }
}

async fn connection<S: Service>(
    stream: TcpStream,
    peer: IpAddr,
    service: Arc<S>,
    watcher: Watcher,
) -> hyper::Result<()> {
    let _ = stream.set_nodelay(true);
    let phase = Phase::default();
    let io = ConnectionIo::new(stream, phase.clone(), LIMITS);
    // One reference count per connection: a shared one would bounce between the cores' caches.
    let of_connection = Arc::new((service, phase));
    let handler = service_fn(move |request| {
        let of_connection = of_connection.clone();
        of_connection.1.busy();
        async move {
            let (service, phase) = &*of_connection;
            let mut response = service.handle(request, peer).await;
            match response.body_mut() {
                ResponseBody::Whole(_) => phase.idle(),
                ResponseBody::Streamed(body) => body.hold(phase.streaming()),
            }
            Ok::<_, Infallible>(response)
        }
    });
    // `max_headers` stays at its default of 100, because setting it would allocate each request's headers on the heap.
    // Without vectored writes, head and body are written as one piece, which is cheaper because they are small.
    let connection = http1::Builder::new()
        .writev(false)
        .max_buf_size(READ_BUFFER)
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(io), handler);
    watcher.watch(connection).await
}
