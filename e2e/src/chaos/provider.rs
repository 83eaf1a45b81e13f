//! The providers' servers: testkit's, with the moods that the plan sets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Fault, MailService, Received, Reply, SmsService, SmtpService, Vendor};
use uuid::Uuid;

/// Longer than the timeout of any call.
const LATE_RESPONSE_DELAY: Duration = Duration::from_secs(25);
/// One request in `FAULT_EVERY` fails.
const FAULT_EVERY: u64 = 2;

/// A fault of many requests for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultMode {
    /// 429 with `Retry-After`.
    Throttled,
    /// 500.
    Broken,
    /// Processed, and answered after the caller's deadline.
    Late,
    /// Processed, and never answered.
    Silent,
    /// Processed, and the connection closed without a response.
    ClosedAfter,
    /// Like `ClosedAfter`, but not processed. A mail server closes the connection within a mail, or after its end.
    ClosedBefore,
    /// A mail server permanently refuses the mail, so that it is not repeated. The others respond with 503.
    Refusing,
}

impl FaultMode {
    pub fn description(self) -> &'static str {
        match self {
            Self::Throttled => "respond with 429",
            Self::Broken => "respond with 500",
            Self::Late => "respond too late",
            Self::Silent => "accept and never respond",
            Self::ClosedAfter => "accept and close",
            Self::ClosedBefore => "close",
            Self::Refusing => "reject",
        }
    }

    fn fault(self) -> Fault {
        match self {
            Self::Throttled => Fault::Respond(Reply::json(429, &json!({ "message": "busy" })).with("retry-after", "1")),
            Self::Broken => Fault::Respond(Reply::json(500, &json!({ "message": "broken" }))),
            Self::Late => Fault::Slow(LATE_RESPONSE_DELAY),
            Self::Silent => Fault::Hang,
            Self::ClosedAfter => Fault::Reset,
            Self::ClosedBefore => Fault::Lost,
            Self::Refusing => Fault::Respond(Reply::json(503, &json!({ "message": "not now" }))),
        }
    }

    /// Returns the fault after the end of a mail.
    fn fault_of_mail(self) -> Fault {
        let response = |status, words: &str| Fault::Respond(Reply { body: words.to_owned(), ..Reply::empty(status) });
        match self {
            Self::Throttled => response(451, "4.7.1 Too many"),
            Self::Broken => Fault::GoAway,
            Self::Refusing => response(554, "5.7.1 Not this one"),
            other => other.fault(),
        }
    }
}

/// The mode of all providers, and how many requests it affected.
#[derive(Debug, Default)]
pub struct FaultInjector {
    mode: Mutex<Option<FaultMode>>,
    requests: AtomicU64,
    affected: AtomicU64,
    /// Mails that were permanently rejected.
    rejected: Mutex<BTreeSet<Uuid>>,
}

impl FaultInjector {
    pub fn set(&self, mode: Option<FaultMode>) {
        *self.mode.lock().unwrap_or_else(PoisonError::into_inner) = mode;
    }

    /// Returns the number of requests that failed.
    pub fn affected(&self) -> u64 {
        self.affected.load(Ordering::Relaxed)
    }

    /// Returns the messages that the mail server has permanently rejected.
    pub fn rejected(&self) -> BTreeSet<Uuid> {
        self.rejected.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the mode if it affects this request.
    fn affecting_mode(&self) -> Option<FaultMode> {
        let mode = (*self.mode.lock().unwrap_or_else(PoisonError::into_inner))?;
        let affects = self.requests.fetch_add(1, Ordering::Relaxed).is_multiple_of(FAULT_EVERY);
        self.affected.fetch_add(u64::from(affects), Ordering::Relaxed);
        affects.then_some(mode)
    }

    fn fault(&self) -> Option<Fault> {
        self.affecting_mode().map(FaultMode::fault)
    }

    fn fault_of_mail(&self, mail: &str) -> Option<Fault> {
        let mode = self.affecting_mode()?;
        if mode == FaultMode::Refusing {
            let id = message_id_in(mail).unwrap_or_else(|| panic!("no message ID in {mail:?}"));
            self.rejected.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
        }
        Some(mode.fault_of_mail())
    }

    /// Whether the connection closes within a mail.
    fn closes_early(&self) -> bool {
        let closes = *self.mode.lock().unwrap_or_else(PoisonError::into_inner) == Some(FaultMode::ClosedBefore);
        closes && self.affecting_mode().is_some()
    }
}

/// A vendor's service that follows the mode.
pub struct WithFaults<V> {
    pub vendor: V,
    pub fault_injector: Arc<FaultInjector>,
}

impl<V: Vendor> Vendor for WithFaults<V> {
    fn respond(&self, request: &Received) -> Reply {
        self.vendor.respond(request)
    }

    fn fault(&self, _request: &Received) -> Option<Fault> {
        self.fault_injector.fault()
    }

