//! Sends invitations by mail.
//!
//! They are not messages of the ledger: the invited person is not a user of the project, and the link must appear only in the mail. The
//! invitation's row is the queue. The operator's mail server sends them (`SYSTEM_SMTP_URL`): members who control a project's channel could
//! otherwise read the links.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use database::StoreError;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use kernel::ids::ProjectId;
use store_projects::invites::mail::{self, InviteMail, MailStatus};
use template::personalization::with_line_breaks;
use unicode_normalization::UnicodeNormalization;
use uuid::Uuid;

use crate::App;
use crate::config::DeliveryConfig;
use crate::render;
use crate::routes::{Call, Route};
use crate::settle::reschedule;
use providers::address;
use providers::{Email, MailProvider, Outcome, smtp};

const POLL: Duration = Duration::from_secs(1);
/// Maximum invitations read per poll.
const MAX_DUE: i64 = 50;
const MAX_DUE_PER_PROJECT: i64 = 5;
/// Maximum projects whose invitations are sent concurrently.
const MAX_PROJECTS: usize = 8;
/// Time after which another worker may take over a claimed invitation.
const LEASE: Duration = Duration::from_mins(2);
const SUBJECT: &str = "Invitation to join a project";
/// Maximum characters of a displayed name.
const NAME_CHARS: usize = 40;
/// Minimum digits that mail programs recognize as a phone number.
const PHONE_DIGITS: usize = 7;

/// Returns the route to the operator's mail server, if one is configured.
pub fn route(config: &DeliveryConfig) -> Option<Route<MailProvider>> {
    let mail = config.system_mail.as_ref()?;
    let client = |smtp| MailProvider::Smtp(Box::new(smtp::Client::for_operator(smtp, &config.http)));
    Some(Route::new(smtp::SmtpConfig::try_from(mail).map(client)))
}

/// Sends due invitations until shutdown.
///
/// Sends a project's invitations one after another, so that a project with many does not use all connections.
pub async fn send_due(app: Arc<App>) {
    let (mut under_way, mut busy) = (FuturesUnordered::new(), HashSet::new());
    loop {
        match due(&app).await {
            Ok(due) => {
                for (project, invites) in due {
                    if busy.len() < MAX_PROJECTS && busy.insert(project) {
                        under_way.push(send_all(&app, project, invites));
                    }
                }
            }
            Err(error) => tracing::debug!(%error, "cannot poll for due invitations"),
        }
        app.system_mail.iter().for_each(Route::reap);
        let poll = tokio::time::sleep(POLL);
        tokio::pin!(poll);
        loop {
            tokio::select! {
                () = app.shutdown.cancelled() => {
                    while under_way.next().await.is_some() {}
                    return;
                }
                Some(project) = under_way.next() => {
                    busy.remove(&project);
                }
                () = &mut poll => break,
            }
        }
    }
}

async fn due(app: &App) -> Result<BTreeMap<ProjectId, Vec<Uuid>>, StoreError> {
    let (db, now) = (app.store.connection().await?, app.clock.now());
    let due = mail::due(&db, now, MAX_DUE, MAX_DUE_PER_PROJECT).await?;
    if !due.is_empty() {
        mail::fail_ended(&db, now).await?;
    }
    Ok(due)
}

async fn send_all(app: &App, project: ProjectId, invites: Vec<Uuid>) -> ProjectId {
    for invite in invites {
        if app.shutdown.is_cancelled() {
            break;
        }
        if let Err(error) = send(app, (project, invite)).await {
            tracing::warn!(%project, %invite, %error, "cannot mail an invitation; retrying later");
        }
    }
    project
}

async fn send(app: &App, invite: (ProjectId, Uuid)) -> Result<(), StoreError> {
    let now = app.clock.now();
    let lease = now.checked_add(LEASE).unwrap_or(now);
    let claimed = {
        let db = app.store.connection().await?;
        mail::claim(&db, &app.config.master_keys, invite, lease, now).await?
    };
    let Some(mail) = claimed else { return Ok(()) };
    let outcome = match (&app.system_mail, email(&mail)) {
        (Some(route), Some(email)) => route.send(&email, Call::STANDALONE).await,
        (None, Some(_)) => Outcome::Misconfigured("SYSTEM_SMTP_URL is not set for this worker".to_owned()),
        (_, None) => Outcome::Rejected("mail cannot be sent to this address".to_owned()),
    };
    let db = app.store.connection().await?;
    match next(&outcome, mail.attempt, rand::random()) {
        Next::Done(status) => mail::finish(&db, &mail, status).await?,
        Next::Again(delay) => {
            let now = app.clock.now();
            mail::schedule_retry(&db, &mail, now.checked_add(delay).unwrap_or(now)).await?;
        }
    }
    if !matches!(outcome, Outcome::Accepted(_)) {
        let (project, invite, why) = (mail.project, mail.id, outcome.text());
        tracing::warn!(%project, %invite, outcome = outcome.name(), why, "an invitation was not mailed");
    }
    Ok(())
}

#[derive(Debug, PartialEq, Eq)]
enum Next {
    Done(MailStatus),
    Again(Duration),
}

/// Decides what follows an attempt; the first attempt is 1. A duplicate invitation does no harm.
fn next(outcome: &Outcome, attempt: i32, random: f64) -> Next {
    let hint = match outcome {
        Outcome::Accepted(_) => return Next::Done(MailStatus::Sent),
        Outcome::Rejected(_) | Outcome::Gone(_) => return Next::Done(MailStatus::Failed),
        Outcome::Throttled { after, .. } | Outcome::Unavailable { after, .. } => *after,
        Outcome::Held { after, .. } => Some(*after),
        Outcome::Limited { after, .. } => return Next::Again(*after),
        Outcome::Misconfigured(_) | Outcome::Ambiguous(_) => None,
    };
    let delay = reschedule::after_failure(attempt - 1, hint, random);
    delay.map_or(Next::Done(MailStatus::Failed), Next::Again)
}

