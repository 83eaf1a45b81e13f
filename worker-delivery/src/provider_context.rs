//! What the clients of all providers share.

use http_client::HttpClient;
use kernel::clock::Clock;
use providers::apns;

use crate::config::ProviderUrls;
use crate::limits::Limits;

/// What provider clients need besides their settings.
#[derive(Clone)]
pub struct ProviderContext {
    pub http: HttpClient,
    pub provider_urls: ProviderUrls,
    pub clock: Clock,
    pub apns_tokens: apns::Tokens,
    pub limits: Limits,
}
