//! The mail server of one project's settings: a pool of sessions, and each send bounded in time as a whole.

use std::net::IpAddr;
use std::sync::Mutex;
use std::time::Duration;

use lettre::Message;
use lettre::message::MultiPart;
use lettre::message::header::{HeaderName, HeaderValue};
use shared::outbound::{HttpClient, OutboundPolicy};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::config::{Security, SmtpConfig};
use super::error::{Failure, Progress, Step, outcome};
use super::session::{Envelope, Session, Trust};
use crate::provider::{Email, Outcome, one_click};

/// For a whole send, from finding the server to its last answer.
const SEND: Duration = shared::shutdown::CALL;
/// Servers close what is idle for a minute or so.
const IDLE: Duration = Duration::from_secs(20);
/// Maximum number of sessions with one server. Servers limit the connections from an address (Postfix: 50 by default).
const SESSIONS: usize = 32;
/// How long a mail waits for a session before it is deferred. Shorter than a drain together with [`SEND`].
const PATIENCE: Duration = Duration::from_secs(2);

struct Idle {
    session: Session,
    since: Instant,
}

/// Whose server it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Project,
    Operator,
}

pub struct Client {
    config: SmtpConfig,
    owner: Owner,
    /// Which addresses may be called.
    reachable: OutboundPolicy,
    /// Which addresses the operator exempts from the need for TLS.
    exempting: OutboundPolicy,
    trust: Trust,
    /// Limits the sessions in use.
    sessions: Semaphore,
    idle: Mutex<Vec<Idle>>,
}

impl Client {
    /// By the rules of who may be called and who is trusted that hold for HTTP.
    pub fn new(config: SmtpConfig, outbound: &HttpClient) -> Self {
        Self::owned_by(Owner::Project, outbound.policy().clone(), config, outbound)
    }

    /// For the operator's own server, which may have any address.
    pub fn of_operator(config: SmtpConfig, outbound: &HttpClient) -> Self {
        Self::owned_by(Owner::Operator, OutboundPolicy::anywhere(), config, outbound)
    }

    fn owned_by(owner: Owner, reachable: OutboundPolicy, config: SmtpConfig, outbound: &HttpClient) -> Self {
        let (exempting, trust) = (outbound.policy().clone(), Trust::of(outbound));
        let sessions = Semaphore::new(SESSIONS);
        Self { config, owner, reachable, exempting, trust, sessions, idle: Mutex::new(Vec::new()) }
    }

    /// Why nothing is sent to an address without TLS, if it is not.
    fn plain_refused(&self, ip: IpAddr) -> Option<&'static str> {
        if self.config.security != Security::None || self.exempting.exempts(ip) {
            return None;
        }
        match self.owner {
            Owner::Project if self.config.credentials.is_none() => None,
            Owner::Project => Some(
                "smtpSecurity is none: the password is sent without TLS only to addresses that OUTBOUND_ALLOW exempts",
            ),
            // Its mails hold links that open accounts: as secret as a password.
            Owner::Operator if ip.to_canonical().is_loopback() => None,
            Owner::Operator => Some(
                "SYSTEM_SMTP_URL says security=none: invitations are sent without TLS only to loopback and to addresses that OUTBOUND_ALLOW exempts",
            ),
        }
    }

    /// What tells the account from all others.
    pub fn account(&self) -> [&str; 4] {
        self.config.account()
    }

    /// Sends a mail: within [`PATIENCE`] for a session, and [`SEND`] after that.
    pub async fn send(&self, email: &Email) -> Outcome {
        let envelope = match self.envelope(email) {
            Ok(envelope) => envelope,
            Err(why) => return Outcome::Rejected(why),
        };
        let Ok(_session) = tokio::time::timeout(PATIENCE, self.sessions.acquire()).await else {
            let why = format!("all {SESSIONS} sessions with the mail server are in use");
            return Outcome::Limited { after: PATIENCE, why };
        };
        let progress = Progress::default();
        let sent = tokio::time::timeout(SEND, self.converse(&envelope, &progress)).await;
        match sent.unwrap_or(Err(Failure::Timeout)) {
            Ok(words) => Outcome::Accepted(provider_id(&words).unwrap_or_else(|| self.message_id(email))),
            Err(failure) => outcome(progress.step(), failure),
        }
    }

    async fn converse(&self, envelope: &Envelope, progress: &Progress) -> Result<String, Failure> {
        if let Some(mut session) = self.idle_session() {
            match session.hand_over(envelope, progress).await {
                // The server hung up while the session was idle: nothing was said yet, so a new one says it.
                Err(Failure::Broken(_) | Failure::Reply(421, _)) if progress.step().is_at_sender() => {}
                Err(failure) => return Err(failure),
                Ok(words) => {
                    self.keep(session);
                    return Ok(words);
                }
            }
        }
        progress.at(Step::Connect);
        let found = self.reachable.resolve(&self.config.host, self.config.port).await;
        let ip = found.map_err(|e| Failure::Host(e.to_string()))?;
        // Checked when it was saved; the name may lead elsewhere by now.
        if let Some(why) = self.plain_refused(ip) {
            return Err(Failure::Host(why.to_owned()));
        }
        let mut session = Session::open(&self.config, &self.trust, ip, progress).await?;
        let words = session.hand_over(envelope, progress).await?;
        self.keep(session);
        Ok(words)
    }

    fn idle_session(&self) -> Option<Session> {
        let mut idle = self.idle.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        idle.retain(|i| i.since.elapsed() < IDLE);
        idle.pop().map(|i| i.session)
    }

    fn keep(&self, session: Session) {
        let mut idle = self.idle.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if idle.len() < SESSIONS {
            idle.push(Idle { session, since: Instant::now() });
        }
    }

    /// Lets go of sessions that have been idle for long.
    pub fn reap(&self) {
        let mut idle = self.idle.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        idle.retain(|i| i.since.elapsed() < IDLE);
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
            .multipart(MultiPart::alternative_plain_html(email.text.clone(), email.html.clone()))
            .map_err(|e| e.to_string())?;
        let (from, to) = (self.config.from.email.clone(), email.to.email.clone());
        Ok(Envelope { from, to, mail: mail.formatted() })
    }
}

