//! Serves the connections of a listener.

use kernel::shutdown::Shutdown;
use tokio::net::{TcpListener, TcpStream};

/// Serves each connection in a task of its own; all end at the shutdown.
pub(crate) async fn accept<F: Future<Output = ()> + Send + 'static>(
    listener: TcpListener,
    shutdown: Shutdown,
    serve: impl Fn(TcpStream) -> F,
) {
    loop {
        let stream = tokio::select! {
            () = shutdown.cancelled() => return,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(_) => continue,
            },
        };
        let (serving, shutdown) = (serve(stream), shutdown.clone());
        tokio::spawn(async move { shutdown.run_until_cancelled(serving).await });
    }
}
