//! Exports spans to a receiver: OTLP over HTTP, protobuf.
//!
//! The queue is bounded and never blocks: spans that do not fit are dropped and counted. A batch that the receiver does
//! not accept is dropped as well, because newer spans are worth more than a retry.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Request, Uri};
use metrics::{Counter, counter};
use opentelemetry::KeyValue;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SpanData;
use prost::Message;
use tokio::sync::{Notify, oneshot};

use http_client::HttpClient;
use kernel::env::{Env, EnvError};
use kernel::metric_name::Metric;
use kernel::percent;

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";
const ATTRIBUTES: &str = "OTEL_RESOURCE_ATTRIBUTES";
const DELAY: &str = "OTEL_BSP_SCHEDULE_DELAY";
const PROTOCOL: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";
const PAIRS: &str = "pairs such as name=value,other=value";

/// Maximum number of queued spans.
const MAX_QUEUED_SPANS: usize = 4_096;
/// Maximum number of spans in one request.
const MAX_BATCH_SPANS: usize = 512;
/// Every how many consecutive failures one is logged.
const LOG_EVERY: u64 = 60;

/// Where spans are sent, and the resource that they are attributed to.
pub struct Settings {
    endpoint: Uri,
    headers: HeaderMap,
    resource: Resource,
    /// Maximum time a span is queued before it is sent.
    delay: Duration,
    http: HttpClient,
}