/// Builds the mail. Returns `None` for an address that mail cannot be sent to.
///
/// The tenant chooses the project's name and the inviter's, so the subject holds neither, and the text holds only names that mail programs
/// do not convert into links.
fn email(mail: &InviteMail) -> Option<Email> {
    let to = address::mailbox(Some(&mail.to), None).ok()?;
    let project = unlinked_name(&mail.project_name).unwrap_or_else(|| "a project".to_owned());
    let who = unlinked_name(&mail.inviter).unwrap_or_else(|| "Someone".to_owned());
    let until = mail.expires_at.strftime("%-d %B %Y, %H:%M UTC");
    let text = format!(
        "{who} invites you to join {project} as {}.\n\nAccept the invitation:\n{}\n\n\
         The link works once, until {until}. If you did not expect it, there is nothing that you need to do.\n",
        mail.role.as_str(),
        mail.link
    );
    let link = render::escaped(&mail.link).replace('"', "&quot;");
    let html = with_line_breaks(&render::escaped(&text))
        .replace(&render::escaped(&mail.link), &format!("<a href=\"{link}\">{link}</a>"));
    Some(Email { id: mail.id, to, subject: SUBJECT.to_owned(), html, text, date: mail.created_at, unsubscribe: None })
}

/// Returns a display name, unless it is too long or a mail program could convert part of it into a link: to a web page, an email address
/// or a phone number. Look-alike characters count as the characters they normalize to.
fn unlinked_name(name: &str) -> Option<String> {
    let is_linkable = |name: &String| {
        let plain: String = name.nfkc().collect();
        plain.contains(['.', '\u{3002}', '/', '\u{2044}', '\u{2215}', '\\', ':', '@'])
            || plain.chars().filter(|c| c.is_numeric()).count() >= PHONE_DIGITS
    };
    address::display_name(name).filter(|name| name.chars().count() <= NAME_CHARS && !is_linkable(name))
}

#[cfg(test)]
mod tests {
    use kernel::clock::from_ms;
    use store_projects::members::Role;

    use super::*;

    fn mail(to: &str, project_name: &str, inviter: &str) -> InviteMail {
        InviteMail {
            project: ProjectId(Uuid::from_u128(1)),
            id: Uuid::from_u128(2),
            attempt: 1,
            to: to.to_owned(),
            role: Role::Member,
            project_name: project_name.to_owned(),
            inviter: inviter.to_owned(),
            link: "https://app.example.com/accept-invite?token=abc&x=1".to_owned(),
            created_at: from_ms(0),
            expires_at: from_ms(7 * 86_400_000),
        }
    }

    #[test]
    fn mail_names_inviter_and_project_and_contains_the_link() {
        let email = email(&mail("ann@example.com", "Shop\r\n& Co", "<b>Ada")).unwrap();
        assert_eq!(email.subject, "Invitation to join a project");
        assert!(
            email.text.starts_with("<b>Ada invites you to join Shop & Co as ")
                && email.text.contains("token=abc&x=1\n")
        );
        assert!(email.text.contains("until 8 January 1970, 00:00 UTC"), "{}", email.text);
        assert!(email.html.contains("&lt;b&gt;Ada") && email.html.contains("token=abc&amp;x=1\">"), "{}", email.html);
        assert!(super::email(&mail("no-address", "Shop", "")).is_none());
    }

    #[test]
    fn name_that_could_become_a_link_is_not_shown() {
        for name in [
            "win at evil.example",
            "https://evil",
            "evil\u{3002}example",
            "evil\u{ff0e}example",
            "evil\u{2488}example",
            "evil\u{fe30}example",
            "ann@evil",
            "tel:1",
            "\\\\evil",
            "call +1 500 555-0006",
            "call ５００５５５０",
            "\u{202e}\r\n",
            "Your account is locked, write to evil dot com",
        ] {
            let email = email(&mail("ann@example.com", name, name)).unwrap();
            assert_eq!(email.subject, "Invitation to join a project");
            assert!(email.text.starts_with("Someone invites you to join a project as "), "{name}: {}", email.text);
            assert_eq!(email.html.matches("href").count(), 1, "{}", email.html);
            assert!(!email.html.contains("evil") && !email.html.contains("call"), "{}", email.html);
        }
        for name in ["Café 24", "Ann & Sons, Ltd", "हिन्दी", "株式会社"] {
            let email = email(&mail("ann@example.com", name, name)).unwrap();
            assert!(email.text.starts_with(&format!("{name} invites you to join {name} as ")), "{}", email.text);
        }
    }

    #[test]
    fn temporary_failures_are_retried_until_the_limit() {
        let unavailable = Outcome::unavailable("down");
        assert_eq!(next(&Outcome::Accepted("1".into()), 1, 1.0), Next::Done(MailStatus::Sent));
        assert_eq!(next(&Outcome::Rejected("550".into()), 1, 1.0), Next::Done(MailStatus::Failed));
        assert_eq!(next(&unavailable, 1, 1.0), Next::Again(Duration::from_secs(15)));
        assert!(matches!(next(&Outcome::Ambiguous(String::new()), 3, 1.0), Next::Again(_)));
        assert_eq!(next(&unavailable, reschedule::MAX_FAILURES, 1.0), Next::Done(MailStatus::Failed));
        let limited = Outcome::Limited { after: Duration::from_secs(1), why: String::new() };
        assert_eq!(next(&limited, reschedule::MAX_FAILURES, 1.0), Next::Again(Duration::from_secs(1)));
    }
}
