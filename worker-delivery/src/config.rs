//! Configuration.

use domain::message::Channel;
use http_client::{BaseUrl, HttpClient};
use kernel::env::{Env, EnvError};
use runtime::config::public_base_url;
use runtime::system_mail::SystemMail;
use secrets::MasterKeys;
use std::path::PathBuf;
use std::time::Duration;

use providers::onesignal::ProviderApp;

/// Channels that this program can serve.
pub const SUPPORTED_CHANNELS: [Channel; 4] = Channel::ALL;

#[derive(Clone)]
pub struct DeliveryConfig {
    /// Channels whose queues this process reads.
    pub channels: Vec<Channel>,
    /// Maximum messages in flight per owner and worker, a quarter of them reserved for direct messages. All owners together get an
    /// eighth more. A push calls all of a user's devices under one slot.
    pub concurrency: usize,
    /// Shares rate limits between workers. Without Redis, each worker has its own share.
    pub redis: Option<rate_limits::Server>,
    /// How many workers share the rate limits while Redis is unavailable.
    pub replicas: u32,
    /// How often a direct or automation message is repeated after calls with an unknown outcome.
    pub unknown_retries: i32,
    /// How long a begun chunk or webhook is leased. Values below about 30 s let slow calls be taken over.
    pub lease: Duration,
    pub http: HttpClient,
    pub provider_urls: ProviderUrls,
    /// The operator's mail server, for invitations. Without one they are not mailed.
    pub system_mail: Option<SystemMail>,
    pub master_keys: MasterKeys,
    /// Base URL of links in messages, without a trailing slash.
    pub public_base_url: String,
    /// Whether `PUBLIC_BASE_URL` is set. Otherwise links to this installation would not work.
    pub is_reachable: bool,
}

/// Base URLs of the providers: the vendors' own, unless overridden.
#[derive(Clone, Debug)]
pub struct ProviderUrls {
    pub mail: BaseUrl,
    /// Replaces both environments of the vendor.
    pub apns: Option<BaseUrl>,
    pub fcm: BaseUrl,
    pub onesignal: BaseUrl,
    /// The operator's app at the push provider, for projects without their own.
    pub shared_push_app: Option<ProviderApp>,
    /// Rate limit of that app, in calls per second.
    pub shared_push_limit: Option<u32>,
    pub sms: BaseUrl,
    /// Contact for push services: `mailto:` or `https:`.
    pub vapid_subject: Option<String>,
    /// Directory for pushes to made-up test devices, written as files.
    pub push_mailbox: Option<PathBuf>,
}

impl ProviderUrls {
    /// `MAIL_BASE_URL`, `APNS_BASE_URL`, `PUSH_GATEWAY_BASE_URL`, `PUSH_PROVIDER_BASE_URL`, `SMS_BASE_URL`;
    /// `PUSH_PROVIDER_APP_ID` with `PUSH_PROVIDER_REST_KEY` and `PUSH_PROVIDER_RATE_LIMIT` (none); `VAPID_SUBJECT`, or `PUBLIC_BASE_URL` where that is https;
    /// `PUSH_MAILBOX_DIR`.
    pub fn from_env(env: &Env) -> Result<Self, EnvError> {
        let is_set = |name: &str| env.get(name).is_some();
        let apns = || BaseUrl::from_env(env, "APNS_BASE_URL", "");
        let push_limit = || env.bounded("PUSH_PROVIDER_RATE_LIMIT", 1, 1..=100_000, "1 to 100000 calls per second");
        Ok(Self {
            mail: BaseUrl::from_env(env, "MAIL_BASE_URL", "https://api.resend.com")?,
            apns: is_set("APNS_BASE_URL").then(apns).transpose()?,
            fcm: BaseUrl::from_env(env, "PUSH_GATEWAY_BASE_URL", "https://fcm.googleapis.com")?,
            onesignal: BaseUrl::from_env(env, "PUSH_PROVIDER_BASE_URL", "https://api.onesignal.com")?,
            shared_push_app: shared_push_app(env)?,
            shared_push_limit: is_set("PUSH_PROVIDER_RATE_LIMIT").then(push_limit).transpose()?,
            sms: BaseUrl::from_env(env, "SMS_BASE_URL", "https://api.twilio.com")?,
            vapid_subject: vapid_subject(env)?,
            push_mailbox: env.get("PUSH_MAILBOX_DIR").map(PathBuf::from),
        })
    }
}

fn shared_push_app(env: &Env) -> Result<Option<ProviderApp>, EnvError> {
    const NAMES: [&str; 2] = ["PUSH_PROVIDER_APP_ID", "PUSH_PROVIDER_REST_KEY"];
    let wrong = |name: &str, problem: &str| EnvError {
        name: name.to_owned(),
        problem: problem.to_owned(),
        allowed: "the ID and the REST key of an app, both or neither",
    };
    match NAMES.map(|name| env.get(name)) {
        [None, None] => Ok(None),
        [Some(id), Some(key)] => ProviderApp::new(id, key)
            .map(Some)
            .map_err(|_| wrong(NAMES[1], "contains characters that are not allowed in a key")),
        [None, Some(_)] => Err(wrong(NAMES[0], "is missing")),
        [Some(_), None] => Err(wrong(NAMES[1], "is missing")),
    }
}

