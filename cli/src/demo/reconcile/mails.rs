//! Mails due against mails in the mailbox's files.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::mailbox::Mail;
use crate::demo::generator::expected::{DueMail, MailKind};
use crate::demo::report::Line;
use crate::demo::setup::REMINDER_DELAY;

/// Identifies a mail by address and subject. The subject excludes white space and control characters, because headers
/// may be folded.
type MailKey<'a> = (&'a str, String);

/// Returns the text to compare, without anything that folding, wrapping or markup may change.
fn without_whitespace(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace() && !c.is_control()).collect()
}

/// The due mails, indexed for lookup.
pub struct ExpectedMails<'a> {
    due: HashMap<MailKey<'a>, &'a DueMail>,
    /// A part of every address of the run.
    run: &'a str,
    start_ms: i64,
}

/// The expected mails compared with a mailbox.
#[derive(Debug, Default)]
pub struct Arrivals<'a> {
    /// Due mails that arrived, each with all copies.
    arrived: BTreeMap<MailKey<'a>, Vec<&'a Mail>>,
    /// Mails to users of the run that were not due.
    unexpected: Vec<&'a Mail>,
    /// Mails to users of no run, since the run began.
    unknown_recipients: Vec<&'a Mail>,
}

impl<'a> ExpectedMails<'a> {
    pub fn new(due: &'a [DueMail], run: &'a str, start_ms: i64) -> Self {
        let due = due.iter().map(|mail| ((mail.to.as_str(), without_whitespace(&mail.subject)), mail)).collect();
        Self { due, run, start_ms }
    }

    pub fn due(&self) -> u64 {
        self.due.len() as u64
    }

    pub fn compare(&self, mails: impl IntoIterator<Item = &'a Mail>) -> Arrivals<'a> {
        let mut arrivals = Arrivals::default();
        for mail in mails {
            let key = (mail.to.as_str(), without_whitespace(&mail.subject));
            if self.due.contains_key(&key) {
                arrivals.arrived.entry(key).or_default().push(mail);
            } else if mail.to.ends_with(&format!("@{}.shop.example", self.run)) {
                arrivals.unexpected.push(mail);
            } else if mail.arrived_ms >= self.start_ms && !mail.to.ends_with(".shop.example") {
                arrivals.unknown_recipients.push(mail);
            }
        }
        arrivals
    }
}

impl Arrivals<'_> {
    /// Returns the number of due mails that arrived at least once.
    pub fn arrived(&self) -> u64 {
        self.arrived.len() as u64
    }

    /// Returns the number of copies beyond the first of each mail.
    fn copies(&self) -> u64 {
        self.arrived.values().map(|copies| copies.len() as u64 - 1).sum()
    }

    /// Returns the lines of the reconciliation.
    ///
    /// `ambiguous` is the number of calls whose outcome the service never learned, if it reports them. `carts` holds
    /// when each checkout was first sent.
    pub fn lines(
        &self,
        expected_mails: &ExpectedMails<'_>,
        ambiguous: Option<u64>,
        carts: &HashMap<String, i64>,
    ) -> Vec<Line> {
        let ids: HashSet<&str> = self.arrived.values().flatten().map(|mail| mail.message_id.as_str()).collect();
        let mut by_id = Line::equal("mails due = Message-IDs", expected_mails.due(), ids.len() as u64);
        if let Some(mail) = self.arrived.values().flatten().find(|mail| mail.message_id.is_empty()) {
            by_id.ok = false;
            by_id = by_id.with_examples([format!("{}: {:?} has no Message-ID", mail.to, mail.subject)]);
        }
        let mut lines = vec![
            self.kind(expected_mails, "welcome mails due = in the mailbox", MailKind::Welcome),
            self.kind(expected_mails, "reminders due = in the mailbox", MailKind::Reminder),
            by_id,
            self.second_copies(ambiguous),
            self.unexpected_mails(),
            self.right_content(expected_mails),
        ];
        lines.extend(self.early(expected_mails, carts));
        lines
    }

    fn kind(&self, expected_mails: &ExpectedMails<'_>, what: &'static str, kind: MailKind) -> Line {
        let due = expected_mails.due.iter().filter(|(_, mail)| mail.kind == kind);
        let (mut all, mut missing) = (0, Vec::new());
        for (key, mail) in due {
            all += 1;
            if !self.arrived.contains_key(key) {
                missing.push(format!("to {}: {:?} is missing", mail.to, mail.subject));
            }
        }
        missing.sort();
        Line::equal(what, all, all - missing.len() as u64).with_examples(missing)
    }

    /// Checks second copies. A copy is legitimate only if the mail server accepted a mail and its reply was lost. The
    /// service counts these cases.
    fn second_copies(&self, ambiguous: Option<u64>) -> Line {
        let copies = self.copies();
        let twice = self.arrived.values().filter(|copies| copies.len() > 1).map(|copies| {
            let ids: HashSet<_> = copies.iter().map(|mail| mail.message_id.as_str()).collect();
            let (mail, times) = (copies[0], copies.len());
            format!("to {}: {:?} arrived {times} times, with {} Message-IDs", mail.to, mail.subject, ids.len())
        });
        let mut line = Line::equal("second copies", 0, copies).with_examples(twice);
        line.ok = copies <= ambiguous.unwrap_or(0);
        match ambiguous {
            Some(0) => line,
            Some(n) => line.with_note(format!("the service reports {n} sends with an unknown outcome")),
            None if copies > 0 => line.with_note("the service does not report sends with an unknown outcome"),
            None => line,
        }
    }

