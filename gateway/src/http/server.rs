//! Connections: accepted up to a number, bounded in time, and let finish at the end.

mod wire;

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

use crate::http::stream::AnswerBody;
use wire::{Limits, Phase, Wire};

const LIMITS: Limits = Limits {
    head: Duration::from_secs(10),
    // Longer than load balancers keep theirs.
    idle: Duration::from_secs(75),
    write: Duration::from_mins(1),
};
/// Bytes of a request's head, and of a body read at once.
const READ_BUFFER: usize = 64 * 1024;
/// For how long, at the end, those who are connected are told to come back, at least: their connections end with an answer and
/// not under a request that is on its way.
const FAREWELL: Duration = Duration::from_secs(1);

/// What answers the requests.
pub trait Service: Send + Sync + 'static {
    /// Connections at a time.
    fn max_connections(&self) -> usize;

    /// From now on, requests are only being finished.
    fn begin_drain(&self);

    /// Answers a request that came from `peer`.
    fn answer(&self, request: Request<Incoming>, peer: IpAddr) -> impl Future<Output = Response<AnswerBody>> + Send;
}

/// Serves until the shutdown; returns when every request under way is answered. Whoever comes meanwhile is let in and told to
/// come back: a listener that is closed cuts off what it has not let in.
pub async fn serve<S: Service>(listener: TcpListener, service: Arc<S>, shutdown: Shutdown) {
    let room = Arc::new(Semaphore::new(service.max_connections()));
    let door = Door { listener, room, service };
    let (connections, late) = (GracefulShutdown::new(), GracefulShutdown::new());
    tokio::select! {
        () = shutdown.cancelled() => {}
        () = door.admit(&connections) => {}
    }
    door.service.begin_drain();
    tokio::select! {
        () = tokio::time::sleep(FAREWELL) => {}
        () = door.admit(&connections) => {}
    }
    tokio::select! {
        () = connections.shutdown() => {}
        () = door.admit(&late) => {}
    }
    drop(door);
    let _ = tokio::time::timeout(FAREWELL, emptied(&late)).await;
    late.shutdown().await;
}

/// Waits until none of the connections is left.
async fn emptied(connections: &GracefulShutdown) {
    while connections.count() > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Where connections come in.
struct Door<S> {
    listener: TcpListener,
    room: Arc<Semaphore>,
    service: Arc<S>,
}

impl<S: Service> Door<S> {
    /// Lets in who comes, for as long as this is awaited.
    async fn admit(&self, connections: &GracefulShutdown) {
        loop {
            // The permit comes first: who finds no room waits in the listener's backlog.
            let Ok(permit) = self.room.clone().acquire_owned().await else { return };
            let (stream, peer) = match self.listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of file descriptors, most likely: wait for some to be freed.
                    tracing::warn!(%error, "accepting a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let (service, watcher) = (self.service.clone(), connections.watcher());
            tokio::spawn(async move {
                if let Err(error) = connection(stream, peer.ip(), service, watcher).await {
                    tracing::debug!(%error, "a connection broke off");
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
    let wire = Wire::new(stream, phase.clone(), LIMITS);
    // One count of references for each connection: that of the whole process would go to and fro between the cores.
    let of_connection = Arc::new((service, phase));
    let answering = service_fn(move |request| {
        let of_connection = of_connection.clone();
        of_connection.1.busy();
        async move {
            let (service, phase) = &*of_connection;
            let mut response = service.answer(request, peer).await;
            match response.body_mut() {
                AnswerBody::Whole(_) => phase.idle(),
                AnswerBody::Pieces(pieces) => pieces.hold(phase.streaming()),
            }
            Ok::<_, Infallible>(response)
        }
    });
    // Of headers it takes its own 100; said by us, each request's would be on the heap. One piece is cheaper to write than
    // the two of head and body, which are small.
    let connection = http1::Builder::new()
        .writev(false)
        .max_buf_size(READ_BUFFER)
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(wire), answering);
    watcher.watch(connection).await
}
