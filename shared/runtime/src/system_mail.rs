//! The installation's own mail server, which sends invitations. It belongs to the operator. No project's channel is
//! used, because a channel's owner could read the links in the emails.

use std::fmt;

use http::Uri;

use http_client::OutboundPolicy;
use kernel::env::{Env, EnvError};
use kernel::percent;

const URL: &str = "SYSTEM_SMTP_URL";
const FROM: &str = "SYSTEM_MAIL_FROM";
const URL_FORMS: &str = "smtps://user:password@host, smtp://user:password@host (STARTTLS), or smtp://host?security=none; \
                         in the password, characters such as @ / # are percent-encoded";
const PLAIN_ALLOWED: &str = "security=none for a server on loopback or in OUTBOUND_ALLOW; otherwise smtps://user:password@host, or smtp://user:password@host for STARTTLS";
const FROM_FORMS: &str = "an address such as rekindle@example.com or Rekindle <rekindle@example.com>";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemSecurity {
    /// For loopback and addresses that `OUTBOUND_ALLOW` exempts.
    None,
    StartTls,
    Tls,
}

#[derive(Clone, PartialEq, Eq)]
pub struct SystemMail {
    pub host: String,
    pub port: u16,
    pub security: SystemSecurity,
    /// User name and password.
    pub credentials: Option<(String, String)>,
    pub from_email: String,
    pub from_name: Option<String>,
}

impl fmt::Debug for SystemMail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SystemMail").field("host", &self.host).field("port", &self.port).finish_non_exhaustive()
    }
}

impl SystemMail {
    /// Reads `SYSTEM_SMTP_URL` and `SYSTEM_MAIL_FROM`, both or neither. Returns `None` if neither is set.
    pub fn from_env(env: &Env) -> Result<Option<Self>, EnvError> {
        let (url, from) = match (env.get(URL), env.get(FROM)) {
            (None, None) => return Ok(None),
            (Some(url), Some(from)) => (url, from),
            (Some(_), None) => return Err(wrong(FROM, "is missing", FROM_FORMS)),
            (None, Some(_)) => return Err(wrong(URL, "is missing", URL_FORMS)),
        };
        // The URL may contain a password, so the error does not show it.
        let Some(server) = server(url) else { return Err(wrong(URL, "is not a valid SMTP URL", URL_FORMS)) };
        let Some((from_name, from_email)) = sender(from) else {
            return Err(wrong(FROM, "is not an address", FROM_FORMS));
        };
        Ok(Some(Self { from_email, from_name, ..server }))
    }

    /// Refuses a server that is used without TLS, unless it is on loopback or `outbound` exempts it: the emails contain
    /// links that open accounts. A host that cannot be resolved is not refused: delivery checks its address again for
    /// each email.
    pub async fn check_security(&self, outbound: &OutboundPolicy) -> Result<(), EnvError> {
        if self.security != SystemSecurity::None {
            return Ok(());
        }
        match OutboundPolicy::unrestricted().resolve(&self.host, self.port).await {
            Ok(ip) if !ip.to_canonical().is_loopback() && !outbound.exempts(ip) => {
                Err(wrong(URL, &format!("sends mail to {} ({ip}) without TLS", self.host), PLAIN_ALLOWED))
            }
            _ => Ok(()),
        }
    }
}

fn wrong(name: &str, problem: &str, allowed: &'static str) -> EnvError {
    EnvError { name: name.to_owned(), problem: problem.to_owned(), allowed }
}

/// Parses a URL into the server, without a sender.
fn server(url: &str) -> Option<SystemMail> {
    let uri: Uri = url.parse().ok()?;
    let security = match (uri.scheme_str()?, uri.query()) {
        ("smtps", None) => SystemSecurity::Tls,
        ("smtp", None) => SystemSecurity::StartTls,
        ("smtp", Some("security=none")) => SystemSecurity::None,
        _ => return None,
    };
    let authority = uri.authority()?;
    let (login, server) = authority.as_str().rsplit_once('@').map_or((None, authority.as_str()), |(l, s)| (Some(l), s));
    let credentials = match login {
        None => None,
        Some(login) => {
            let (name, password) = login.split_once(':')?;
            Some((percent::decode(name)?, percent::decode(password)?))
        }
    };
    let port = match (server.strip_prefix(authority.host())?, security) {
        ("", SystemSecurity::None) => 25,
        ("", SystemSecurity::StartTls) => 587,
        ("", SystemSecurity::Tls) => 465,
        (port, _) => port.strip_prefix(':')?.parse().ok().filter(|port| *port > 0)?,
    };
    let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
    let is_complete = !host.is_empty() && matches!(uri.path(), "" | "/");
    is_complete.then(|| SystemMail { host, port, security, credentials, from_email: String::new(), from_name: None })
}

