//! Traces follow a sampled event or message from its request to the provider's response, across all programs.
//!
//! The gateway decides once whether to trace ([`sampler`]). A traced item carries 24 bytes ([`TraceContext`]) in its
//! items and messages on the wire, in its run, and in its ledger row. An untraced item carries nothing and costs only a
//! check. Spans are built explicitly where a hop ends ([`Span`]), enter a bounded queue without blocking, and are sent
//! in batches ([`export`]).

mod export;
mod sampler;
mod span;

use std::sync::OnceLock;
use std::time::Duration;

pub use sampler::{Sampler, Sampling, TraceStart};
pub use span::{Kind, Span};

use export::{Exporter, Settings};
use kernel::env::{Env, EnvError};

static EXPORTER: OnceLock<Exporter> = OnceLock::new();

/// How long a stopping process waits for its last spans to be sent.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Starts the exporter if `OTEL_EXPORTER_OTLP_ENDPOINT` names a receiver; otherwise nothing is traced. Call it once,
/// within the runtime. A second start in one process (tests) keeps the first.
pub fn start(env: &Env, program: &str) -> Result<(), EnvError> {
    if let Some(settings) = Settings::from_env(env, program)?
        && EXPORTER.get().is_none()
    {
        drop(EXPORTER.set(Exporter::start(settings)));
    }
    Ok(())
}

/// Returns whether spans are exported.
pub fn is_on() -> bool {
    EXPORTER.get().is_some()
}

/// Sends the queued spans, for at most two seconds.
pub async fn stop() {
    if let Some(exporter) = EXPORTER.get()
        && tokio::time::timeout(FLUSH_TIMEOUT, exporter.flush()).await.is_err()
    {
        tracing::debug!("the last spans were not exported in time");
    }
}

fn enqueue(span: opentelemetry_sdk::trace::SpanData) {
    if let Some(exporter) = EXPORTER.get() {
        exporter.enqueue(span);
    }
}