fn vapid_subject(env: &Env) -> Result<Option<String>, EnvError> {
    const NAME: &str = "VAPID_SUBJECT";
    let is_subject = |text: &str| text.starts_with("mailto:") || text.starts_with("https://");
    match env.get(NAME) {
        Some(text) if is_subject(text) => Ok(Some(text.to_owned())),
        Some(text) => Err(EnvError {
            name: NAME.to_owned(),
            problem: format!("{text:?} is not such an address"),
            allowed: "an address such as mailto:push@example.com or https://example.com",
        }),
        None => Ok(env.get("PUBLIC_BASE_URL").filter(|url| url.starts_with("https://")).map(str::to_owned)),
    }
}

impl DeliveryConfig {
    /// `DELIVERY_CHANNELS` (all), `DELIVERY_CONCURRENCY` (512), `DELIVERY_REPLICAS` (1), `REDIS_URL` (none),
    /// `DELIVERY_UNKNOWN_RETRIES` (1), `DELIVERY_LEASE_MS` (90000),
    /// `OUTBOUND_ALLOW`, `OUTBOUND_CA_FILE`, the providers' base URLs, `SYSTEM_SMTP_URL` with `SYSTEM_MAIL_FROM` (none), `MASTER_KEY` or `MASTER_KEY_FILE`,
    /// `PUBLIC_BASE_URL` (`http://127.0.0.1:8080`; if unset, nothing is tracked).
    pub fn from_env(env: &Env) -> Result<Self, EnvError> {
        Ok(Self {
            channels: channels(env)?,
            concurrency: env.bounded("DELIVERY_CONCURRENCY", 512, 2..=1_024, "2 to 1024")?,
            redis: rate_limits::Server::from_env(env)?,
            replicas: env.bounded("DELIVERY_REPLICAS", 1, 1..=1_000, "1 to 1000")?,
            unknown_retries: env.bounded("DELIVERY_UNKNOWN_RETRIES", 1, 0..=10, "0 to 10")?,
            lease: Duration::from_millis(env.bounded(
                "DELIVERY_LEASE_MS",
                90_000,
                1_000..=600_000,
                "1000 to 600000 milliseconds",
            )?),
            http: HttpClient::from_env(env)?,
            provider_urls: ProviderUrls::from_env(env)?,
            system_mail: SystemMail::from_env(env)?,
            master_keys: MasterKeys::from_env(env)?,
            public_base_url: public_base_url(env, "http://127.0.0.1:8080")?,
            is_reachable: env.get("PUBLIC_BASE_URL").is_some(),
        })
    }
}

fn channels(env: &Env) -> Result<Vec<Channel>, EnvError> {
    const NAME: &str = "DELIVERY_CHANNELS";
    const ALLOWED: &str = "a list of: email, push, in_app, sms";
    let mut channels = Vec::new();
    for name in env.list::<String>(NAME, ALLOWED)? {
        let served = Channel::parse(&name).filter(|c| SUPPORTED_CHANNELS.contains(c));
        let problem =
            || EnvError { name: NAME.to_owned(), problem: format!("{name:?} is not a channel"), allowed: ALLOWED };
        channels.push(served.ok_or_else(problem)?);
    }
    Ok(if channels.is_empty() { SUPPORTED_CHANNELS.to_vec() } else { channels })
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: (&str, &str) = ("MASTER_KEY", "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f");

    #[test]
    fn defaults_work_on_one_machine() {
        let config = DeliveryConfig::from_env(&Env::from_pairs([KEY])).unwrap();
        assert_eq!(
            (config.channels, config.concurrency, config.unknown_retries),
            (SUPPORTED_CHANNELS.to_vec(), 512, 1)
        );
        assert_eq!(config.lease, Duration::from_secs(90));
    }

    #[test]
    fn invalid_value_is_reported_with_its_name() {
        for (name, value) in [
            ("DELIVERY_CHANNELS", "email,pigeon"),
            ("DELIVERY_CONCURRENCY", "1"),
            ("DELIVERY_REPLICAS", "0"),
            ("REDIS_URL", "127.0.0.1"),
            ("PUSH_PROVIDER_RATE_LIMIT", "0"),
            ("DELIVERY_UNKNOWN_RETRIES", "-1"),
            ("DELIVERY_LEASE_MS", "999"),
            ("OUTBOUND_ALLOW", "here"),
            ("OUTBOUND_CA_FILE", "/no/such/file"),
            ("MAIL_BASE_URL", "api.example.com"),
            ("APNS_BASE_URL", "x"),
            ("PUSH_GATEWAY_BASE_URL", "ftp://x"),
            ("PUSH_PROVIDER_BASE_URL", "x"),
            ("SMS_BASE_URL", "x"),
            ("PUBLIC_BASE_URL", "ftp://x"),
            ("VAPID_SUBJECT", "me"),
        ] {
            let error = DeliveryConfig::from_env(&Env::from_pairs([KEY, (name, value)])).err().unwrap();
            assert_eq!(error.name, name);
        }
        for (given, missing) in [
            ("PUSH_PROVIDER_APP_ID", "PUSH_PROVIDER_REST_KEY"),
            ("PUSH_PROVIDER_REST_KEY", "PUSH_PROVIDER_APP_ID"),
            ("SYSTEM_SMTP_URL", "SYSTEM_MAIL_FROM"),
            ("SYSTEM_MAIL_FROM", "SYSTEM_SMTP_URL"),
        ] {
            let error = DeliveryConfig::from_env(&Env::from_pairs([KEY, (given, "x")])).err().unwrap();
            assert_eq!(error.name, missing);
        }
    }
}
