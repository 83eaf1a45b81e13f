//! Client for the language model: any endpoint with OpenAI's chat completions API, configured by the operator.

pub mod config;
mod limit;
mod wire;

use std::time::Duration;

use kernel::ids::OwnerId;
use reqwest::Client;
use reqwest::redirect::Policy;

use crate::http::error::ApiError;
use config::AiConfig;
use limit::Limits;
use wire::{Completion, ProviderError, Request};

/// Maximum size of a response in bytes.
const RESPONSE_MAX: usize = 1024 * 1024;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Reason why no text was generated.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum AiError {
    /// The provider's error message, or why its response cannot be used.
    #[error("{0}")]
    Failed(String),
    #[error("the AI provider did not respond within {0} s")]
    Timeout(u64),
    /// The owner's rate limit is exceeded; `retry_after` is in seconds.
    #[error(
        "the limit of {per_minute} generated texts per minute for all projects of this owner is exceeded; retry in {retry_after} s"
    )]
    RateLimited { per_minute: u32, retry_after: u32 },
}

impl From<AiError> for ApiError {
    fn from(error: AiError) -> Self {
        let message = error.to_string();
        match error {
            AiError::Failed(_) => Self::BadGateway(message),
            AiError::Timeout(_) => Self::GatewayTimeout(message),
            AiError::RateLimited { retry_after, .. } => Self::TooManyCalls { message, retry_after },
        }
    }
}

/// Client for the configured endpoint.
pub struct Ai {
    config: AiConfig,
    client: Client,
    limits: Limits,
}

impl Ai {
    /// Creates the client. Each owner's limit is divided among `replicas` gateways.
    pub fn new(config: AiConfig, replicas: u32) -> anyhow::Result<Self> {
        // Fails if a provider is already installed, as when several programs share a process.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let client = Client::builder()
            // The operator configures the URL; a redirect must not lead to another host.
            .redirect(Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(config.timeout)
            .build()?;
        Ok(Self { limits: Limits::new(config.per_minute, replicas), config, client })
    }

    /// Returns the model's response to a system prompt and a user prompt. Fails if the owner's rate limit is exceeded.
    pub async fn complete(&self, owner: OwnerId, system: &str, user: &str) -> Result<String, AiError> {
        self.limits.take(owner)?;
        self.request(&Request::new(&self.config.model, system, user)).await
    }

    async fn request(&self, request: &Request<'_>) -> Result<String, AiError> {
        let mut call = self.client.post(format!("{}/chat/completions", self.config.base_url)).json(request);
        if let Some(key) = &self.config.api_key {
            call = call.bearer_auth(key);
        }
        let mut response = call.send().await.map_err(|e| self.transport_error(&e))?;
        let status = response.status();
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|e| self.transport_error(&e))? {
            body.extend_from_slice(&chunk);
            if body.len() > RESPONSE_MAX {
                return Err(AiError::Failed(format!("the AI provider's response is larger than {RESPONSE_MAX} bytes")));
            }
        }
        if !status.is_success() {
            let message = self.without_key(&ProviderError::message(&body));
            return Err(AiError::Failed(format!("the AI provider returned {}: {message}", status.as_u16())));
        }
        Completion::text(&body)
            .ok_or_else(|| AiError::Failed("the AI provider's response is not a chat completion with text".to_owned()))
    }

    fn transport_error(&self, error: &reqwest::Error) -> AiError {
        if error.is_timeout() {
            return AiError::Timeout(self.config.timeout.as_secs());
        }
        // The error text contains the URL, which only the operator may see.
        tracing::warn!(%error, "AI provider request failed");
        AiError::Failed(
            "the AI provider could not be reached or closed the connection; see the gateway's log".to_owned(),
        )
    }

    /// Redacts the API key: some providers repeat a rejected key in their error message.
    fn without_key(&self, message: &str) -> String {
        match &self.config.api_key {
            Some(key) => message.replace(key.as_str(), "…"),
            None => message.to_owned(),
        }
    }
}
