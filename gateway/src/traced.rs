//! A request's own hop of a trace. What is not sampled costs a look.

use http::{HeaderMap, Method, StatusCode};
use kernel::trace_context::TraceParent;
use trace::{Kind, Sampler, Span};

const TRACEPARENT: &str = "traceparent";

/// Begins it where the request is traced: by its caller's word, or by chance.
pub fn begin(sampler: &Sampler, headers: &HeaderMap) -> Span {
    if !sampler.is_on() {
        return Span::default();
    }
    let parent = headers.get(TRACEPARENT).and_then(|value| TraceParent::parse(value.to_str().ok()?));
    sampler.decide(parent).map_or_else(Span::default, |begun| Span::begin(begun, Kind::Server))
}

/// Ends it with the answer. Addresses are told by their pattern: what stands in them may name somebody.
pub fn end(mut span: Span, method: &Method, route: &'static str, status: StatusCode, request_id: &str) {
    if !span.is_recording() {
        return;
    }
    // Callers may make up any method, and names are to be few.
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
