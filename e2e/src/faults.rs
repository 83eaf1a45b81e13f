//! A run of sends most of which fail at first: the fault of each send, and what the providers' servers received.
//! Every send has its number in its text. By the number, a provider's server recognises the send, whatever its address, and fails it the
//! first time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::json;
use testkit::{Fault, Received, Reply, Vendor};

/// The fault of a send's first attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// 429 with `Retry-After`; 451 from a mail server.
    Throttled,
    /// 500; 421 from a mail server.
    Unavailable,
    /// Processed, and never answered.
    Hang,
    /// Processed, and the connection (over HTTP/2, the stream) breaks.
    ResetAfter,
    /// The connection (over HTTP/2, the stream) breaks, and the send was not processed.
    ResetBefore,
    /// GOAWAY of HTTP/2.
    Leaving,
    /// Processed, and answered late but within the time limit.
    Slow,
    /// The certificate is for another host, for every caller.
    WrongName,
}

/// A tenth of all sends each; the others succeed.
pub const KINDS: [Kind; 8] = [
    Kind::Throttled,
    Kind::Unavailable,
    Kind::Hang,
    Kind::ResetAfter,
    Kind::ResetBefore,
    Kind::Leaving,
    Kind::Slow,
    Kind::WrongName,
];
const SENDS_PER_CYCLE: u64 = 10;
const SLOW_DELAY: Duration = Duration::from_secs(3);

impl Kind {
    /// Whether the client cannot know if the send was processed.
    pub fn is_ambiguous(self) -> bool {
        matches!(self, Self::Hang | Self::ResetAfter | Self::ResetBefore)
    }

    fn fault(self) -> Option<Fault> {
        match self {
            Self::Throttled => {
                Some(Fault::Respond(Reply::json(429, &json!({ "message": "busy" })).with("retry-after", "1")))
            }
            Self::Unavailable => Some(Fault::Respond(Reply::json(500, &json!({ "message": "broken" })))),
            Self::Hang => Some(Fault::Hang),
            Self::ResetAfter => Some(Fault::Reset),
            Self::ResetBefore => Some(Fault::Lost),
            Self::Leaving => Some(Fault::GoAway),
            Self::Slow => Some(Fault::Slow(SLOW_DELAY)),
            // A fault of the connection, not of the request.
            Self::WrongName => None,
        }
    }
}

/// The provider of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProviderKind {
    MailHttp,
    Smtp,
    Sms,
    Gateway,
    Apns,
    ThirdParty,
}

impl ProviderKind {
    /// Whether it deduplicates by key.
    pub fn has_keys(self) -> bool {
        matches!(self, Self::MailHttp | Self::ThirdParty)
    }

    /// Returns the event that makes an automation of the project send by this provider, and the step that sends.
    pub fn event(self) -> (&'static str, &'static str) {
        match self {
            Self::MailHttp | Self::Smtp => ("mail", "EMAIL"),
            Self::Sms => ("text", "SMS"),
            Self::Gateway | Self::Apns | Self::ThirdParty => ("push", "PUSH"),
        }
    }
}

/// One send of the run, derived entirely from its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedSend {
    pub number: u64,
    pub project: u64,
    pub provider: ProviderKind,
    pub kind: Option<Kind>,
}

impl PlannedSend {
    /// Creates a send for a run over `projects` projects, the last of which is for the sends that get the wrong certificate. Even-numbered
    /// projects send mail over HTTP, the others by SMTP.
    pub fn new(number: u64, projects: u64) -> Self {
        let kind = KINDS.get(usize::try_from(number % SENDS_PER_CYCLE).unwrap_or(usize::MAX)).copied();
        let cycle = number / SENDS_PER_CYCLE;
        let project = if kind == Some(Kind::WrongName) { projects - 1 } else { cycle / 4 % (projects - 1) };
        let mail = if project % 2 == 0 { ProviderKind::MailHttp } else { ProviderKind::Smtp };
        let provider = match kind {
            Some(Kind::WrongName) => ProviderKind::ThirdParty,
            // Of the other providers, only this one uses HTTP/2 without TLS.
            Some(Kind::Leaving) => ProviderKind::Apns,
            _ => [mail, ProviderKind::Sms, ProviderKind::Gateway, ProviderKind::Apns][(cycle % 4) as usize],
        };
        Self { number, project, provider, kind }
    }

