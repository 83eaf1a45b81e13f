//! Waits until the numbers stop changing.

use std::time::Duration;

use tokio::time::Instant;

use super::events::{Totals, since, totals};
use super::mailbox::Mailbox;
use super::mails::Ledger;
use super::pushes::Phones;
use super::users::known;
use crate::demo::api::{Api, ApiError};
use progress::Bar;

const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How long nothing may change once everything has arrived. An unexpected reminder would arrive after its own wait of 5
/// s.
const STILL_FOR: Duration = Duration::from_secs(8);

/// The numbers to wait for.
pub struct Goal<'a> {
    pub names: Vec<&'static str>,
    pub before: &'a Totals,
    pub events: u64,
    pub people: u64,
    pub ledger: &'a Ledger<'a>,
    pub run: &'a str,
}

/// The numbers that are cheap to read, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    pub gained: Totals,
    pub people: u64,
    pub due_came: u64,
    pub pushes_came: u64,
    files: [usize; 2],
}

impl Numbers {
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
) -> anyhow::Result<(Numbers, bool)> {
    let progress = Bar::new("settling", goal.events + goal.people + goal.ledger.due() + phones.due());
    let began = Instant::now();
    let mut looks = tokio::time::interval(LOOK_EVERY);
    let (mut last, mut changed) = (Numbers::default(), began);
    loop {
        looks.tick().await;
        mailbox.look()?;
        phones.look()?;
        let gained = since(&totals(api, goal.names.iter().copied()).await?, goal.before);
        let due_came = goal.ledger.tally(mailbox.mails()).came();
        let people = known(api, goal.run).await?;
        let (pushes_came, files) = (phones.came(), [mailbox.mails().count(), phones.files()]);
        let now = Numbers { gained, people, due_came, pushes_came, files };
        let events = now.events();
        let open = [
            ("events", events, goal.events),
            ("users", people, goal.people),
            ("mails", due_came, goal.ledger.due()),
            ("pushes", pushes_came, phones.due()),
        ];
        let there = open.iter().all(|(_, now, wanted)| now >= wanted);
        if now != last {
            changed = Instant::now();
        }
        let open = open.iter().filter(|(_, now, wanted)| now < wanted);
        let message: Vec<_> = open.map(|(what, now, wanted)| format!("{what} {now}/{wanted}")).collect();
        let message = if there { "checking for late arrivals".to_owned() } else { message.join(", ") };
        progress.at(events.min(goal.events) + people.min(goal.people) + due_came + pushes_came, message);
        last = now;
        let late = began.elapsed() >= deadline;
        if late || (there && changed.elapsed() >= STILL_FOR) {
            progress.done();
            return Ok((last, late));
        }
    }
}

/// Returns the totals before a run begins, once two polls agree or `deadline` has passed, so that the remaining events
/// of an earlier run are included.
pub async fn still_totals(api: &Api, names: &[&'static str], deadline: Duration) -> Result<Totals, ApiError> {
    let began = Instant::now();
    let mut looks = tokio::time::interval(LOOK_EVERY);
    looks.tick().await;
    let mut last = totals(api, names.iter().copied()).await?;
    loop {
        looks.tick().await;
        let now = totals(api, names.iter().copied()).await?;
        if now == last || began.elapsed() >= deadline {
            return Ok(now);
        }
        last = now;
    }
}
