//! The name of every metric, in one place.

pub const HTTP_REQUESTS: &str = "rekindle_http_requests_total";
pub const HTTP_SECONDS: &str = "rekindle_http_request_seconds";
pub const EVENTS_ACCEPTED: &str = "rekindle_events_accepted_total";
pub const PUBLISH_ERRORS: &str = "rekindle_publish_errors_total";
pub const RATE_LIMITED: &str = "rekindle_rate_limited_total";
pub const INGEST_APPLIED: &str = "rekindle_ingest_items_applied_total";
pub const INGEST_REPEATS: &str = "rekindle_ingest_repeats_total";
pub const INGEST_TRANSACTION_SECONDS: &str = "rekindle_ingest_transaction_seconds";
pub const PARTITIONS_OWNED: &str = "rekindle_partitions_owned";
pub const PROFILES_TOO_LARGE: &str = "rekindle_profiles_too_large_total";
pub const DEAD_LETTERS: &str = "rekindle_dead_letters_total";
pub const DROPPED_OF_DELETED: &str = "rekindle_dropped_of_deleted_projects_total";
pub const RUNS_STARTED: &str = "rekindle_runs_started_total";
pub const CLOCK_AHEAD: &str = "rekindle_clock_ahead_seconds";
pub const TIMERS_FIRED: &str = "rekindle_timers_fired_total";
pub const MESSAGES_SETTLED: &str = "rekindle_messages_settled_total";
pub const MESSAGES_AMBIGUOUS: &str = "rekindle_messages_ambiguous_total";
/// By `how`: `waited` in memory, or `put_off` as rows.
pub const MESSAGES_LIMITED: &str = "rekindle_messages_limited_total";
pub const WEBHOOKS_SENT: &str = "rekindle_webhooks_sent_total";
/// By `outcome`: `exported`, `failed` (not received) or `dropped` (no room in the queue).
pub const TRACE_SPANS: &str = "rekindle_trace_spans_total";
