//! The gateway's configuration.

use std::net::SocketAddr;

use bus::config::BusConfig;
use database::config::DatabaseConfig;
use http::HeaderMap;
use http_client::OutboundPolicy;
use kernel::env::{Env, EnvError};
use runtime::config::{AdminConfig, public_base_url};
use runtime::system_mail::SystemMail;
use secrets::MasterKeys;
use trace::Sampling;

use crate::resources::ai::provider::config::AiConfig;

/// The port of `/metrics` if `ADMIN_ADDR` names no other.
pub const ADMIN_PORT: u16 = 9100;

/// All configuration that the process reads from its environment.
pub struct ProcessConfig {
    pub gateway: GatewayConfig,
    pub database: DatabaseConfig,
    pub bus: BusConfig,
    pub admin: AdminConfig,
    pub master_keys: MasterKeys,
}

impl ProcessConfig {
    pub fn from_env(env: &Env) -> Result<Self, EnvError> {
        Ok(Self {
            gateway: GatewayConfig::from_env(env)?,
            database: DatabaseConfig::from_env(env)?,
            bus: BusConfig::from_env(env)?,
            admin: AdminConfig::from_env(env, ADMIN_PORT)?,
            master_keys: MasterKeys::from_env(env)?,
        })
    }
}

#[derive(Clone, Debug)]
pub struct GatewayConfig {
    pub addr: SocketAddr,
    /// The URL at which clients reach this installation, without a trailing slash. Used for links in messages.
    pub public_base_url: String,
    /// Trusts `X-Forwarded-Proto` and the last entry of `X-Forwarded-For`. Enable only behind a proxy that sets them.
    pub trust_forwarded: bool,
    pub max_connections: usize,
    /// Maximum concurrent live inbox streams; each holds a connection.
    pub inbox_streams: usize,
    /// Maximum requests per second of a project, whatever limit is stored.
    pub max_rate_limit: u32,
    /// Maximum projects that one account may create.
    pub max_projects_per_account: u32,
    /// The number of gateways that share a project's limit while Redis is unavailable.
    pub replicas: u32,
    /// `None`: each gateway limits on its own.
    pub redis: Option<rate_limits::Server>,
    /// Allowed network destinations of channels.
    pub outbound: OutboundPolicy,
    /// `None`: nothing can be generated.
    pub ai: Option<AiConfig>,
    /// Whether delivery can email invitations.
    pub system_mail: bool,
    pub project_creation: ProjectCreation,
    /// Whether delivery has an app of the third-party push provider that is shared by projects without one of their own.
    pub shared_push_app: bool,
    /// Which requests are traced, if traces are exported.
    pub sampling: Sampling,
}

impl GatewayConfig {
    /// Reads `GATEWAY_ADDR` (127.0.0.1:8080), `PUBLIC_BASE_URL` (`http://` and that address), `TRUST_FORWARDED` (off),
    /// `GATEWAY_MAX_CONNECTIONS` (10000), `GATEWAY_INBOX_STREAMS` (2000), `MAX_RATE_LIMIT` (100000),
    /// `MAX_PROJECTS_PER_ACCOUNT` (1000), `GATEWAY_REPLICAS` (1), `REDIS_URL` (none), `REDIS_CA_FILE` (none),
    /// `OUTBOUND_ALLOW` (none), `PROJECT_CREATION` (anyone), `SYSTEM_SMTP_URL` with `SYSTEM_MAIL_FROM` and
    /// `PUSH_PROVIDER_APP_ID` with the same values as in delivery (none), and the variables of [`AiConfig`] and [`Sampling`].
    pub fn from_env(env: &Env) -> Result<Self, EnvError> {
        let default = SocketAddr::from(([127, 0, 0, 1], 8080));
        let addr = env.parse("GATEWAY_ADDR", default, "an address such as 127.0.0.1:8080")?;
        let public_base_url = public_base_url(env, &format!("http://{addr}"))?;
        Ok(Self {
            addr,
            public_base_url,
            trust_forwarded: on_or_off(env, "TRUST_FORWARDED")?,
            max_connections: env.bounded("GATEWAY_MAX_CONNECTIONS", 10_000, 1..=1_000_000, "1 to 1000000")?,
            inbox_streams: env.bounded("GATEWAY_INBOX_STREAMS", 2_000, 1..=1_000_000, "1 to 1000000")?,
            max_rate_limit: env.bounded("MAX_RATE_LIMIT", 100_000, 1..=1_000_000, "1 to 1000000")?,
            max_projects_per_account: env.bounded("MAX_PROJECTS_PER_ACCOUNT", 1_000, 1..=1_000_000, "1 to 1000000")?,
            replicas: env.bounded("GATEWAY_REPLICAS", 1, 1..=1_000, "1 to 1000")?,
            redis: rate_limits::Server::from_env(env)?,
            outbound: OutboundPolicy::from_env(env)?,
            ai: AiConfig::from_env(env)?,
            system_mail: SystemMail::from_env(env)?.is_some(),
            project_creation: ProjectCreation::from_env(env)?,
            shared_push_app: env.get("PUSH_PROVIDER_APP_ID").is_some(),
            sampling: Sampling::from_env(env)?,
        })
    }
}

