//! `/healthz`, `/readyz` and `/metrics` of a worker, on a port of their own.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;
use tokio::time::MissedTickBehavior;

use kernel::shutdown::Shutdown;

type Check = dyn Fn() -> Pin<Box<dyn Future<Output = Result<(), String>> + Send>> + Send + Sync;

/// What the admin port serves.
#[derive(Clone)]
pub struct Admin {
    metrics: Option<PrometheusHandle>,
    ready: Arc<Check>,
}

impl Admin {
    /// `ready` must check the process's dependencies; its error is shown in the response.
    pub fn new<F>(metrics: Option<PrometheusHandle>, ready: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        Self { metrics, ready: Arc::new(move || Box::pin(ready())) }
    }

    async fn respond(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        if request.method() != Method::GET && request.method() != Method::HEAD {
            return text(StatusCode::METHOD_NOT_ALLOWED, "only GET is supported\n".to_owned());
        }
        match request.uri().path() {
            "/healthz" => text(StatusCode::OK, "ok\n".to_owned()),
            "/readyz" => match tokio::time::timeout(Duration::from_secs(2), (self.ready)()).await {
                Ok(Ok(())) => text(StatusCode::OK, "ready\n".to_owned()),
                Ok(Err(why)) => text(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
                Err(_) => {
                    text(StatusCode::SERVICE_UNAVAILABLE, "the readiness check took longer than 2 s\n".to_owned())
                }
            },
            "/metrics" => text(StatusCode::OK, self.metrics.as_ref().map(PrometheusHandle::render).unwrap_or_default()),
            _ => text(StatusCode::NOT_FOUND, "not found; available paths: /healthz, /readyz and /metrics\n".to_owned()),
        }
    }
}

fn text(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let plain = http::HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(http::header::CONTENT_TYPE, plain);
    response
}

/// How often histogram samples are aggregated. Until then each sample uses memory, whether or not metrics are scraped.
const UPKEEP: Duration = Duration::from_secs(5);

/// Serves until the shutdown, and aggregates metrics every `UPKEEP`.
pub async fn serve(listener: TcpListener, admin: Admin, shutdown: Shutdown) {
    let mut upkeep = tokio::time::interval(UPKEEP);
    upkeep.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let (stream, _) = tokio::select! {
            () = shutdown.cancelled() => return,
            _ = upkeep.tick() => {
                admin.metrics.as_ref().inspect(|metrics| metrics.run_upkeep());
                continue;
            }
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection on the admin port");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            },
        };
        let admin = admin.clone();
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let admin = admin.clone();
                async move { Ok::<_, Infallible>(admin.respond(&request).await) }
            });
            let mut http = hyper::server::conn::http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(Duration::from_secs(10));
            let _ = http.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}
