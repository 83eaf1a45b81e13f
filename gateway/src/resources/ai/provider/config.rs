//! Configuration of the language model.

use std::fmt;
use std::time::Duration;

use kernel::env::{Env, EnvError};

#[derive(Clone, PartialEq, Eq)]
pub struct AiConfig {
    /// Without a trailing slash; requests go to `{base_url}/chat/completions`.
    pub base_url: String,
    /// `None` if the endpoint needs no key, as is common for self-hosted models.
    pub api_key: Option<String>,
    pub model: String,
    pub timeout: Duration,
    /// Generated texts per minute for each project owner.
    pub per_minute: u32,
}

/// Omits the API key.
impl fmt::Debug for AiConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AiConfig({}, {})", self.base_url, self.model)
    }
}

impl AiConfig {
    /// Reads `AI_BASE_URL` (for example `https://api.openai.com/v1`), `AI_MODEL` (required with a base URL),
    /// `AI_API_KEY` (optional), `AI_TIMEOUT_SECONDS` (default 20) and `AI_RATE_PER_MINUTE` (default 20).
    ///
    /// Returns `None` without `AI_BASE_URL`: text generation is then off.
    pub fn from_env(env: &Env) -> Result<Option<Self>, EnvError> {
        let Some(base_url) = env.get("AI_BASE_URL") else { return Ok(None) };
        let error = |name: &str, problem: String, allowed| EnvError { name: name.to_owned(), problem, allowed };
        let usable = base_url.parse::<http::Uri>().is_ok_and(|uri| {
            matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some() && uri.query().is_none()
        });
        if !usable {
            let allowed = "an http:// or https:// URL such as https://api.openai.com/v1";
            return Err(error("AI_BASE_URL", format!("{base_url:?} is not a valid URL"), allowed));
        }
        let missing = || error("AI_MODEL", "required if AI_BASE_URL is set".to_owned(), "the name of a model");
        let seconds = env.bounded("AI_TIMEOUT_SECONDS", 20, 1..=120, "1 to 120")?;
        Ok(Some(Self {
            base_url: base_url.trim_end_matches('/').to_owned(),
            api_key: env.get("AI_API_KEY").map(str::to_owned),
            model: env.get("AI_MODEL").ok_or_else(missing)?.to_owned(),
            timeout: Duration::from_secs(seconds),
            per_minute: env.bounded("AI_RATE_PER_MINUTE", 20, 1..=100_000, "1 to 100000")?,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_is_required_with_a_base_url() {
        let read = |pairs: &[(&str, &str)]| AiConfig::from_env(&Env::from_pairs(pairs.iter().copied()));
        assert_eq!(read(&[("AI_MODEL", "m")]).unwrap(), None);
        let whole = read(&[("AI_BASE_URL", "http://127.0.0.1:9/v1/"), ("AI_MODEL", "m"), ("AI_API_KEY", "hunter2")]);
        let whole = whole.unwrap().unwrap();
        assert_eq!((whole.base_url.as_str(), whole.per_minute), ("http://127.0.0.1:9/v1", 20));
        assert!(!format!("{whole:?}").contains("hunter2"));
        for (pairs, name) in [
            (&[("AI_BASE_URL", "http://a/v1")][..], "AI_MODEL"),
            (&[("AI_BASE_URL", "a/v1"), ("AI_MODEL", "m")], "AI_BASE_URL"),
            (&[("AI_BASE_URL", "ftp://a"), ("AI_MODEL", "m")], "AI_BASE_URL"),
            (&[("AI_BASE_URL", "http://a"), ("AI_MODEL", "m"), ("AI_TIMEOUT_SECONDS", "0")], "AI_TIMEOUT_SECONDS"),
        ] {
            assert_eq!(read(pairs).unwrap_err().name, name);
        }
    }
}
