//! Client of one project's mail server: a pool of sessions, and a time limit for each send.

use std::net::IpAddr;
use std::sync::Mutex;
use std::time::Duration;

use http_client::{HttpClient, OutboundPolicy};
use lettre::Message;
use lettre::message::MultiPart;
use lettre::message::header::{HeaderName, HeaderValue};
use tokio::time::Instant;

use super::config::{Security, SmtpConfig};
use super::error::{Failure, Progress, Step, outcome};
use super::permits::{MAX_SESSIONS, Permits, SessionPermit};
use super::session::{Envelope, Session, Trust};
use crate::{Email, Outcome, one_click};

/// Time limit of a send, from resolving the host to the last response.
const SEND_TIMEOUT: Duration = kernel::shutdown::CALL_TIMEOUT;
/// Servers close connections that are idle for about a minute.
const MAX_IDLE: Duration = Duration::from_secs(20);

struct Idle {
    session: Session,
    since: Instant,
}

/// The owner of the mail server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Project,
    Operator,
}

pub struct Client {
    config: SmtpConfig,
    owner: Owner,
    /// Addresses that may be called.
    reachable: OutboundPolicy,
    /// Addresses that the operator exempts from TLS.
    exempting: OutboundPolicy,
    trust: Trust,
    permits: Permits,
    idle: Mutex<Vec<Idle>>,
}

impl Client {
    /// Creates a client with the outbound policy and the trusted authorities of HTTP calls.
    pub fn new(config: SmtpConfig, outbound: &HttpClient) -> Self {
        Self::owned_by(Owner::Project, outbound.policy().clone(), config, outbound)
    }

    /// Creates a client of the operator's own server, which may have any address.
    pub fn for_operator(config: SmtpConfig, outbound: &HttpClient) -> Self {
        Self::owned_by(Owner::Operator, OutboundPolicy::unrestricted(), config, outbound)
    }

    fn owned_by(owner: Owner, reachable: OutboundPolicy, config: SmtpConfig, outbound: &HttpClient) -> Self {
        let (exempting, trust) = (outbound.policy().clone(), Trust::of(outbound));
        let (permits, idle) = (Permits::new(), Mutex::new(Vec::new()));
        Self { config, owner, reachable, exempting, trust, permits, idle }
    }