/// Who may create projects through the API. The operator always can, with `rekindle project create`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProjectCreation {
    /// Every verified account.
    Anyone,
    Operator,
}

impl ProjectCreation {
    fn from_env(env: &Env) -> Result<Self, EnvError> {
        const NAME: &str = "PROJECT_CREATION";
        match env.get(NAME) {
            None | Some("anyone") => Ok(Self::Anyone),
            Some("operator") => Ok(Self::Operator),
            Some(other) => {
                let problem = format!("is {other:?}");
                Err(EnvError { name: NAME.to_owned(), problem, allowed: "operator or anyone" })
            }
        }
    }
}

impl GatewayConfig {
    /// Returns whether the client that sent these headers uses TLS, to the gateway or to the proxy in front of it.
    pub fn is_secure(&self, headers: &HeaderMap) -> bool {
        let proto = || headers.get("x-forwarded-proto").and_then(|proto| proto.to_str().ok());
        let forwarded = || proto().is_some_and(|proto| proto.trim().eq_ignore_ascii_case("https"));
        self.public_base_url.starts_with("https://") || (self.trust_forwarded && forwarded())
    }

    /// Returns a project's limit, capped by the operator's current maximum.
    pub fn effective_rate_limit(&self, stored: u32) -> u32 {
        stored.min(self.max_rate_limit)
    }
}

fn on_or_off(env: &Env, name: &str) -> Result<bool, EnvError> {
    match env.get(name) {
        None | Some("off") => Ok(false),
        Some("on") => Ok(true),
        Some(other) => {
            Err(EnvError { name: name.to_owned(), problem: format!("{other:?} is neither"), allowed: "on or off" })
        }
    }
}

impl Default for GatewayConfig {
    fn default() -> Self {
        Self {
            addr: SocketAddr::from(([127, 0, 0, 1], 0)),
            public_base_url: "http://127.0.0.1:8080".to_owned(),
            trust_forwarded: false,
            max_connections: 10_000,
            inbox_streams: 2_000,
            max_rate_limit: 100_000,
            max_projects_per_account: 1_000,
            replicas: 1,
            redis: None,
            outbound: OutboundPolicy::default(),
            ai: None,
            system_mail: false,
            project_creation: ProjectCreation::Anyone,
            shared_push_app: false,
            sampling: Sampling::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_value_is_refused_with_its_name() {
        for (name, value) in [
            ("GATEWAY_ADDR", "here"),
            ("PUBLIC_BASE_URL", "ftp://x"),
            ("GATEWAY_MAX_CONNECTIONS", "0"),
            ("GATEWAY_INBOX_STREAMS", "0"),
            ("GATEWAY_REPLICAS", "-1"),
            ("MAX_RATE_LIMIT", "0"),
            ("MAX_PROJECTS_PER_ACCOUNT", "0"),
            ("TRUST_FORWARDED", "maybe"),
            ("PROJECT_CREATION", "everyone"),
        ] {
            assert_eq!(GatewayConfig::from_env(&Env::from_pairs([(name, value)])).unwrap_err().name, name);
        }
        assert_eq!(GatewayConfig::from_env(&Env::default()).unwrap().public_base_url, "http://127.0.0.1:8080");
    }
}
