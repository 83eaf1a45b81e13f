//! The providers' servers: testkit's, with the moods that the plan sets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Fault, MailService, Received, Reply, SmsService, SmtpService, Vendor};
use uuid::Uuid;

/// Longer than the timeout of any call.
const TOO_LATE: Duration = Duration::from_secs(25);
/// One request in `EVERY` fails.
const EVERY: u64 = 2;

/// A fault of many requests for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
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

impl Mood {
    pub fn words(self) -> &'static str {
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
            Self::Throttled => Fault::Answer(Reply::json(429, &json!({ "message": "busy" })).with("retry-after", "1")),
            Self::Broken => Fault::Answer(Reply::json(500, &json!({ "message": "broken" }))),
            Self::Late => Fault::Slow(TOO_LATE),
            Self::Silent => Fault::Hang,
            Self::ClosedAfter => Fault::Reset,
            Self::ClosedBefore => Fault::Lost,
            Self::Refusing => Fault::Answer(Reply::json(503, &json!({ "message": "not now" }))),
        }
    }

    /// Returns the fault after the end of a mail.
    fn fault_of_mail(self) -> Fault {
        let says = |status, words: &str| Fault::Answer(Reply { body: words.to_owned(), ..Reply::empty(status) });
        match self {
            Self::Throttled => says(451, "4.7.1 Too many"),
            Self::Broken => Fault::GoAway,
            Self::Refusing => says(554, "5.7.1 Not this one"),
            other => other.fault(),
        }
    }
}

/// The mood of all providers, and how many requests it affected.
#[derive(Debug, Default)]
pub struct Temper {
    mood: Mutex<Option<Mood>>,
    asked: AtomicU64,
    felt: AtomicU64,
    /// Mails that were permanently refused.
    refused: Mutex<BTreeSet<Uuid>>,
}

impl Temper {
    pub fn set(&self, mood: Option<Mood>) {
        *self.mood.lock().unwrap_or_else(PoisonError::into_inner) = mood;
    }

    /// Returns the number of requests that failed.
    pub fn felt(&self) -> u64 {
        self.felt.load(Ordering::Relaxed)
    }

    /// Returns the messages that the mail server has permanently refused.
    pub fn refused(&self) -> BTreeSet<Uuid> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the mood if it affects this request.
    fn strikes(&self) -> Option<Mood> {
        let mood = (*self.mood.lock().unwrap_or_else(PoisonError::into_inner))?;
        let strikes = self.asked.fetch_add(1, Ordering::Relaxed).is_multiple_of(EVERY);
        self.felt.fetch_add(u64::from(strikes), Ordering::Relaxed);
        strikes.then_some(mood)
    }

    fn fault(&self) -> Option<Fault> {
        self.strikes().map(Mood::fault)
    }

    fn fault_of_mail(&self, mail: &str) -> Option<Fault> {
        let mood = self.strikes()?;
        if mood == Mood::Refusing {
            let id = message_in(mail).unwrap_or_else(|| panic!("no message ID in {mail:?}"));
            self.refused.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
        }
        Some(mood.fault_of_mail())
    }

    /// Whether the connection closes within a mail.
    fn hangs_up(&self) -> bool {
        let closes = *self.mood.lock().unwrap_or_else(PoisonError::into_inner) == Some(Mood::ClosedBefore);
        closes && self.strikes().is_some()
    }
}

/// A vendor's service that follows the mood.
pub struct Moody<V> {
    pub vendor: V,
    pub temper: Arc<Temper>,
}

impl<V: Vendor> Vendor for Moody<V> {
    fn answer(&self, request: &Received) -> Reply {
        self.vendor.answer(request)
    }

    fn fault(&self, _request: &Received) -> Option<Fault> {
        self.temper.fault()
    }

    fn keeps_requests(&self) -> bool {
        false
    }
}

/// Part of every text of a run, by which providers' servers identify the message.
pub const MARK: &str = "Ref:{{ message.id }}.";

/// Returns the message's ID in a text that a provider received.
pub fn message_in(text: &str) -> Option<Uuid> {
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
    let texts = sms.taken().into_iter().map(|mut form| form.remove("Body").unwrap_or_default());
    Copies { by_http: counted(mails.chain(texts)), by_smtp: counted(smtp.mails()) }
}

fn counted(texts: impl IntoIterator<Item = String>) -> BTreeMap<Uuid, u32> {
    let mut copies = BTreeMap::new();
    for text in texts {
        let id = message_in(&text).unwrap_or_else(|| panic!("no message ID in {text:?}"));
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

pub fn mail_service(temper: &Arc<Temper>) -> Moody<MailService> {
    Moody { vendor: MailService::new(API_KEY, "shop.example.com"), temper: temper.clone() }
}

pub fn sms_service(temper: &Arc<Temper>) -> Moody<SmsService> {
    Moody { vendor: SmsService::new(ACCOUNT, TOKEN, FROM), temper: temper.clone() }
}

pub async fn smtp_service(temper: &Arc<Temper>) -> SmtpService {
    let (at_end, within) = (temper.clone(), temper.clone());
    SmtpService::start_with(move |mail| at_end.fault_of_mail(mail), move || within.hangs_up()).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mail_that_was_refused_is_remembered() {
        let temper = Temper::default();
        temper.set(Some(Mood::Refusing));
        let mail = |n| format!("Subject: Hello\r\n\r\nRef:{}.\r\n", Uuid::from_u128(n));
        assert!(matches!(temper.fault_of_mail(&mail(1)), Some(Fault::Answer(reply)) if reply.status == 554));
        assert!(temper.fault_of_mail(&mail(2)).is_none());
        assert_eq!(temper.refused(), [Uuid::from_u128(1)].into());
        temper.set(Some(Mood::Throttled));
        assert!(!temper.hangs_up());
        assert!(matches!(temper.fault_of_mail(&mail(3)), Some(Fault::Answer(reply)) if reply.status == 451));
        assert_eq!(temper.refused().len(), 1);
        temper.set(Some(Mood::ClosedBefore));
        assert!((0..2).any(|_| temper.hangs_up()));
    }

    #[test]
    fn every_second_request_feels_the_mood_as_long_as_it_lasts() {
        let temper = Temper::default();
        assert!(temper.fault().is_none());
        temper.set(Some(Mood::Broken));
        let felt = (0..10).filter(|_| temper.fault().is_some()).count();
        assert_eq!((felt, temper.felt()), (5, 5));
        temper.set(None);
        assert!(temper.fault().is_none());
    }

    #[test]
    fn a_message_is_known_again() {
        let id = Uuid::from_u128(7);
        assert_eq!(message_in(&format!("Hello\nRef:{id}.\n")), Some(id));
        assert_eq!((message_in("Ref:7."), message_in("")), (None, None));
    }
}
