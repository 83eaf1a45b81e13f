//! The server span of a request. An unsampled request costs only a check.

use http::{HeaderMap, Method, StatusCode};
use kernel::trace_context::TraceParent;
use trace::{Kind, Sampler, Span};

const TRACEPARENT: &str = "traceparent";

/// Begins the span if the request is traced, which its caller or the sampling rate decides.
pub fn begin(sampler: &Sampler, headers: &HeaderMap) -> Span {
    if !sampler.is_on() {
        return Span::default();
    }
    let parent = headers.get(TRACEPARENT).and_then(|value| TraceParent::parse(value.to_str().ok()?));
    sampler.decide(parent).map_or_else(Span::default, |begun| Span::begin(begun, Kind::Server))
}

/// Ends the span. It names the route's pattern instead of the path, because paths may contain personal data.
pub fn end(mut span: Span, method: &Method, route: &'static str, status: StatusCode, request_id: &str) {
    if !span.is_recording() {
        return;
    }
    // Callers can invent methods, but span names must have low cardinality.
    let known = [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS];
    let method = if known.contains(method) { method.as_str() } else { "_OTHER" };
    span.rename(|| format!("{method} {route}"));
    span.set("http.request.method", method);
    span.set("http.route", route);
    span.count("http.response.status_code", i64::from(status.as_u16()));
    span.set("rekindle.request_id", request_id);
    if status.is_server_error() {
        span.fail("server error");
    }
    span.end();
}
