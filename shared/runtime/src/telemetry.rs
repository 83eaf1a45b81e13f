//! Logs and metrics of a process.

use metrics::{describe_counter, describe_gauge, describe_histogram};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use kernel::env::{Env, EnvError};
use kernel::metric_name::{Kind, Metric};

/// Starts logging to stderr: `RUST_LOG` (default `info`), `LOG_FORMAT` (`text` or `json`). Call it once, before
/// anything else. After an error, logging has started with the defaults, so that the error can be logged.
pub fn start_logging(env: &Env) -> Result<(), EnvError> {
    log_as(env).inspect_err(|_| drop(log_as(&Env::default())))
}

fn log_as(env: &Env) -> Result<(), EnvError> {
    let problem = |name: &str, problem: String, allowed| EnvError { name: name.to_owned(), problem, allowed };
    let filter = env.text("RUST_LOG", "info,async_nats=warn,tokio_postgres=warn,lettre=warn");
    let filter = EnvFilter::try_new(&filter)
        .map_err(|e| problem("RUST_LOG", e.to_string(), "a filter such as info or gateway=debug,info"))?;
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_target(false);
    let registry = tracing_subscriber::registry().with(filter);
    let started = match env.text("LOG_FORMAT", "text").as_str() {
        "text" => registry.with(layer.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))).try_init(),
        "json" => registry.with(layer.json().flatten_event(true)).try_init(),
        other => return Err(problem("LOG_FORMAT", format!("{other:?} is unknown"), "text or json")),
    };
    // A second start in one process (tests) keeps the first logger.
    drop(started);
    Ok(())
}

/// Bucket bounds of duration histograms, in seconds. Buckets, unlike quantiles, can be summed over processes.
const SECONDS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

/// Installs the metrics recorder. Returns the handle that renders `/metrics`, or `None` if a recorder is already
/// installed.
pub fn start_metrics() -> Option<PrometheusHandle> {
    let seconds = Matcher::Suffix("_seconds".to_owned());
    let handle = PrometheusBuilder::new().set_buckets_for_metric(seconds, &SECONDS).ok()?.install_recorder().ok()?;
    for metric in Metric::ALL {
        match metric.kind() {
            Kind::Counter => describe_counter!(*metric, metric.help()),
            Kind::Gauge => describe_gauge!(*metric, metric.help()),
            Kind::Histogram => describe_histogram!(*metric, metric.help()),
        }
    }
    Some(handle)
}