    /// Returns how often it may be processed: once, or twice if a fault hides the outcome and the provider does not deduplicate.
    pub fn copies(&self) -> std::ops::RangeInclusive<u32> {
        let twice = matches!(self.kind, Some(Kind::Hang | Kind::ResetAfter)) && !self.provider.has_keys();
        1..=1 + u32::from(twice)
    }

    /// Returns how many calls with an unknown outcome the ledger must show. If the provider deduplicates by key, a repeat is an ordinary
    /// retry.
    pub fn ambiguous(&self) -> u32 {
        let shown = self.provider != ProviderKind::MailHttp;
        u32::from(shown && self.kind.is_some_and(Kind::is_ambiguous))
    }
}

/// The text of the templates.
pub const TEXT: &str = "Sale-{{ properties.n }}.";

/// Returns the number in a provider's request, or in a mail.
pub fn parse_send_number(text: &[u8]) -> Option<u64> {
    let at = text.windows(5).position(|part| part == b"Sale-")? + 5;
    let digits = text[at..].iter().take_while(|byte| byte.is_ascii_digit());
    std::str::from_utf8(&digits.copied().collect::<Vec<u8>>()).ok()?.parse().ok()
}

/// State shared by the providers' servers: which sends have arrived, and how each was failed.
pub struct Script {
    projects: u64,
    state: Mutex<ScriptState>,
}

#[derive(Default)]
struct ScriptState {
    arrived: BTreeSet<u64>,
    injected: BTreeMap<(Kind, ProviderKind), u64>,
}

impl Script {
    pub fn new(projects: u64) -> Self {
        Self { projects, state: Mutex::default() }
    }

    /// Returns the fault of a request.
    pub fn fault(&self, text: &[u8]) -> Option<Fault> {
        let send = PlannedSend::new(parse_send_number(text)?, self.projects);
        let mut state = self.state();
        if !state.arrived.insert(send.number) {
            return None;
        }
        let fault = send.kind?.fault()?;
        *state.injected.entry((send.kind?, send.provider)).or_default() += 1;
        Some(fault)
    }

    /// Like [`Self::fault`], with the codes of a mail server.
    pub fn mail_fault(&self, mail: &str) -> Option<Fault> {
        let answer = |status, words: &str| Fault::Respond(Reply { body: words.to_owned(), ..Reply::empty(status) });
        match self.fault(mail.as_bytes())? {
            Fault::Respond(reply) if reply.status == 429 => Some(answer(451, "4.7.1 Busy")),
            Fault::Respond(_) => Some(answer(421, "4.3.0 Broken")),
            other => Some(other),
        }
    }

    /// Returns how often each kind was injected, by provider.
    pub fn injected(&self) -> BTreeMap<(Kind, ProviderKind), u64> {
        self.state().injected.clone()
    }

    fn state(&self) -> MutexGuard<'_, ScriptState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A vendor's service that follows the script.
pub struct Scripted<V> {
    pub vendor: V,
    pub script: std::sync::Arc<Script>,
}

impl<V: Vendor> Vendor for Scripted<V> {
    fn respond(&self, request: &Received) -> Reply {
        self.vendor.respond(request)
    }

    fn fault(&self, request: &Received) -> Option<Fault> {
        self.script.fault(&request.body)
    }

    fn keeps_requests(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_affects_a_tenth_of_sends_at_all_its_providers() {
        let mut count: BTreeMap<(Option<Kind>, ProviderKind), u64> = BTreeMap::new();
        for number in 0..1_000 {
            let send = PlannedSend::new(number, 5);
            *count.entry((send.kind, send.provider)).or_default() += 1;
        }
        for kind in KINDS {
            let of_kind = |(_, n): (_, &u64)| *n;
            let all = count.iter().filter(|((k, _), _)| *k == Some(kind));
            let providers = all.clone().count();
            assert_eq!(all.map(of_kind).sum::<u64>(), 100, "{kind:?}");
            let expected = if matches!(kind, Kind::Leaving | Kind::WrongName) { 1 } else { 5 };
            assert_eq!(providers, expected, "{kind:?}");
        }
    }

    #[test]
    fn send_fails_at_its_first_attempt() {
        let script = Script::new(5);
        assert!(matches!(script.fault(b"x=Sale-3.&y"), Some(Fault::Reset)));
        assert!(script.fault(b"x=Sale-3.&y").is_none());
        assert!(script.fault(b"no number").is_none() && script.fault(b"Sale-19.").is_none());
        assert!(matches!(script.mail_fault("Subject: Sale-10.\r\n"), Some(Fault::Respond(r)) if r.status == 451));
        assert_eq!(script.injected().values().sum::<u64>(), 2);
    }
}
