//! The base URL of a service, configurable so that tests and compatible services can replace it.

use std::str::FromStr;

use http::Uri;

use kernel::env::{Env, EnvError};

const ALLOWED: &str = "an http:// or https:// URL such as https://api.example.com";

/// A URL without a trailing slash, to which paths are appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseUrl(String);

impl FromStr for BaseUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let uri: Uri = text.parse().map_err(|e| format!("{e}"))?;
        let plain = uri.query().is_none() && uri.authority().is_some_and(|a| !a.as_str().contains('@'));
        if !matches!(uri.scheme_str(), Some("http" | "https")) || !plain {
            return Err(format!("{text:?} is not a valid base URL"));
        }
        Ok(Self(text.trim_end_matches('/').to_owned()))
    }
}

impl BaseUrl {
    /// Reads the variable's URL, or returns the default.
    pub fn from_env(env: &Env, name: &str, default: &str) -> Result<Self, EnvError> {
        env.parse(name, Self(default.to_owned()), ALLOWED)
    }

    /// Returns the URL of a path, which begins with a slash.
    pub fn join(&self, path: &str) -> String {
        format!("{}{path}", self.0)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether another URL has the same scheme, host and port.
    pub fn is_origin_of(&self, address: &str) -> bool {
        let origin = |text: &str| text.parse::<Uri>().ok().map(|u| (u.scheme().cloned(), u.authority().cloned()));
        origin(&self.0).is_some_and(|own| Some(own) == origin(address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_urls_are_joined_and_compared() {
        let base: BaseUrl = "https://api.example.com/v2/".parse().unwrap();
        assert_eq!(base.join("/emails"), "https://api.example.com/v2/emails");
        assert!(base.is_origin_of("https://api.example.com/token"));
        for other in ["http://api.example.com/", "https://api.example.com:444/", "https://example.com/", "x", ""] {
            assert!(!base.is_origin_of(other), "{other}");
        }
        for wrong in ["api.example.com", "ftp://a", "https://a@b/", "https://a/?q", "", "/x"] {
            assert!(wrong.parse::<BaseUrl>().is_err(), "{wrong}");
        }
    }
}