    /// Returns why sending to an address without TLS is refused, if it is.
    fn plain_refused(&self, ip: IpAddr) -> Option<&'static str> {
        if self.config.security != Security::None || self.exempting.exempts(ip) {
            return None;
        }
        match self.owner {
            Owner::Project if self.config.credentials.is_none() => None,
            Owner::Project => Some(
                "smtpSecurity is none: the password is sent without TLS only to addresses that OUTBOUND_ALLOW exempts",
            ),
            // Invitations contain links that grant access: as secret as a password.
            Owner::Operator if ip.to_canonical().is_loopback() => None,
            Owner::Operator => Some(
                "SYSTEM_SMTP_URL says security=none: invitations are sent without TLS only to loopback and to addresses that OUTBOUND_ALLOW exempts",
            ),
        }
    }

    /// Returns what identifies the account.
    pub fn account(&self) -> [&str; 4] {
        self.config.account()
    }

    /// Waits for a session; the result is held during [`Self::send`].
    pub async fn permit(&self, is_urgent: bool) -> Result<SessionPermit<'_>, Outcome> {
        self.permits.acquire(is_urgent).await
    }

    /// Sends a mail, within [`SEND_TIMEOUT`].
    pub async fn send(&self, email: &Email) -> Outcome {
        let envelope = match self.envelope(email) {
            Ok(envelope) => envelope,
            Err(why) => return Outcome::Rejected(why),
        };
        let progress = Progress::default();
        let sent = tokio::time::timeout(SEND_TIMEOUT, self.transact(&envelope, &progress)).await;
        match sent.unwrap_or(Err(Failure::Timeout)) {
            Ok(text) => Outcome::Accepted(provider_id(&text).unwrap_or_else(|| self.message_id(email))),
            Err(failure) => outcome(progress.step(), failure),
        }
    }

    async fn transact(&self, envelope: &Envelope, progress: &Progress) -> Result<String, Failure> {
        if let Some(mut session) = self.idle_session() {
            match session.send(envelope, progress).await {
                // The server closed the idle session. Nothing was sent yet: use a new session.
                Err(Failure::Broken(_) | Failure::Reply(421, _)) if progress.step().is_at_sender() => {}
                Err(failure) => return Err(failure),
                Ok(text) => {
                    self.keep(session);
                    return Ok(text);
                }
            }
        }
        progress.reach(Step::Connect);
        let found = self.reachable.resolve(&self.config.host, self.config.port).await;
        let ip = found.map_err(|e| Failure::Host(e.to_string()))?;
        // Checked when the settings were saved; the name may resolve to another address now.
        if let Some(why) = self.plain_refused(ip) {
            return Err(Failure::Host(why.to_owned()));
        }
        let mut session = Session::open(&self.config, &self.trust, ip, progress).await?;
        let text = session.send(envelope, progress).await?;
        self.keep(session);
        Ok(text)
    }

    fn idle_session(&self) -> Option<Session> {
        let mut idle = self.idle.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        idle.retain(|i| i.since.elapsed() < MAX_IDLE);
        idle.pop().map(|i| i.session)
    }

    fn keep(&self, session: Session) {
        let mut idle = self.idle.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if idle.len() < MAX_SESSIONS {
            idle.push(Idle { session, since: Instant::now() });
        }
    }

    /// Closes sessions that have been idle for [`MAX_IDLE`].
    pub fn reap(&self) {
        let mut idle = self.idle.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        idle.retain(|i| i.since.elapsed() < MAX_IDLE);
    }

    fn message_id(&self, email: &Email) -> String {
        format!("<{}@{}>", email.id, self.config.from.email.domain())
    }

    fn envelope(&self, email: &Email) -> Result<Envelope, String> {
        let since_epoch = Duration::from_millis(email.date.as_millisecond().max(0).unsigned_abs());
        let mut mail = Message::builder()
            .message_id(Some(self.message_id(email)))
            .date(std::time::UNIX_EPOCH + since_epoch)
            .from(self.config.from.clone())
            .to(email.to.clone())
            .subject(email.subject.clone());
        for (name, value) in email.unsubscribe.iter().flat_map(|url| one_click(url)) {
            let name = HeaderName::new_from_ascii_str(name);
            mail = mail.raw_header(HeaderValue::new(name, value));
        }
        let mail = mail
            .multipart(MultiPart::alternative_plain_html(with_crlf(&email.text), with_crlf(&email.html)))
            .map_err(|e| e.to_string())?;
        let (from, to) = (self.config.from.email.clone(), email.to.email.clone());
        Ok(Envelope { from, to, mail: mail.formatted() })
    }
}

/// Ends each line with CRLF, in linear time; the library takes quadratic time for other line ends. A carriage return alone must not reach
/// the server (RFC 5322, section 2.3), which may take it for the end of a line.
fn with_crlf(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 16);
    let mut rest = text;
    while let Some(end) = rest.find(['\r', '\n']) {
        out.push_str(&rest[..end]);
        out.push_str("\r\n");
        let after = &rest[end..];
        rest = after.strip_prefix("\r\n").unwrap_or(&after[1..]);
    }
    out.push_str(rest);
    out
}

/// Returns the ID in a response such as `2.0.0 Ok: queued as 4F2A1`.
fn provider_id(text: &str) -> Option<String> {
    let (_, rest) = text.split_once("queued as ")?;
    let id: String = rest.chars().take_while(|c| !c.is_whitespace() && !c.is_control()).take(100).collect();
    (!id.is_empty()).then_some(id)
}

#[cfg(test)]
mod tests {
    use kernel::env::Env;

    use super::*;

