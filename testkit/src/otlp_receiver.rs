//! A receiver of traces: OTLP over HTTP, protobuf.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;

use crate::provider_server::{Received, Reply, Vendor};

/// A received span; IDs in hexadecimal digits.
#[derive(Clone, Debug)]
pub struct ReceivedSpan {
    pub service: String,
    pub name: String,
    pub trace_id: String,
    pub span_id: String,
    /// Empty if the span has no parent.
    pub parent_id: String,
    pub began_ns: u64,
    pub ended_ns: u64,
    pub attributes: BTreeMap<String, String>,
    /// Message of its status; empty if nothing failed.
    pub failure: String,
}

/// Stores the spans that it receives, and refuses requests that it cannot decode.
#[derive(Debug, Default)]
pub struct OtlpReceiver {
    spans: Mutex<Vec<ReceivedSpan>>,
    bodies: Mutex<Vec<Bytes>>,
}

impl OtlpReceiver {
    /// Returns the spans of a trace, by start time.
    pub fn trace(&self, trace_id: &str) -> Vec<ReceivedSpan> {
        let mut spans: Vec<ReceivedSpan> = self.all().into_iter().filter(|span| span.trace_id == trace_id).collect();
        spans.sort_by_key(|span| span.began_ns);
        spans
    }

    pub fn all(&self) -> Vec<ReceivedSpan> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns all received bytes as text, including fields that [`ReceivedSpan`] lacks; bytes that are not UTF-8 are replaced.
    pub fn text(&self) -> String {
        let bodies = self.bodies.lock().unwrap_or_else(PoisonError::into_inner);
        bodies.iter().map(|body| String::from_utf8_lossy(body)).collect()
    }
}

impl Vendor for OtlpReceiver {
    fn respond(&self, request: &Received) -> Reply {
        if request.path != "/v1/traces" || request.header("content-type") != "application/x-protobuf" {
            return Reply::empty(404);
        }
        let Ok(export) = ExportTraceServiceRequest::decode(request.body.clone()) else { return Reply::empty(400) };
        self.bodies.lock().unwrap_or_else(PoisonError::into_inner).push(request.body.clone());
        let mut received = self.spans.lock().unwrap_or_else(PoisonError::into_inner);
        for of_resource in export.resource_spans {
            let resource = attributes(of_resource.resource.map(|r| r.attributes).unwrap_or_default());
            let service = resource.get("service.name").cloned().unwrap_or_default();
            let spans = of_resource.scope_spans.into_iter().flat_map(|of_scope| of_scope.spans);
            received.extend(spans.map(|span| span_of(&service, span)));
        }
        Reply::empty(200)
    }
}

fn span_of(service: &str, span: Span) -> ReceivedSpan {
    ReceivedSpan {
        service: service.to_owned(),
        name: span.name,
        trace_id: hex_of(&span.trace_id),
        span_id: hex_of(&span.span_id),
        parent_id: hex_of(&span.parent_span_id),
        began_ns: span.start_time_unix_nano,
        ended_ns: span.end_time_unix_nano,
        attributes: attributes(span.attributes),
        failure: span.status.map(|status| status.message).unwrap_or_default(),
    }
}

fn attributes(pairs: Vec<KeyValue>) -> BTreeMap<String, String> {
    pairs.into_iter().map(|pair| (pair.key, pair.value.map(text).unwrap_or_default())).collect()
}

fn text(value: AnyValue) -> String {
    match value.value {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::BoolValue(is)) => is.to_string(),
        other => format!("{other:?}"),
    }
}

fn hex_of(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