    fn unexpected_mails(&self) -> Line {
        let all = self.unexpected.iter().chain(&self.unknown_recipients);
        let examples = all.map(|mail| format!("to {}: {:?} was not due", mail.to, mail.subject));
        Line::equal("mails that were not due", 0, (self.unexpected.len() + self.unknown_recipients.len()) as u64)
            .with_examples(examples)
    }

    fn right_content(&self, expected_mails: &ExpectedMails<'_>) -> Line {
        let mut wrong = Vec::new();
        for (key, copies) in &self.arrived {
            let body = without_whitespace(&copies[0].text);
            let must_contain = expected_mails.due.get(key).map_or(&[][..], |due| &due.must_contain);
            if let Some(missing_text) = must_contain.iter().find(|text| !body.contains(&without_whitespace(text))) {
                wrong.push(format!("to {}: {:?} does not contain {missing_text:?}", copies[0].to, copies[0].subject));
            }
        }
        let count = wrong.len();
        Line::correct_of("mails with the right name and total", self.arrived.len(), wrong, count)
    }

    fn early(&self, expected_mails: &ExpectedMails<'_>, carts: &HashMap<String, i64>) -> Option<Line> {
        let (mut judged, mut early, mut soonest) = (0, Vec::new(), i64::MAX);
        for (key, copies) in &self.arrived {
            let sent = expected_mails.due.get(key).and_then(|due| carts.get(due.cart_id.as_ref()?));
            let (Some(sent), Some(arrived)) = (sent, copies.iter().map(|mail| mail.arrived_ms).min()) else { continue };
            judged += 1;
            soonest = soonest.min(arrived - sent);
            if arrived - sent < REMINDER_DELAY.as_millis() as i64 {
                early.push(format!("to {}: {:?} arrived after {} ms", key.0, copies[0].subject, arrived - sent));
            }
        }
        let count = early.len();
        let note = format!("the earliest after {:.1} s", soonest as f64 / 1000.0);
        (judged > 0).then(|| Line::correct_of("reminders after at least 5 s", judged, early, count).with_note(note))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due() -> Vec<DueMail> {
        let mail = |kind, to: &str, subject: &str, must_contain: &str, cart: Option<&str>| DueMail {
            kind,
            to: to.into(),
            subject: subject.into(),
            must_contain: vec![must_contain.into()],
            cart_id: cart.map(str::to_owned),
        };
        vec![
            mail(MailKind::Welcome, "a@r.shop.example", "Welcome, A\r\nB!", "Hello A\r\nB", None),
            mail(MailKind::Reminder, "a@r.shop.example", "Cart c1", "12.95 EUR", Some("c1")),
        ]
    }

    fn mail(to: &str, subject: &str, text: &str, id: &str) -> Mail {
        Mail { to: to.into(), subject: subject.into(), text: text.into(), message_id: id.into(), arrived_ms: 16_000 }
    }

    fn whole() -> Vec<Mail> {
        vec![
            mail("a@r.shop.example", "Welcome, A B!", "…Hello\nA B…", "1"),
            mail("a@r.shop.example", "Cart c1", "Total 12.95 EUR", "2"),
            mail("a@old.shop.example", "Cart c1", "of an earlier run", "3"),
        ]
    }

    fn lines(mails: &[Mail], ambiguous: Option<u64>) -> Vec<&'static str> {
        let due = due();
        let expected_mails = ExpectedMails::new(&due, "r", 10_000);
        let carts = HashMap::from([("c1".to_owned(), 10_500)]);
        let lines = expected_mails.compare(mails).lines(&expected_mails, ambiguous, &carts);
        lines.into_iter().filter(|line| !line.ok).map(|line| line.what).collect()
    }

    #[test]
    fn complete_mailbox_matches() {
        assert_eq!(lines(&whole(), None), Vec::<&str>::new());
    }

    #[test]
    fn each_fault_is_reported_in_its_line() {
        assert_eq!(lines(&whole()[..1], None), ["reminders due = in the mailbox", "mails due = Message-IDs"]);

        let mut stranger = whole();
        stranger.push(mail("someone@elsewhere.example", "x", "", "9"));
        assert_eq!(lines(&stranger, None), ["mails that were not due"]);

        let mut wrong_content = whole();
        wrong_content[1].text = "Total 0.00 EUR".into();
        assert_eq!(lines(&wrong_content, None), ["mails with the right name and total"]);

        let mut early = whole();
        early[1].arrived_ms = 15_499;
        assert_eq!(lines(&early, None), ["reminders after at least 5 s"]);
    }

    #[test]
    fn second_copies_are_allowed_only_for_unknown_outcomes() {
        let mut twice = whole();
        twice.push(twice[1].clone());
        assert_eq!(lines(&twice, None), ["second copies"]);
        assert_eq!(lines(&twice, Some(0)), ["second copies"]);
        assert_eq!(lines(&twice, Some(1)), Vec::<&str>::new());
        // A copy with its own `Message-ID` is a separate send.
        twice[3].message_id = "4".into();
        assert_eq!(lines(&twice, Some(1)), ["mails due = Message-IDs"]);
    }
}
