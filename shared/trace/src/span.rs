//! One hop of a trace.

use std::borrow::Cow;
use std::fmt::Display;
use std::sync::LazyLock;
use std::time::SystemTime;

use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};

use super::sampler::TraceStart;
use kernel::clock::machine_now;
use kernel::trace_context::TraceContext;

pub use opentelemetry::trace::SpanKind as Kind;

static SCOPE: LazyLock<InstrumentationScope> = LazyLock::new(|| InstrumentationScope::builder("rekindle").build());

/// A started hop, empty if it is not traced. It is exported only when it is ended: a span that is dropped before that
/// (for example after a rollback) leaves no trace.
#[derive(Debug, Default)]
pub struct Span {
    /// The context for later hops; also set in a program that exports no spans.
    downstream: Option<TraceContext>,
    recording: Option<Box<Recording>>,
}

#[derive(Debug)]
struct Recording {
    context: TraceContext,
    parent: Option<[u8; 8]>,
    name: Cow<'static, str>,
    kind: Kind,
    began: SystemTime,
    ended: Option<SystemTime>,
    attributes: Vec<KeyValue>,
    status: Status,
}

impl Span {
    /// Starts the first span of this installation.
    pub fn begin(start: TraceStart, kind: Kind) -> Self {
        Self::of(start.trace_id, start.parent.map(|p| p.span_id), Cow::Borrowed("request"), kind, machine_now())
    }

    /// Starts a child span now.
    pub fn child(of: Option<TraceContext>, name: &'static str, kind: Kind) -> Self {
        match of {
            None => Self::default(),
            Some(_) => Self::child_since(of, name, kind, machine_now()),
        }
    }

    /// Like [`Span::child`], with an earlier start.
    pub fn child_since(of: Option<TraceContext>, name: &'static str, kind: Kind, began: SystemTime) -> Self {
        match of {
            Some(TraceContext { trace_id, span_id }) if super::is_on() => {
                Self::of(trace_id, Some(span_id), Cow::Borrowed(name), kind, began)
            }
            downstream => Self { downstream, recording: None },
        }
    }

    fn of(trace_id: [u8; 16], parent: Option<[u8; 8]>, name: Cow<'static, str>, kind: Kind, began: SystemTime) -> Self {
        let context = TraceContext { trace_id, span_id: rand::random() };
        let (attributes, status) = (Vec::new(), Status::Unset);
        let recording = Recording { context, parent, name, kind, began, ended: None, attributes, status };
        Self { downstream: Some(context), recording: Some(Box::new(recording)) }
    }

    /// Returns the context for later hops.
    pub fn context(&self) -> Option<TraceContext> {
        self.downstream
    }

    /// Returns whether the span is recorded, so that computing attributes is worthwhile.
    pub fn is_recording(&self) -> bool {
        self.recording.is_some()
    }

    pub fn rename(&mut self, name: impl FnOnce() -> String) {
        if let Some(recording) = &mut self.recording {
            recording.name = Cow::Owned(name());
        }
    }

    /// Sets an attribute: IDs, names that the project chose, and states. No personal data and no secrets.
    pub fn set(&mut self, key: &'static str, value: impl Display) {
        if let Some(recording) = &mut self.recording {
            recording.attributes.push(KeyValue::new(key, value.to_string()));
        }
    }

    pub fn count(&mut self, key: &'static str, value: i64) {
        if let Some(recording) = &mut self.recording {
            recording.attributes.push(KeyValue::new(key, value));
        }
    }

    /// Marks the span as failed. `why` is one of this program's own messages, never external text.
    pub fn fail(&mut self, why: &'static str) {
        if let Some(recording) = &mut self.recording {
            recording.status = Status::error(why);
        }
    }

    /// Sets the end time to now. A later [`Span::end`] exports the span once its work is committed.
    #[must_use]
    pub fn ended(mut self) -> Self {
        if let Some(recording) = &mut self.recording {
            recording.ended = Some(machine_now());
        }
        self
    }

    /// Ends the span, unless its end time is set, and exports it.
    pub fn end(self) {
        if let Some(recording) = self.recording {
            super::enqueue(recording.finish());
        }
    }
}

impl Recording {
    fn finish(self) -> SpanData {
        let TraceContext { trace_id, span_id } = self.context;
        let (trace_id, span_id) = (TraceId::from_bytes(trace_id), SpanId::from_bytes(span_id));
        SpanData {
            span_context: SpanContext::new(trace_id, span_id, TraceFlags::SAMPLED, false, TraceState::NONE),
            parent_span_id: self.parent.map_or(SpanId::INVALID, SpanId::from_bytes),
            parent_span_is_remote: matches!(self.kind, SpanKind::Server | SpanKind::Consumer),
            span_kind: self.kind,
            name: self.name,
            start_time: self.began,
            end_time: self.ended.unwrap_or_else(machine_now),
            attributes: self.attributes,
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: self.status,
            instrumentation_scope: SCOPE.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn untraced_span_records_nothing() {
        let mut span = Span::child(None, "x", Kind::Internal);
        span.set("a", "b");
        assert!(!span.is_recording() && span.context().is_none());
        span.end();
    }

    #[test]
    fn program_without_exporter_propagates_context() {
        let of = Some(TraceContext { trace_id: [1; 16], span_id: [2; 8] });
        let span = Span::child(of, "x", Kind::Internal);
        assert_eq!(span.context(), of);
        assert!(!span.is_recording());
    }

    #[test]
    fn span_has_parent_span_id() {
        let parent = TraceContext { trace_id: [1; 16], span_id: [2; 8] };
        let mut span = Span::begin(TraceStart { trace_id: parent.trace_id, parent: Some(parent) }, Kind::Server);
        span.rename(|| "POST /events".to_owned());
        span.set("n", 7);
        let own = span.context().unwrap();
        let data = span.ended().recording.unwrap().finish();
        assert_eq!(data.parent_span_id.to_bytes(), parent.span_id);
        assert_eq!(
            (data.span_context.trace_id().to_bytes(), data.span_context.span_id().to_bytes()),
            (own.trace_id, own.span_id)
        );
        assert_eq!((&*data.name, data.attributes.len()), ("POST /events", 1));
        assert!(data.end_time >= data.start_time);
    }
}
