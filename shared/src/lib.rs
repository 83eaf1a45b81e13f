//! What two or more of Rekindle's programs need: ids, configuration, the wire, the broker and the store.
//!
//! `bus` and `store` never import each other; everything else is usable by both.

pub mod admin;
pub mod automation;
pub mod backoff;
pub mod buckets;
pub mod bus;
pub mod campaign;
pub mod cause;
pub mod clock;
pub mod config;
pub mod email;
pub mod env;
pub mod event;
pub mod failpoint;
pub mod ids;
pub mod journey;
pub mod link;
#[cfg(feature = "local")]
pub mod local;
pub mod metric_name;
pub mod outbound;
pub mod password;
pub mod percent;
pub mod personalization;
pub mod probe;
pub mod profile;
pub mod push_token;
pub mod push_url;
pub mod rule;
pub mod secrets;
pub mod send;
pub mod sending_rules;
pub mod shutdown;
pub mod startup;
pub mod store;
pub mod subscription;
pub mod suppression;
pub mod system_mail;
pub mod telemetry;
pub mod template;
pub mod timezone;
pub mod tls;
pub mod trace;
pub mod vapid;
pub mod webhook;
