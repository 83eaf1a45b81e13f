//! Handles a request: request ID, route, key, rate limit, handler, response.

use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use http::header::{CACHE_CONTROL, CONNECTION, STRICT_TRANSPORT_SECURITY};
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use kernel::trace_context::TraceContext;

use crate::app::App;
use crate::context::Context;
use crate::http::error::ApiError;
use crate::http::request::{self, Peer, UnreadBody};
use crate::http::respond::{self, Reply};
use crate::http::server::Service;
use crate::http::stream::ResponseBody;
use crate::http::{body, compress, cors, framing, request_id};
use crate::public::{dashboard, links, sdk};
use crate::router::{self, Access, NoRoute};
use crate::routes::{self, Handler, HandlerFuture, Limit, Route, RouteMatch, Timeout};
use crate::{auth, health, traced};

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Longer than reading a body and one database statement may take together.
const HANDLER_TIMEOUT: Duration = Duration::from_secs(25);

impl Service for App {
    fn max_connections(&self) -> usize {
        self.config.max_connections
    }

    fn begin_drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    fn handle(&self, request: Request<Incoming>, peer: IpAddr) -> impl Future<Output = Response<ResponseBody>> + Send {
        handle(self, request, peer)
    }
}

/// Responds to any request, including those that no route matches.
async fn handle(app: &App, request: Request<Incoming>, peer: IpAddr) -> Response<ResponseBody> {
    let started = Instant::now();
    let (parts, body) = request.into_parts();
    let body = UnreadBody::new(body);
    let id = request_id::of(&parts.headers);
    let request_id = id.to_str().unwrap_or("");
    let found = routes::find(&parts.method, parts.uri.path());
    let span = traced::begin(&app.sampler, &parts.headers);
    let peer = Peer {
        address: peer,
        is_trusted_proxy: app.config.trust_forwarded,
        is_secure: app.config.is_secure(&parts.headers),
    };
    let received =
        ReceivedRequest { parts: &parts, body: &body, peer, request_id, trace: span.context(), found: &found };
    let outcome = AssertUnwindSafe(handle_routed(app, &received)).catch_unwind().await;
    let mut reply = match outcome {
        Ok(Ok(reply)) => reply,
        Ok(Err(error)) => respond::error(&error, request_id),
        Err(_) => respond::error(&ApiError::Internal("the handler panicked".to_owned()), request_id),
    };
    if is_auth_failure(&found, reply.status)
        && let Some(client) = peer.client(&parts.headers)
    {
        let _ = app.auth.auth_failure_limit.take(&client);
    }
    if let Some(unwanted) = body.take() {
        body::discard(unwanted, &parts.headers).await;
    }
    if allows_any_origin(&found, &parts.method, parts.uri.path()) {
        cors::allow(&mut reply.headers);
    }
    compress::compress(&mut reply, &parts.headers).await;
    // After the compression, which skips responses with `no-store`.
    set_security_headers(&mut reply, peer, &found);
    let pattern = found.as_ref().map_or("none", |found| found.route.pattern);
    traced::end(span, &parts.method, pattern, reply.status, request_id);
    app.meters.request(pattern, reply.status, started.elapsed());
    reply.headers.insert(X_REQUEST_ID, id);
    if app.draining.load(Ordering::Relaxed) || framing::is_chunked(&parts.headers) {
        reply.headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    reply.into()
}

/// Keeps API responses out of caches, and clients that use TLS on TLS.
fn set_security_headers(reply: &mut Reply, peer: Peer, found: &Result<RouteMatch<'_>, NoRoute>) {
    if found.as_ref().is_ok_and(|found| !found.route.is_cacheable) {
        reply.headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    }
    if peer.is_secure {
        reply.headers.insert(STRICT_TRANSPORT_SECURITY, HeaderValue::from_static("max-age=31536000"));
    }
}

/// Returns whether browsers of any origin may read the response: for routes that public keys may call, errors included.
fn allows_any_origin(found: &Result<RouteMatch<'_>, NoRoute>, method: &Method, path: &str) -> bool {
    match found {
        Ok(found) => found.route.access == Access::Public,
        Err(_) => *method == Method::OPTIONS && !routes::open_methods(path).is_empty(),
    }
}

/// Returns whether a response counts as an authentication failure: 401, or 404 if the route's identifier can be guessed.
fn is_auth_failure(found: &Result<RouteMatch<'_>, NoRoute>, status: StatusCode) -> bool {
    let is_guessable = found.as_ref().is_ok_and(|found| found.route.is_guessable);
    status == StatusCode::UNAUTHORIZED || (is_guessable && status == StatusCode::NOT_FOUND)
}

/// A request as it arrived and its route.
struct ReceivedRequest<'a> {
    parts: &'a http::request::Parts,
    body: &'a UnreadBody,
    peer: Peer,
    request_id: &'a str,
    /// The trace that the request belongs to.
    trace: Option<TraceContext>,
    found: &'a Result<RouteMatch<'a>, NoRoute>,
}

