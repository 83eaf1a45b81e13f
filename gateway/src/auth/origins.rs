//! Origins from which browsers may use a public key.
//!
//! Only browsers enforce `Origin`: any other program with the key can send any origin, or none.

/// Maximum length of an origin, in bytes.
const MAX_BYTES: usize = 300;
/// The wildcard for any subdomain.
const ANY_SUBDOMAIN: &str = "*.";

/// Returns the origin as browsers write it, or the reason why it is not one.
///
/// `https://*.example.com` matches every subdomain of `example.com`.
pub fn normalized(text: &str) -> Result<String, &'static str> {
    const EXPECTED: &str =
        "must be an origin such as https://shop.example.com: scheme, host and optional port, without a path";
    let text = text.trim();
    if text.len() > MAX_BYTES {
        return Err("must have at most 300 characters");
    }
    let (scheme, rest) = text.split_once("://").ok_or(EXPECTED)?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
    if !is_scheme || rest.contains(['/', '?', '#', '@', '\\']) || rest.contains(char::is_whitespace) {
        return Err(EXPECTED);
    }
    let scheme = scheme.to_ascii_lowercase();
    let is_web = scheme == "http" || scheme == "https";
    let (any, host) = rest.strip_prefix(ANY_SUBDOMAIN).map_or(("", rest), |host| (ANY_SUBDOMAIN, host));
    if host.contains('*') {
        return Err("may have `*` only in place of all subdomains, such as https://*.example.com");
    }
    let (host, port) =
        if is_web { web_host(&scheme, host).ok_or(EXPECTED)? } else { (host.to_ascii_lowercase(), None) };
    if host.is_empty() {
        return Err(EXPECTED);
    }
    if !any.is_empty() && (!is_web || !host.contains('.') || host.parse::<std::net::IpAddr>().is_ok()) {
        return Err("must name a domain after `*.`, such as https://*.example.com");
    }
    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
    Ok(format!("{scheme}://{any}{host}{port}"))
}

/// Returns the host in lower case and Punycode, and the port unless it is the scheme's default.
fn web_host(scheme: &str, host: &str) -> Option<(String, Option<u16>)> {
    let url = url::Url::parse(&format!("{scheme}://{host}")).ok()?;
    Some((url.host_str()?.to_owned(), url.port()))
}

/// Returns whether a request with this `Origin` may use a key. An empty list allows every origin.
pub fn is_allowed(allowed: &[String], origin: &[u8]) -> bool {
    if allowed.is_empty() {
        return true;
    }
    let Ok(origin) = std::str::from_utf8(origin) else { return false };
    // Browsers send it in lower case; lowering other clients' values does no harm.
    let origin = origin.to_ascii_lowercase();
    allowed.iter().any(|allowed| matches(allowed, &origin))
}

fn matches(allowed: &str, origin: &str) -> bool {
    let Some((scheme, domain)) = allowed.split_once("://*") else { return allowed == origin };
    // For `https://*.example.com`, the origin must end in `.example.com` and have at least one label before it.
    let subdomain = origin.strip_prefix(scheme).and_then(|rest| rest.strip_prefix("://"));
    subdomain.and_then(|rest| rest.strip_suffix(domain)).is_some_and(|sub| !sub.is_empty() && !sub.contains(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_normalized_as_browsers_write_them() {
        for (given, kept) in [
            ("https://shop.example.com", "https://shop.example.com"),
            (" HTTPS://Shop.Example.com:443 ", "https://shop.example.com"),
            ("http://localhost:3000", "http://localhost:3000"),
            ("http://localhost:80", "http://localhost"),
            ("https://bücher.example", "https://xn--bcher-kva.example"),
            ("http://[2001:DB8::1]:8080", "http://[2001:db8::1]:8080"),
            ("https://*.Example.com", "https://*.example.com"),
            ("https://*.example.com:8443", "https://*.example.com:8443"),
            ("capacitor://localhost", "capacitor://localhost"),
            ("chrome-extension://abcdef", "chrome-extension://abcdef"),
        ] {
            assert_eq!(normalized(given).as_deref(), Ok(kept), "{given}");
        }
    }

    #[test]
    fn invalid_origin_is_refused() {
        for wrong in [
            "",
            "*",
            "null",
            "example.com",
            "https://",
            "://example.com",
            "https://example.com/",
            "https://example.com/path",
            "https://example.com?x",
            "https://user@example.com",
            "https://exa mple.com",
            "https://*",
            "https://*.com",
            "https://*.",
            "https://*.1.2.3.4",
            "https://a.*.example.com",
            "https://*example.com",
            "https://example.com:99999",
            "capacitor://*.local.host",
            "1a://example.com",
        ] {
            assert!(normalized(wrong).is_err(), "{wrong:?}");
        }
        assert!(normalized(&format!("https://{}.example", "a".repeat(300))).is_err());
    }

    #[test]
    fn only_exact_origins_and_subdomains_match() {
        let allowed = ["https://shop.example.com".to_owned(), "https://*.example.org:8443".to_owned()];
        for origin in ["https://shop.example.com", "https://a.example.org:8443", "https://a.b.example.org:8443"] {
            assert!(is_allowed(&allowed, origin.as_bytes()), "{origin}");
        }
        for origin in [
            "",
            "null",
            "http://shop.example.com",
            "https://shop.example.com:8443",
            "https://shop.example.com.evil.test",
            "https://example.org:8443",
            "https://.example.org:8443",
            "https://a.example.org",
            "https://evil.test:1.example.org:8443",
            "https://aexample.org:8443",
            "http://a.example.org:8443",
        ] {
            assert!(!is_allowed(&allowed, origin.as_bytes()), "{origin}");
        }
        assert!(is_allowed(&[], b"https://anything.example") && !is_allowed(&allowed, b"\xff"));
    }
}
