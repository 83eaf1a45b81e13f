//! All metrics: names, kinds and help texts.
//!
//! Tests check that the dashboard and the alerts in `deploy/` use only these metrics, and that docs/reference/metrics.md documents
//! each of them.

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

macro_rules! metrics_are {
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

metrics_are! {
    HttpRequests = "rekindle_http_requests_total", Counter, "Requests answered, by route and class of status.";
    HttpSeconds = "rekindle_http_request_seconds", Histogram, "How long requests took, by route.";
    EventsAccepted = "rekindle_events_accepted_total", Counter, "Items of ingest requests that the stream has acknowledged.";
    PublishErrors = "rekindle_publish_errors_total", Counter, "Publishes to the ingest stream that failed, by kind.";
    RateLimited = "rekindle_rate_limited_total", Counter, "Requests refused for their project's limit.";
    IngestApplied = "rekindle_ingest_items_applied_total", Counter, "Items recorded.";
    IngestRepeats = "rekindle_ingest_repeats_total", Counter, "Items that had been recorded before.";
    IngestTransactionSeconds = "rekindle_ingest_transaction_seconds", Histogram, "How long recording transactions took, repeats of them included.";
    IngestDelaySeconds = "rekindle_ingest_delay_seconds", Histogram, "From the acceptance of a transaction's oldest item to its being recorded.";
    IngestLag = "rekindle_ingest_lag_messages", Gauge, "Messages of a partition of the ingest stream that its reader has not been given yet.";
    PartitionsOwned = "rekindle_partitions_owned", Gauge, "Leases of ingest partitions that this worker holds.";
    ProfilesTooLarge = "rekindle_profiles_too_large_total", Counter, "Profile updates refused for the size of the profile.";
    WebhooksIgnored = "rekindle_webhooks_ignored_total", Counter, "Inbound webhooks about messages that are not of this installation.";
    UnprovenItems = "rekindle_unproven_items_total", Counter, "Items without proof of identity that named a user by a merged anonymous id, by kind.";
    DeadLetters = "rekindle_dead_letters_total", Counter, "What could never be applied or sent and was put aside, by stream.";
    DroppedOfDeleted = "rekindle_dropped_of_deleted_projects_total", Counter, "Items and messages of projects that were deleted.";
    RunsStarted = "rekindle_runs_started_total", Counter, "Runs of automations that began.";
    ClockAhead = "rekindle_clock_ahead_seconds", Gauge, "How far the database's clock has jumped ahead, while nobody has judged it.";
    TimersFired = "rekindle_timers_fired_total", Counter, "Waits of runs that ended in time.";
    OldestDueSeconds = "rekindle_oldest_due_seconds", Gauge, "For how long the oldest row that is due has been waiting, by what it is.";
    MessagesDue = "rekindle_messages_due", Gauge, "Due messages in the delivery queue, by channel and lane.";
    OldestMessageDueSeconds = "rekindle_oldest_message_due_seconds", Gauge, "For how long the oldest of these messages has been due, by channel and lane.";
    SendLag = "rekindle_send_lag_messages", Gauge, "Direct messages on the send stream that no worker has been given yet, by channel.";
    MessagesInHand = "rekindle_messages_in_hand", Gauge, "Messages whose call is in progress or whose outcome is not written yet.";
    MessagesSettled = "rekindle_messages_settled_total", Counter, "Outcomes written, by channel, provider and status.";
    MessagesAmbiguous = "rekindle_messages_ambiguous_total", Counter, "Calls of which the outcome was never learned.";
    MessagesLimited = "rekindle_messages_limited_total", Counter, "Times that a provider's limit held messages up: a queue found no tokens (waited), or a message that had begun found no token (put_off) or no SMTP session (no_session).";
    LeasesLapsed = "rekindle_leases_lapsed_total", Counter, "Messages taken over after a lease that ended without an outcome.";
    ProviderSeconds = "rekindle_provider_call_seconds", Histogram, "How long calls of providers took, by provider and outcome.";
    WebhooksSent = "rekindle_webhooks_sent_total", Counter, "Calls of other systems' endpoints, by outcome.";
    DatabaseWaitSeconds = "rekindle_database_wait_seconds", Histogram, "How long was waited for a connection of the pool.";
    TraceSpans = "rekindle_trace_spans_total", Counter, "Spans of traces: exported, failed (not received) or dropped (no room in the queue).";
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
    fn names_say_what_they_are() {
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
