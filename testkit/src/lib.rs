//! Real servers for tests. PostgreSQL, NATS and Redis are shared by all test processes of this work tree; each test has its own database
//! and stream prefix. Tests that break servers use private ones. Also a mailbox, and the servers of providers.
//!
//! The first test that needs a shared server starts it (and installs what is missing, where that is permitted). The servers run until
//! `testkit-servers stop`. A test without its server fails; it is never skipped.

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
mod test_dir;
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

/// Panics with the reason: a test cannot recover from a broken setup.
pub(crate) fn must<T, E: std::fmt::Display>(what: &str, result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| panic!("{what}: {error:#}"))
}

/// Returns eight random hexadecimal digits, which separate concurrent tests.
pub(crate) fn random_name() -> String {
    format!("{:08x}", rand::random::<u32>())
}
