//! The events that a run subscribes to besides its timer, so that it receives no others.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::program::Op;
use super::{Program, Run, RunStatus, State};

/// Returns the names of the events that the run must receive, each with the end of its subscription.
///
/// `None` as the end means until the run ends.
pub fn event_subscriptions(program: &Program, run: Run<'_>, state: &State) -> BTreeMap<String, Option<Timestamp>> {
    let mut names = BTreeMap::new();
    if let Some(goal) = program.goal.as_ref().filter(|_| state.converted_at.is_none()) {
        names.insert(goal.event.clone(), Some(goal_deadline(run.started_at, goal.within)));
    }
    if state.status.has_ended() {
        return names;
    }
    names.extend(program.exit_events().iter().map(|name| (name.clone(), None)));
    if state.status == RunStatus::Waiting
        && let Some(Op::WaitForEvent { event, .. }) = program.at(&state.position)
    {
        names.insert(event.clone(), None);
    }
    names
}

/// Returns when a goal stops counting: `within` seconds after `started`.
pub(super) fn goal_deadline(started: Timestamp, within: f64) -> Timestamp {
    let within = SignedDuration::try_from_secs_f64(within).unwrap_or(SignedDuration::ZERO);
    started.checked_add(within).unwrap_or(Timestamp::MAX)
}