    #[test]
    fn lines_end_with_crlf() {
        for (text, expected) in [
            ("", ""),
            ("a", "a"),
            ("a\nb\r\nc\rd\n", "a\r\nb\r\nc\r\nd\r\n"),
            ("\r\r\n\n", "\r\n\r\n\r\n"),
            ("é\r.\rü", "é\r\n.\r\nü"),
        ] {
            assert_eq!(with_crlf(text), expected);
        }
    }

    fn config(host: &str) -> SmtpConfig {
        let from = "The Shop <shop@mail.example.com>".parse().unwrap();
        SmtpConfig { host: host.into(), port: 9, security: Security::None, credentials: None, from }
    }

    fn client() -> Client {
        Client::new(config("127.0.0.1"), &HttpClient::from_env(&Env::default()).unwrap())
    }

    fn email(subject: &str) -> Email {
        Email {
            id: uuid::Uuid::from_u128(7),
            to: "Ann <ann@example.com>".parse().unwrap(),
            subject: subject.to_owned(),
            html: "<p>Grüße 👋</p>".to_owned(),
            text: "Grüße 👋".to_owned(),
            date: kernel::clock::from_ms(1_700_000_000_000),
            unsubscribe: Some("https://example.com/unsubscribe/x".to_owned()),
        }
    }

    #[test]
    fn mail_is_the_same_at_every_attempt() {
        let mail = client().envelope(&email("Hello")).unwrap().mail;
        assert!(mail.is_ascii());
        let text = String::from_utf8(mail).unwrap();
        assert!(text.contains("Message-ID: <00000000-0000-0000-0000-000000000007@mail.example.com>\r\n"), "{text}");
        assert!(text.contains("Date: Tue, 14 Nov 2023 22:13:20 +0000\r\n"), "{text}");
        assert!(text.contains("multipart/alternative"), "{text}");
        assert!(text.contains("List-Unsubscribe: <https://example.com/unsubscribe/x>\r\n"), "{text}");
        assert!(text.contains("List-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n"), "{text}");
    }

    #[test]
    fn subject_cannot_add_a_header() {
        let text = String::from_utf8(client().envelope(&email("Hi\r\nBcc: x@example.com")).unwrap().mail).unwrap();
        assert!(!text.lines().any(|l| l.starts_with("Bcc")), "{text}");
    }

    #[tokio::test]
    async fn internal_address_is_refused_before_connecting() {
        assert!(matches!(client().send(&email("x")).await, Outcome::Misconfigured(why) if why.contains("127.0.0.1")));
    }

    #[tokio::test]
    async fn password_is_not_sent_without_tls_to_a_public_address() {
        let credentials = Some(("shop".to_owned(), "secret".to_owned()));
        // A documentation address would be refused by the outbound policy. Nothing is sent to this one either.
        let config = SmtpConfig { credentials, ..config("1.1.1.1") };
        let client = Client::new(config, &HttpClient::from_env(&Env::default()).unwrap());
        assert!(matches!(client.send(&email("x")).await, Outcome::Misconfigured(why) if why.contains("smtpSecurity")));
    }

    #[tokio::test]
    async fn the_operators_server_needs_tls_outside_of_loopback() {
        let outbound = HttpClient::from_env(&Env::default()).unwrap();
        let send = async |host: &str| Client::for_operator(config(host), &outbound).send(&email("x")).await;
        for host in ["1.1.1.1", "10.0.0.1"] {
            assert!(
                matches!(send(host).await, Outcome::Misconfigured(why) if why.contains("SYSTEM_SMTP_URL")),
                "{host}"
            );
        }
        // Nothing listens there, but the address was called.
        assert!(matches!(send("127.0.0.1").await, Outcome::Unavailable { .. }));
    }

    #[test]
    fn server_id_is_found_in_the_response() {
        assert_eq!(provider_id("2.0.0 Ok: queued as 4F2A1").as_deref(), Some("4F2A1"));
        assert_eq!(provider_id("OK"), None);
    }
}