impl Settings {
    /// Reads `OTEL_EXPORTER_OTLP_ENDPOINT` (unset: tracing is off), `OTEL_EXPORTER_OTLP_HEADERS`,
    /// `OTEL_EXPORTER_OTLP_PROTOCOL` (only `http/protobuf`), `OTEL_SERVICE_NAME` (default `rekindle-` and the program's
    /// name), `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_BSP_SCHEDULE_DELAY` (5000 ms) and `OUTBOUND_CA_FILE`.
    pub fn from_env(env: &Env, program: &str) -> Result<Option<Self>, EnvError> {
        let refused = |name: &str, problem: String, allowed| EnvError { name: name.to_owned(), problem, allowed };
        let Some(base) = env.get(ENDPOINT) else { return Ok(None) };
        if env.text(PROTOCOL, "http/protobuf") != "http/protobuf" {
            return Err(refused(PROTOCOL, "is not supported".to_owned(), "http/protobuf"));
        }
        let endpoint: Option<Uri> = format!("{}/v1/traces", base.trim_end_matches('/')).parse().ok();
        let is_http = |uri: &Uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some();
        // The URL is logged, so it must not contain a password.
        let has_password = |uri: &Uri| uri.authority().is_some_and(|authority| authority.as_str().contains('@'));
        let endpoint = endpoint.filter(|uri| is_http(uri) && !has_password(uri)).ok_or_else(|| {
            let allowed =
                "a URL such as http://collector:4318, without the path; credentials go into OTEL_EXPORTER_OTLP_HEADERS";
            refused(ENDPOINT, "is not a valid URL, or contains a password".to_owned(), allowed)
        })?;
        let mut headers = HeaderMap::new();
        // The error does not show the invalid value: it may be a key.
        for (name, value) in pairs(env, HEADERS)? {
            let read = HeaderName::try_from(name).ok().zip(HeaderValue::try_from(value).ok());
            let (name, value) = read.ok_or_else(|| refused(HEADERS, "contains an invalid header".to_owned(), PAIRS))?;
            headers.insert(name, value);
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        let mut attributes = vec![KeyValue::new("service.name", format!("rekindle-{program}"))];
        attributes.push(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
        attributes.extend(pairs(env, ATTRIBUTES)?.into_iter().map(|(name, value)| KeyValue::new(name, value)));
        attributes.extend(env.get("OTEL_SERVICE_NAME").map(|name| KeyValue::new("service.name", name.to_owned())));
        let delay = env.bounded(DELAY, 5_000, 10..=60_000, "10 to 60000 (milliseconds)")?;
        Ok(Some(Self {
            endpoint,
            headers,
            resource: Resource::builder_empty().with_attributes(attributes).build(),
            delay: Duration::from_millis(delay),
            http: HttpClient::unrestricted(env)?,
        }))
    }
}

/// Parses comma-separated `name=value` pairs; values may be percent-encoded.
fn pairs(env: &Env, name: &str) -> Result<Vec<(String, String)>, EnvError> {
    let text = env.get(name).unwrap_or("");
    let pair = |part: &str| {
        let (key, value) = part.split_once('=')?;
        let value = percent::decode(value.trim())?;
        Some((key.trim().to_owned(), value)).filter(|(key, _)| !key.is_empty())
    };
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let wrong =
        || EnvError { name: name.to_owned(), problem: "is not a list of name=value pairs".to_owned(), allowed: PAIRS };
    parts.map(|part| pair(part).ok_or_else(wrong)).collect()
}

/// Queued spans. Ending a span adds it here, and the exporter is woken only for a full batch: waking a thread for each
/// span costs more than the span.
#[derive(Default)]
struct PendingSpans {
    spans: Vec<SpanData>,
    /// Notified once all earlier spans are sent.
    flushed: Vec<oneshot::Sender<()>>,
}

#[derive(Default)]
struct Queue {
    pending: Mutex<PendingSpans>,
    /// Notified when a batch is full, or a flush is requested.
    ready: Notify,
}

impl Queue {
    fn change<T>(&self, change: impl FnOnce(&mut PendingSpans) -> T) -> T {
        change(&mut self.pending.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Queues spans for export.
pub struct Exporter {
    queue: Arc<Queue>,
    dropped: Counter,
}

impl Exporter {
    /// Starts the export task. Call it after starting the metrics.
    pub fn start(settings: Settings) -> Self {
        let queue = Arc::new(Queue::default());
        tracing::info!(endpoint = %settings.endpoint, "exporting traces");
        tokio::spawn(run(settings, Arc::clone(&queue)));
        Self { queue, dropped: counter!(Metric::TraceSpans, "outcome" => "dropped") }
    }

    /// Queues a span without blocking, or drops it if the queue is full.
    pub fn enqueue(&self, span: SpanData) {
        let count = self.queue.change(|pending| {
            (pending.spans.len() < MAX_QUEUED_SPANS).then(|| {
                pending.spans.push(span);
                pending.spans.len()
            })
        });
        match count {
            Some(count) if count.is_multiple_of(MAX_BATCH_SPANS) => self.queue.ready.notify_one(),
            Some(_) => {}
            None => self.dropped.increment(1),
        }
    }

    pub async fn flush(&self) {
        let (done, sent) = oneshot::channel();
        self.queue.change(|pending| pending.flushed.push(done));
        self.queue.ready.notify_one();
        let _ = sent.await;
    }
}

async fn run(settings: Settings, queue: Arc<Queue>) {
    let mut receiver = Receiver::new(settings);
    loop {
        // The timeout and a full batch are handled alike.
        let _ = tokio::time::timeout(receiver.settings.delay, queue.ready.notified()).await;
        let PendingSpans { mut spans, flushed } = queue.change(std::mem::take);
        while !spans.is_empty() {
            let rest = spans.split_off(spans.len().min(MAX_BATCH_SPANS));
            receiver.send(std::mem::replace(&mut spans, rest)).await;
        }
        for done in flushed {
            let _ = done.send(());
        }
    }
}

/// The client of the span receiver.
struct Receiver {
    settings: Settings,
    resource: ResourceAttributesWithSchema,
    exported: Counter,
    failed: Counter,
    failures: u64,
}

impl Receiver {
    fn new(settings: Settings) -> Self {
        let of = |outcome: &'static str| counter!(Metric::TraceSpans, "outcome" => outcome);
        let resource = (&settings.resource).into();
        Self { settings, resource, exported: of("exported"), failed: of("failed"), failures: 0 }
    }

    async fn send(&mut self, spans: Vec<SpanData>) {
        let count = spans.len() as u64;
        let why = match self.post(spans).await {
            Ok(()) => {
                self.failures = 0;
                return self.exported.increment(count);
            }
            Err(why) => why,
        };
        self.failed.increment(count);
        self.failures += 1;
        if self.failures % LOG_EVERY == 1 {
            tracing::warn!(endpoint = %self.settings.endpoint, why, "could not export {count} spans");
        }
    }

    async fn post(&self, spans: Vec<SpanData>) -> Result<(), String> {
        let resource_spans = group_spans_by_resource_and_scope(spans, &self.resource);
        let body = Bytes::from(ExportTraceServiceRequest { resource_spans }.encode_to_vec());
        let mut request = Request::new(body);
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.settings.endpoint.clone();
        *request.headers_mut() = self.settings.headers.clone();
        let answer = self.settings.http.call(request).await.map_err(|e| e.to_string())?;
        if answer.status.is_success() { Ok(()) } else { Err(format!("status {}", answer.status)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tracing_is_off_without_endpoint() {
        assert!(Settings::from_env(&Env::default(), "gateway").unwrap().is_none());
    }

    #[test]
    fn settings_append_path_and_decode_values() {
        let env = Env::from_pairs([
            (ENDPOINT, "http://127.0.0.1:4318/"),
            (HEADERS, "Authorization=Basic%20abc, x-tenant=7"),
            (ATTRIBUTES, "deployment.environment=test"),
        ]);
        let settings = Settings::from_env(&env, "gateway").unwrap().unwrap();
        assert_eq!(settings.endpoint.to_string(), "http://127.0.0.1:4318/v1/traces");
        assert_eq!(
            (&settings.headers["authorization"], &settings.headers["x-tenant"]),
            (&"Basic abc".parse().unwrap(), &"7".parse().unwrap())
        );
        assert_eq!(settings.resource.get(&"service.name".into()).unwrap().as_str(), "rekindle-gateway");
        assert_eq!(settings.resource.get(&"deployment.environment".into()).unwrap().as_str(), "test");
    }

    #[test]
    fn invalid_value_error_names_variable_and_hides_value() {
        for (name, value) in [
            (ENDPOINT, "collector"),
            (ENDPOINT, "ftp://collector"),
            (HEADERS, "secret"),
            (HEADERS, "se cret=secret"),
            (ATTRIBUTES, "=secret"),
            (DELAY, "0"),
            (PROTOCOL, "grpc"),
        ] {
            let env = Env::from_pairs([(ENDPOINT, "http://127.0.0.1:1"), (name, value)]);
            let error = Settings::from_env(&env, "gateway").err().unwrap();
            assert_eq!(error.name, name);
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
