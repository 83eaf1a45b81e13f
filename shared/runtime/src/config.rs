//! Configuration that several programs share: one struct per concern, read once.

use std::net::SocketAddr;

use kernel::env::{Env, EnvError};

/// Reads `PUBLIC_BASE_URL`: the address at which clients and users reach this installation, without a trailing slash.
pub fn public_base_url(env: &Env, default: &str) -> Result<String, EnvError> {
    const NAME: &str = "PUBLIC_BASE_URL";
    let url = env.text(NAME, default).trim_end_matches('/').to_owned();
    let host = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    // The URL is used in the headers and links of emails.
    let is_plain = |b: u8| b.is_ascii_graphic() && !b"<>\"?#".contains(&b);
    if host.is_some_and(|host| !host.is_empty() && host.bytes().all(is_plain)) {
        return Ok(url);
    }
    let problem = format!("{url:?} is not a valid base URL");
    Err(EnvError { name: NAME.to_owned(), problem, allowed: "an http:// or https:// URL" })
}

/// The address at which a process serves `/healthz`, `/readyz` and `/metrics`.
#[derive(Clone, Copy, Debug)]
pub struct AdminConfig {
    pub addr: SocketAddr,
}

impl AdminConfig {
    /// Reads `ADMIN_ADDR`, by default 127.0.0.1 and the program's own port.
    pub fn from_env(env: &Env, default_port: u16) -> Result<Self, EnvError> {
        let default = SocketAddr::from(([127, 0, 0, 1], default_port));
        Ok(Self { addr: env.parse("ADMIN_ADDR", default, "an address such as 127.0.0.1:9101")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_base_url_is_safe_in_headers() {
        let read = |text: &str| public_base_url(&Env::from_pairs([("PUBLIC_BASE_URL", text)]), "http://127.0.0.1:8080");
        for (given, url) in [
            ("", "http://127.0.0.1:8080"),
            ("https://example.com/", "https://example.com"),
            ("http://[::1]:8080/a/b//", "http://[::1]:8080/a/b"),
        ] {
            assert_eq!(read(given).as_deref(), Ok(url));
        }
        for wrong in [
            "ftp://x",
            "example.com",
            "https://",
            "https://a b",
            "https://a>,<mailto:x@y.z",
            "https://a\r\nBcc: x@y.z",
            "https://a\"b",
            "https://a?b",
            "https://a#b",
            "https://ä",
        ] {
            assert_eq!(read(wrong).unwrap_err().name, "PUBLIC_BASE_URL", "{wrong}");
        }
    }
}