/// The id in an answer such as `2.0.0 Ok: queued as 4F2A1`.
fn provider_id(words: &str) -> Option<String> {
    let (_, rest) = words.split_once("queued as ")?;
    let id: String = rest.chars().take_while(|c| !c.is_whitespace() && !c.is_control()).take(100).collect();
    (!id.is_empty()).then_some(id)
}

#[cfg(test)]
mod tests {
    use shared::env::Env;

    use super::*;

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
            date: shared::clock::from_ms(1_700_000_000_000),
            unsubscribe: Some("https://example.com/unsubscribe/x".to_owned()),
        }
    }

    #[tokio::test]
    async fn a_mail_is_deferred_while_all_sessions_are_in_use() {
        let client = client();
        let _held = client.sessions.acquire_many(SESSIONS as u32).await.unwrap();
        tokio::time::pause();
        let outcome = client.send(&email("x")).await;
        assert!(matches!(outcome, Outcome::Limited { after: PATIENCE, .. }), "{outcome:?}");
    }

    #[test]
    fn a_mail_says_the_same_at_every_attempt() {
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
    fn a_subject_adds_no_header() {
        let text = String::from_utf8(client().envelope(&email("Hi\r\nBcc: x@example.com")).unwrap().mail).unwrap();
        assert!(!text.lines().any(|l| l.starts_with("Bcc")), "{text}");
    }

    #[tokio::test]
    async fn an_inner_address_is_refused_before_it_is_called() {
        assert!(matches!(client().send(&email("x")).await, Outcome::Misconfigured(why) if why.contains("127.0.0.1")));
    }

    #[tokio::test]
    async fn a_password_is_not_sent_without_tls_to_a_public_address() {
        let credentials = Some(("shop".to_owned(), "secret".to_owned()));
        // An address for documentation would be refused as such; nothing is sent to this one either.
        let config = SmtpConfig { credentials, ..config("1.1.1.1") };
        let client = Client::new(config, &HttpClient::from_env(&Env::default()).unwrap());
        assert!(matches!(client.send(&email("x")).await, Outcome::Misconfigured(why) if why.contains("smtpSecurity")));
    }

    #[tokio::test]
    async fn the_operators_server_needs_tls_outside_of_loopback() {
        let outbound = HttpClient::from_env(&Env::default()).unwrap();
        let send = async |host: &str| Client::of_operator(config(host), &outbound).send(&email("x")).await;
        for host in ["1.1.1.1", "10.0.0.1"] {
            assert!(
                matches!(send(host).await, Outcome::Misconfigured(why) if why.contains("SYSTEM_SMTP_URL")),
                "{host}"
            );
        }
        // Nobody listens there, but it was called.
        assert!(matches!(send("127.0.0.1").await, Outcome::Unavailable { .. }));
    }

    #[test]
    fn the_servers_id_is_found_in_its_answer() {
        assert_eq!(provider_id("2.0.0 Ok: queued as 4F2A1").as_deref(), Some("4F2A1"));
        assert_eq!(provider_id("OK"), None);
    }
}
