//! Traces: one sampled event or message from its request to the provider's answer, over all programs.
//!
//! Whether something is traced is decided once, by the gateway ([`sampler`]). What is, carries 24 bytes with it: in its
//! items and messages on the wire, in its run and its row of the ledger ([`TraceContext`]). What is not, carries nothing, and
//! costs no more than looking. Spans are put together by hand where a hop ends ([`Span`]), go into a bounded queue without
//! ever waiting, and leave in groups ([`export`]).

mod export;
mod sampler;
mod span;

use std::sync::OnceLock;
use std::time::Duration;

pub use sampler::{Begun, Sampler, Sampling};
pub use span::{Kind, Span};

use export::{Exporter, Settings};
use kernel::env::{Env, EnvError};

static EXPORTER: OnceLock<Exporter> = OnceLock::new();

/// How long a process that stops waits for its last spans to leave.
const LAST: Duration = Duration::from_secs(2);

/// Starts the exporting, where `OTEL_EXPORTER_OTLP_ENDPOINT` names a receiver; without one nothing is traced. Called once,
/// within the runtime; a second start in one process (tests) keeps the first.
pub fn start(env: &Env, program: &str) -> Result<(), EnvError> {
    if let Some(settings) = Settings::from_env(env, program)?
        && EXPORTER.get().is_none()
    {
        drop(EXPORTER.set(Exporter::start(settings)));
    }
    Ok(())
}

/// Whether spans are kept.
pub fn is_on() -> bool {
    EXPORTER.get().is_some()
}

/// Sends what is still queued, for two seconds at most.
pub async fn stop() {
    if let Some(exporter) = EXPORTER.get()
        && tokio::time::timeout(LAST, exporter.flush()).await.is_err()
    {
        tracing::debug!("the last spans did not leave in time");
    }
}

fn keep(span: opentelemetry_sdk::trace::SpanData) {
    if let Some(exporter) = EXPORTER.get() {
        exporter.keep(span);
    }
}
