//! The reconciliation: what was sent, against what the service reports and what arrived in the mailbox and on the
//! phones, all observed from outside.

pub mod events;
mod inboxes;
pub mod mailbox;
mod mails;
mod messages;
mod pushes;
pub mod settle;
mod users;

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use events::Totals;
use mailbox::Mailbox;
use mails::ExpectedMails;
use pushes::Phones;
use settle::{Goal, settle};

use super::api::Api;
use super::generator::{Day, Recipe};
use super::report::Line;

/// Expectations and observations that the reconciliation compares.
pub struct CheckInput<'a> {
    pub day: &'a Day,
    pub recipe: &'a Recipe,
    pub mail_dir: PathBuf,
    pub push_dir: PathBuf,
    /// Stored events by name, before the run began and before this replay of it.
    pub before_run: &'a Totals,
    pub before_replay: &'a Totals,
    /// Events that the service accepted in this replay: first ones, and deliberate repeats.
    pub taken: u64,
    pub repeated: u64,
    /// Slowest response to each user, in milliseconds.
    pub slowest_ms: Vec<u64>,
    pub carts: HashMap<String, i64>,
    pub deadline: Duration,
}

/// All lines of the reconciliation, and the totals that they derive from.
pub struct CheckResult {
    pub lines: Vec<Line>,
    /// Events by name that the run added.
    pub gained: Totals,
    /// Whether the deadline passed before everything had settled.
    pub timed_out: bool,
}

pub async fn check(api: &Api, input: CheckInput<'_>) -> anyhow::Result<CheckResult> {
    let (day, recipe) = (input.day, input.recipe);
    let by_name = day.events_by_name();
    let due = day.due_mails();
    let expected_mails = ExpectedMails::new(&due, &recipe.run, recipe.start_ms);
    let mut mailbox = Mailbox::new(input.mail_dir);
    let mut phones = Phones::new(input.push_dir, &recipe.run, day.due_pushes());
    let goal = Goal {
        names: by_name.keys().copied().collect(),
        before: input.before_run,
        events: day.events(),
        users: day.findable(),
        expected_mails: &expected_mails,
        run: &recipe.run,
    };
    let (counts, timed_out) = settle(api, &goal, &mut mailbox, &mut phones, input.deadline).await?;
    let stored_before: u64 = events::since(input.before_replay, input.before_run).values().sum();

    let mut lines = vec![
        events::stored(&by_name, &counts.gained),
        events::repeats(input.repeated, input.taken + input.repeated, stored_before, counts.events()),
        events::by_user(api, day).await?,
        events::by_client_id(api, day).await?,
        Line::equal("users signed up or with an address", day.findable(), counts.users),
    ];
    lines.extend(users::sampled(api, day, &input.slowest_ms).await?);
    mailbox.read_new_files()?;
    phones.read_new_files()?;
    let ambiguous = messages::ambiguous(api, recipe.start_ms).await?;
    lines.extend(expected_mails.compare(mailbox.mails()).lines(&expected_mails, ambiguous, &input.carts));
    lines.extend(phones.lines(ambiguous));
    lines.extend(inboxes::lines(api, &day.due_in_app()).await?);
    Ok(CheckResult { lines, gained: counts.gained, timed_out })
}