    fn keeps_requests(&self) -> bool {
        false
    }
}

/// Part of every text of a run, by which providers' servers identify the message.
pub const MESSAGE_MARKER: &str = "Ref:{{ message.id }}.";

/// Returns the message's ID in a text that a provider received.
pub fn message_id_in(text: &str) -> Option<Uuid> {
    let at = text.find("Ref:")? + 4;
    Uuid::try_parse(text.get(at..at + 36)?).ok()
}

/// How often each message was processed.
pub struct Copies {
    pub by_http: BTreeMap<Uuid, u32>,
    pub by_smtp: BTreeMap<Uuid, u32>,
}

/// Counts how often each message was processed, by the logs of the mail service (which deduplicates by key), the SMS service and the mail
/// server (which do not).
///
/// Panics on a text without an ID.
pub fn copies(mail: &MailService, sms: &SmsService, smtp: &SmtpService) -> Copies {
    let mails = mail.mails().into_iter().map(|mail| mail["text"].as_str().unwrap_or_default().to_owned());
    let texts = sms.accepted().into_iter().map(|mut form| form.remove("Body").unwrap_or_default());
    Copies { by_http: count_ids(mails.chain(texts)), by_smtp: count_ids(smtp.mails()) }
}

fn count_ids(texts: impl IntoIterator<Item = String>) -> BTreeMap<Uuid, u32> {
    let mut copies = BTreeMap::new();
    for text in texts {
        let id = message_id_in(&text).unwrap_or_else(|| panic!("no message ID in {text:?}"));
        *copies.entry(id).or_default() += 1;
    }
    copies
}

/// Returns channel settings for the mail service and the SMS service.
pub fn channels() -> Value {
    json!({
        "emailProvider": "MAILPROVIDER", "mailproviderApiKey": API_KEY, "mailproviderFromEmail": "hello@shop.example.com",
        "smsAccountId": ACCOUNT, "smsAuthToken": TOKEN, "smsFromNumber": FROM,
    })
}

/// Returns the settings of the second project, which sends its mail by SMTP.
pub fn channels_by_smtp(port: u16) -> Value {
    json!({
        "emailProvider": "SMTP", "smtpHost": "127.0.0.1", "smtpPort": port, "smtpSecurity": "none",
        "mailproviderFromEmail": "hello@shop.example.com",
    })
}

const API_KEY: &str = "re_test";
const ACCOUNT: &str = "AC1";
const TOKEN: &str = "token";
const FROM: &str = "+15005550006";

pub fn mail_service(fault_injector: &Arc<FaultInjector>) -> WithFaults<MailService> {
    WithFaults { vendor: MailService::new(API_KEY, "shop.example.com"), fault_injector: fault_injector.clone() }
}

pub fn sms_service(fault_injector: &Arc<FaultInjector>) -> WithFaults<SmsService> {
    WithFaults { vendor: SmsService::new(ACCOUNT, TOKEN, FROM), fault_injector: fault_injector.clone() }
}

pub async fn smtp_service(fault_injector: &Arc<FaultInjector>) -> SmtpService {
    let (at_end, within) = (fault_injector.clone(), fault_injector.clone());
    SmtpService::start_with(move |mail| at_end.fault_of_mail(mail), move || within.closes_early()).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejected_mails_are_recorded() {
        let fault_injector = FaultInjector::default();
        fault_injector.set(Some(FaultMode::Refusing));
        let mail = |n| format!("Subject: Hello\r\n\r\nRef:{}.\r\n", Uuid::from_u128(n));
        assert!(matches!(fault_injector.fault_of_mail(&mail(1)), Some(Fault::Respond(reply)) if reply.status == 554));
        assert!(fault_injector.fault_of_mail(&mail(2)).is_none());
        assert_eq!(fault_injector.rejected(), [Uuid::from_u128(1)].into());
        fault_injector.set(Some(FaultMode::Throttled));
        assert!(!fault_injector.closes_early());
        assert!(matches!(fault_injector.fault_of_mail(&mail(3)), Some(Fault::Respond(reply)) if reply.status == 451));
        assert_eq!(fault_injector.rejected().len(), 1);
        fault_injector.set(Some(FaultMode::ClosedBefore));
        assert!((0..2).any(|_| fault_injector.closes_early()));
    }

    #[test]
    fn every_second_request_is_affected_while_the_mode_is_set() {
        let fault_injector = FaultInjector::default();
        assert!(fault_injector.fault().is_none());
        fault_injector.set(Some(FaultMode::Broken));
        let affected = (0..10).filter(|_| fault_injector.fault().is_some()).count();
        assert_eq!((affected, fault_injector.affected()), (5, 5));
        fault_injector.set(None);
        assert!(fault_injector.fault().is_none());
    }

    #[test]
    fn message_id_is_found_in_text() {
        let id = Uuid::from_u128(7);
        assert_eq!(message_id_in(&format!("Hello\nRef:{id}.\n")), Some(id));
        assert_eq!((message_id_in("Ref:7."), message_id_in("")), (None, None));
    }
}
