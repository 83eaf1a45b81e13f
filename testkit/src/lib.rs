//! Real servers for tests: PostgreSQL, NATS and Redis, shared by all test processes of this work tree, each test in a
//! database and under a stream prefix of its own; private ones for tests that break them; a mailbox, and the servers of
//! providers.
//!
//! The shared servers are started by the first test that needs them (what is missing is installed where it may be)
//! and run until `testkit-servers stop`. A test without its server fails; it is never skipped.

mod accept;
mod ai_server;
mod apns_service;
mod background;
mod certificate;
mod citus;
mod database;
mod eventually;
mod jwt;
mod mail_service;
mod mailbox;
pub mod markup;
mod nats;
mod otlp_receiver;
mod place;
mod private;
mod provider_server;
mod push_gateway;
mod push_provider_service;
mod redis;
pub mod scan;
pub mod servers;
mod session;
mod sms_service;
mod smtp_service;
pub mod sources;
mod web_push_service;

pub use ai_server::{AiRequest, TestAi};
pub use apns_service::ApnsService;
pub use certificate::Certificate;
pub use citus::CitusDatabase;
pub use database::TestDatabase;
pub use eventually::{eventually, eventually_true};
pub use mail_service::MailService;
pub use mailbox::{Mail, TestMailbox};
pub use nats::TestNats;
pub use otlp_receiver::{OtlpReceiver, ReceivedSpan};
pub use private::{ConfiguredNats, PrivateNats, PrivatePostfix, PrivatePostgres, PrivateRedis, disks_can_be_mounted};
pub use provider_server::{Fault, ProviderServer, Received, Reply, Vendor};
pub use push_gateway::PushGateway;
pub use push_provider_service::PushProviderService;
pub use redis::TestRedis;
pub use sms_service::SmsService;
pub use smtp_service::SmtpService;
pub use web_push_service::WebPushService;

/// What a test can do about a broken test set-up is nothing but end with the reason.
pub(crate) fn must<T, E: std::fmt::Display>(what: &str, result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| panic!("{what}: {error:#}"))
}

/// Eight random hexadecimal digits: what keeps tests that run at once apart.
pub(crate) fn random_name() -> String {
    format!("{:08x}", rand::random::<u32>())
}