fn sender(text: &str) -> Option<(Option<String>, String)> {
    let (name, email) = match text.strip_suffix('>').and_then(|rest| rest.rsplit_once('<')) {
        Some((name, email)) => (Some(name.trim().trim_matches('"').to_owned()), email),
        None => (None, text),
    };
    domain::email::is_address(email).then(|| (name.filter(|name| !name.is_empty()), email.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str, from: &str) -> Result<Option<SystemMail>, EnvError> {
        SystemMail::from_env(&Env::from_pairs([(URL, url), (FROM, from)]))
    }

    #[test]
    fn url_scheme_selects_security() {
        for (url, host, port, security) in [
            ("smtps://mail.example.com", "mail.example.com", 465, SystemSecurity::Tls),
            ("smtp://mail.example.com", "mail.example.com", 587, SystemSecurity::StartTls),
            ("smtp://mail.example.com:2587/", "mail.example.com", 2587, SystemSecurity::StartTls),
            ("smtp://127.0.0.1:2525?security=none", "127.0.0.1", 2525, SystemSecurity::None),
            ("smtp://[::1]?security=none", "::1", 25, SystemSecurity::None),
        ] {
            let mail = read(url, "r@example.com").unwrap().unwrap();
            assert_eq!((mail.host.as_str(), mail.port, mail.security, mail.credentials), (host, port, security, None));
        }
    }

    #[test]
    fn credentials_are_percent_decoded_and_redacted() {
        let mail =
            read("smtps://ada%40example.com:p%3A%40ss@mail.example.com:465", "Ada <ada@example.com>").unwrap().unwrap();
        assert_eq!(mail.credentials, Some(("ada@example.com".to_owned(), "p:@ss".to_owned())));
        assert_eq!((mail.from_name.as_deref(), mail.from_email.as_str()), (Some("Ada"), "ada@example.com"));
        assert!(!format!("{mail:?}").contains("ss"));
        let error = read("smtps://ada:hush@mail.example.com/x", "ada@example.com").unwrap_err().to_string();
        assert!(!error.contains("hush"), "{error}");
    }

    #[test]
    fn url_and_sender_must_be_set_together() {
        assert_eq!(read("", ""), Ok(None));
        assert_eq!(read("smtp://a.example", "").unwrap_err().name, FROM);
        assert_eq!(read("", "a@b.example").unwrap_err().name, URL);
    }

    #[tokio::test]
    async fn server_without_tls_is_rejected_unless_local_or_exempt() {
        let check = async |url: &str, allow: &str| {
            let env = Env::from_pairs([(URL, url), (FROM, "r@example.com"), ("OUTBOUND_ALLOW", allow)]);
            let mail = SystemMail::from_env(&env).unwrap().unwrap();
            mail.check_security(&OutboundPolicy::from_env(&env).unwrap()).await
        };
        for (url, allow) in [
            ("smtp://127.0.0.1:2525?security=none", ""),
            ("smtp://[::1]?security=none", ""),
            ("smtp://localhost:2525?security=none", ""),
            ("smtp://10.1.2.3?security=none", "10.1.0.0/16"),
            ("smtp://192.0.2.1", ""),
            ("smtps://192.0.2.1", ""),
        ] {
            assert_eq!(check(url, allow).await, Ok(()), "{url}");
        }
        for (url, allow) in [
            ("smtp://ada:hush@192.0.2.1?security=none", ""),
            ("smtp://ada:hush@192.0.2.1?security=none", "10.1.0.0/16"),
            ("smtp://ada:hush@[2001:db8::1]?security=none", "127.0.0.0/8"),
        ] {
            let error = check(url, allow).await.unwrap_err();
            assert_eq!(error.name, URL);
            let error = error.to_string();
            assert!(error.contains("without TLS") && error.contains("OUTBOUND_ALLOW"), "{error}");
            assert!(!error.contains("hush"), "{error}");
        }
    }

    #[test]
    fn invalid_value_error_names_variable() {
        for url in [
            "mail.example.com",
            "http://a.example",
            "smtp://",
            "smtps://a.example?security=none",
            "smtp://ada@a.example",
            "smtp://a.example:0",
            "smtp://a.example:99999",
        ] {
            assert_eq!(read(url, "a@b.example").unwrap_err().name, URL, "{url}");
        }
        for from in ["ada", "Ada <ada>", "a@b.c, d@e.f"] {
            assert_eq!(read("smtp://a.example", from).unwrap_err().name, FROM, "{from}");
        }
    }
}
