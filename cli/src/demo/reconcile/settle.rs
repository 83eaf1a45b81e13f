//! Waits until the numbers stop changing.

use std::time::Duration;

use tokio::time::Instant;

use super::events::{Totals, since, totals};
use super::mailbox::Mailbox;
use super::mails::ExpectedMails;
use super::pushes::Phones;
use super::users::count_users;
use crate::demo::api::{Api, ApiError};
use progress::Bar;

const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// How long nothing may change once everything has arrived. An unexpected reminder would arrive after its own wait of 5
/// s.
const QUIET_PERIOD: Duration = Duration::from_secs(8);

/// The numbers to wait for.
pub struct Goal<'a> {
    pub names: Vec<&'static str>,
    pub before: &'a Totals,
    pub events: u64,
    pub users: u64,
    pub expected_mails: &'a ExpectedMails<'a>,
    pub run: &'a str,
}

/// The numbers that are cheap to read, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub gained: Totals,
    pub users: u64,
    pub mails_arrived: u64,
    pub pushes_arrived: u64,
    files: [usize; 2],
}

impl Counts {
    pub fn events(&self) -> u64 {
        self.gained.values().sum()
    }
}

/// Polls until everything has arrived and nothing has changed for a while, or until `deadline` has passed. Returns the
/// last numbers, and whether the deadline has passed.
pub async fn settle(
    api: &Api,
    goal: &Goal<'_>,
    mailbox: &mut Mailbox,
    phones: &mut Phones<'_>,
    deadline: Duration,
) -> anyhow::Result<(Counts, bool)> {
    let progress = Bar::new("settling", goal.events + goal.users + goal.expected_mails.due() + phones.due());
    let began = Instant::now();
    let mut ticks = tokio::time::interval(POLL_INTERVAL);
    let (mut last, mut changed) = (Counts::default(), began);
    loop {
        ticks.tick().await;
        mailbox.read_new_files()?;
        phones.read_new_files()?;
        let gained = since(&totals(api, goal.names.iter().copied()).await?, goal.before);
        let mails_arrived = goal.expected_mails.compare(mailbox.mails()).arrived();
        let users = count_users(api, goal.run).await?;
        let (pushes_arrived, files) = (phones.arrived(), [mailbox.mails().count(), phones.files()]);
        let now = Counts { gained, users, mails_arrived, pushes_arrived, files };
        let events = now.events();
        let open = [
            ("events", events, goal.events),
            ("users", users, goal.users),
            ("mails", mails_arrived, goal.expected_mails.due()),
            ("pushes", pushes_arrived, phones.due()),
        ];
        let all_arrived = open.iter().all(|(_, now, wanted)| now >= wanted);
        if now != last {
            changed = Instant::now();
        }
        let open = open.iter().filter(|(_, now, wanted)| now < wanted);
        let message: Vec<_> = open.map(|(what, now, wanted)| format!("{what} {now}/{wanted}")).collect();
        let message = if all_arrived { "checking for late arrivals".to_owned() } else { message.join(", ") };
        progress.at(events.min(goal.events) + users.min(goal.users) + mails_arrived + pushes_arrived, message);
        last = now;
        let late = began.elapsed() >= deadline;
        if late || (all_arrived && changed.elapsed() >= QUIET_PERIOD) {
            progress.done();
            return Ok((last, late));
        }
    }
}

/// Returns the totals before a run begins, once two polls agree or `deadline` has passed, so that the remaining events
/// of an earlier run are included.
pub async fn stable_totals(api: &Api, names: &[&'static str], deadline: Duration) -> Result<Totals, ApiError> {
    let began = Instant::now();
    let mut ticks = tokio::time::interval(POLL_INTERVAL);
    ticks.tick().await;
    let mut last = totals(api, names.iter().copied()).await?;
    loop {
        ticks.tick().await;
        let now = totals(api, names.iter().copied()).await?;
        if now == last || began.elapsed() >= deadline {
            return Ok(now);
        }
        last = now;
    }
}
