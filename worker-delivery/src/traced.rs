//! Spans of the delivery of a message, in its trace.

use std::time::SystemTime;

use store_sending::messages::claim::ClaimedMessage;
use store_sending::messages::settle::Settled;
use trace::{Kind, Span};

/// Starts the span from the claim, which was just committed, to the settling of a message. Later spans become its children.
pub fn begin(message: &mut ClaimedMessage, claimed_since: SystemTime) -> Span {
    if message.trace.is_none() {
        return Span::default();
    }
    let mut span = Span::child_since(message.trace, "deliver", Kind::Consumer, claimed_since);
    span.set("rekindle.project_id", message.project);
    span.set("rekindle.message_id", message.id);
    span.set("rekindle.channel", message.channel.slug());
    span.set("rekindle.lane", message.lane.as_str());
    span.count("rekindle.attempt", i64::from(message.attempt));
    message.trace = span.context();
    Span::child_since(span.context(), "claim", Kind::Internal, claimed_since).end();
    span
}

/// Records the outcome that is about to be written.
pub fn record_outcome(span: &mut Span, settled: &Settled) {
    if !span.is_recording() {
        return;
    }
    span.set("rekindle.status", settled.status.as_str());
    if let Some(provider) = settled.provider {
        span.set("rekindle.provider", provider);
    }
}