async fn handle_routed(app: &App, received: &ReceivedRequest<'_>) -> Result<Reply, ApiError> {
    let ReceivedRequest { parts, body, peer, request_id, trace, found } = *received;
    let received_ms = app.clock.now_ms();
    let found = match found {
        Ok(found) => *found,
        Err(no_route) => return handle_unrouted(app, parts, body, no_route).await,
    };
    if app.draining.load(Ordering::Relaxed) {
        return Err(ApiError::Unavailable("this gateway is stopping"));
    }
    let request = request::Request::new(parts, body, peer, request_id, received_ms, trace);
    let (route, params) = (found.route, found.params);
    let handler = match route.handler {
        Handler::InProject(handler) => handler,
        Handler::Outside(handler) => {
            if route.limit == Limit::AuthFailures {
                app.auth.check_auth_failures(&request)?;
            }
            return with_timeout(route, handler(app, &request, params)).await;
        }
    };
    let admission = auth::admit(&app.auth, &request, route.access, found.project()).await?;
    if route.limit == Limit::Account {
        if let Some(account) = admission.caller.account() {
            app.auth.account_limit.take(&account)?;
        }
        let context = Context::new(app, &request, admission);
        return with_timeout(route, handler(&context, params)).await;
    }
    let allowance = admission.allowance(&app.limits, &app.config).await;
    let context = Context::new(app, &request, admission);
    let done = match allowance.check() {
        Ok(()) => with_timeout(route, handler(&context, params)).await,
        Err(over) => Err(over),
    };
    let mut reply = done.unwrap_or_else(|error| respond::error(&error, request_id));
    allowance.add_headers(&mut reply);
    Ok(reply)
}

/// Runs a handler with a timeout, unless the route has its own. A timeout means that the database does not respond.
async fn with_timeout(route: &Route, work: HandlerFuture<'_>) -> Result<Reply, ApiError> {
    if route.timeout == Timeout::Own {
        return work.await;
    }
    let timed_out = ApiError::Unavailable("the database did not respond in time");
    tokio::time::timeout(HANDLER_TIMEOUT, work).await.unwrap_or(Err(timed_out))
}

/// Handles requests without a route: probes, documentation, dashboard, message links, preflights and errors.
async fn handle_unrouted(
    app: &App,
    parts: &http::request::Parts,
    body: &UnreadBody,
    no_route: &NoRoute,
) -> Result<Reply, ApiError> {
    let path = parts.uri.path();
    let page = app.docs.at(path).or_else(|| sdk::at(path)).or_else(|| dashboard::at(path, &parts.headers));
    if page.is_some() || path == "/healthz" || path == "/readyz" {
        if parts.method != Method::GET && parts.method != Method::HEAD {
            return Err(ApiError::MethodNotAllowed("GET, HEAD".to_owned()));
        }
        return match page {
            Some(page) => Ok(page),
            None => health::handle(app, path).await,
        };
    }
    if let Some(outcome) = links::handle(app, parts, body, path).await {
        return outcome;
    }
    match no_route {
        NoRoute::MethodNotAllowed(allow) if parts.method == Method::OPTIONS => {
            Ok(cors::preflight(&routes::open_methods(path), allow))
        }
        NoRoute::MethodNotAllowed(allow) => Err(ApiError::MethodNotAllowed(allow.clone())),
        NoRoute::UnknownPath => Err(ApiError::NotFound(format!("no such path; the API is under {}", router::BASE))),
    }
}
