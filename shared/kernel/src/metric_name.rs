//! All metrics: names, kinds and help texts.
//!
//! Tests check that the dashboard and the alerts in `deploy/` use only these metrics, and that docs/reference/metrics.md
//! documents each of them.

use metrics::KeyName;

/// The kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Never decreases; its name ends with `_total`.
    Counter,
    Gauge,
    /// Durations in seconds, counted in buckets.
    Histogram,
}

macro_rules! define_metrics {
    ($($variant:ident = $name:literal, $kind:ident, $help:literal;)+) => {
        /// A metric.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Metric {
            $(#[doc = $help] $variant,)+
        }

        impl Metric {
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            pub const fn kind(self) -> Kind {
                match self { $(Self::$variant => Kind::$kind,)+ }
            }

            /// Returns the help text for `/metrics`, one sentence.
            pub const fn help(self) -> &'static str {
                match self { $(Self::$variant => $help,)+ }
            }
        }
    };
}

define_metrics! {
    HttpRequests = "rekindle_http_requests_total", Counter, "Requests answered, by route and status class.";
    HttpSeconds = "rekindle_http_request_seconds", Histogram, "Duration of requests, by route.";
    EventsAccepted = "rekindle_events_accepted_total", Counter, "Ingest items that the stream has acknowledged.";
    PublishErrors = "rekindle_publish_errors_total", Counter, "Failed publishes to the ingest stream, by kind.";
    RateLimited = "rekindle_rate_limited_total", Counter, "Requests rejected by their project's rate limit.";
    IngestApplied = "rekindle_ingest_items_applied_total", Counter, "Items recorded.";
    IngestDuplicates = "rekindle_ingest_duplicates_total", Counter, "Duplicate items: recorded before.";
    IngestTransactionSeconds = "rekindle_ingest_transaction_seconds", Histogram, "Duration of recording transactions, including retries.";
    IngestDelaySeconds = "rekindle_ingest_delay_seconds", Histogram, "Time from the acceptance of a transaction's oldest item until the transaction is recorded.";
    IngestLag = "rekindle_ingest_lag_messages", Gauge, "Messages of an ingest partition that its reader has not received yet.";
    PartitionsOwned = "rekindle_partitions_owned", Gauge, "Partition leases that this worker holds.";
    ProfilesTooLarge = "rekindle_profiles_too_large_total", Counter, "Profile updates rejected because the profile would be too large.";
    WebhooksIgnored = "rekindle_webhooks_ignored_total", Counter, "Inbound webhooks about messages that do not exist in this installation.";
    UnverifiedItems = "rekindle_unverified_items_total", Counter, "Items without proof of identity that named a user by a merged anonymous ID, by kind.";
    DeadLetters = "rekindle_dead_letters_total", Counter, "Stream entries that can never be applied and became dead letters, by stream.";
    DroppedForDeletedProjects = "rekindle_deleted_project_items_dropped_total", Counter, "Dropped items and messages of deleted projects.";
    RunsStarted = "rekindle_runs_started_total", Counter, "Automation runs started.";
    ClockAhead = "rekindle_clock_ahead_seconds", Gauge, "How far the database's clock has jumped ahead, until an operator decides about it.";
    TimersFired = "rekindle_timers_fired_total", Counter, "Waits of runs that ended because their time was over.";
    OldestDueSeconds = "rekindle_oldest_due_seconds", Gauge, "How long the oldest due row has been due, by what it is.";
    MessagesDue = "rekindle_messages_due", Gauge, "Due messages in the delivery queue, by channel and lane.";
    OldestMessageDueSeconds = "rekindle_oldest_message_due_seconds", Gauge, "How long the oldest due message has been due, by channel and lane.";
    SendLag = "rekindle_send_lag_messages", Gauge, "Direct messages on the send stream that no worker has received yet, by channel.";
    MessagesInFlight = "rekindle_messages_in_flight", Gauge, "Messages in flight: the call is in progress, or its outcome is not recorded yet.";
    MessagesSettled = "rekindle_messages_settled_total", Counter, "Outcomes recorded, by channel, provider and status.";
    MessagesAmbiguous = "rekindle_messages_ambiguous_total", Counter, "Calls with an unknown outcome.";
    MessagesLimited = "rekindle_messages_limited_total", Counter, "Times that a provider's limit held messages back: a queue found no tokens (waited), or a claimed message found no token (deferred) or no SMTP session (no_session).";
    LeasesExpired = "rekindle_leases_expired_total", Counter, "Messages whose lease expired before an outcome was recorded.";
    ProviderSeconds = "rekindle_provider_call_seconds", Histogram, "Duration of provider calls, by provider and outcome.";
    WebhooksSent = "rekindle_webhooks_sent_total", Counter, "Calls to webhook endpoints, by outcome.";
    DatabaseWaitSeconds = "rekindle_database_wait_seconds", Histogram, "Time spent waiting for a connection from the pool.";
    TraceSpans = "rekindle_trace_spans_total", Counter, "Spans, by outcome: exported, failed (not received) or dropped (the queue was full).";
}

impl From<Metric> for KeyName {
    fn from(metric: Metric) -> Self {
        Self::from_const_str(metric.name())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn metric_names_follow_conventions() {
        let names: HashSet<&str> = Metric::ALL.iter().map(|metric| metric.name()).collect();
        assert_eq!(names.len(), Metric::ALL.len());
        for metric in Metric::ALL {
            let name = metric.name();
            assert!(name.starts_with("rekindle_"), "{name}");
            assert_eq!(name.ends_with("_total"), metric.kind() == Kind::Counter, "{name}");
            assert!(metric.kind() != Kind::Histogram || name.ends_with("_seconds"), "{name}");
            assert!(metric.help().ends_with('.'), "{name}");
        }
    }
}
