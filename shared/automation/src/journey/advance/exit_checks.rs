//! Exit rules with sliding windows: a waiting run checks them when they can next start to hold by the passing of time.
//!
//! The run's own timer triggers the check before the wait ends, so that a run needs only one timer row, whatever its
//! rules. A check that finds nothing only reschedules the timer, so an unnecessary check does no harm.

use jiff::{SignedDuration, Timestamp};

use super::super::{Effect, RunFacts, RunStatus, UserRequired};
use super::Execution;
use rules::eval::Counted;
use rules::slide;

/// Shortest time from a check that found nothing to the next one. An event that occurred 1,000 times in a window
/// leaves it 1,000 times.
const MIN_CHECK_INTERVAL: SignedDuration = SignedDuration::from_mins(1);
/// Time between checks while the automation is inactive, and so the longest delay of a check after it is activated.
const INACTIVE_CHECK_INTERVAL: SignedDuration = SignedDuration::from_hours(1);
/// Resolution of timers: a wait with less than this left has ended.
const TIMER_RESOLUTION: SignedDuration = SignedDuration::from_millis(1);

impl Execution<'_> {
    /// Returns whether a timer that fires now is a check of the exit rules rather than the end of the wait.
    pub(super) fn is_exit_check(&self) -> bool {
        let left = self.state.due_at.map(|due| due.duration_since(self.now()));
        self.program.exits_by_time() && left.is_some_and(|left| left >= TIMER_RESOLUTION)
    }

    /// Checks the exit rules and schedules the next check.
    pub(super) fn check_exit_rules(&mut self) -> Result<(), UserRequired> {
        let after = |rest| self.now().checked_add(rest).unwrap_or(Timestamp::MAX);
        let (earliest, while_inactive) = (after(MIN_CHECK_INTERVAL), after(INACTIVE_CHECK_INTERVAL));
        let next = if !self.situation.active {
            Some(while_inactive)
        } else if self.exit_if_rules_hold()? {
            return Ok(());
        } else {
            self.exits_can_change_at()?.map(|at| at.max(earliest))
        };
        if let Some(due) = self.state.due_at {
            self.set_timer(next.map_or(due, |next| next.min(due)));
        }
        Ok(())
    }

    /// Moves the timer forward if the exit rules can start to hold before it is due.
    pub(super) fn schedule_exit_check(&mut self) -> Result<(), UserRequired> {
        let waits = self.state.status == RunStatus::Waiting && self.situation.active;
        let Some(set) = self.state.timer_at().filter(|_| waits && self.program.exits_by_time()) else { return Ok(()) };
        if let Some(next) = self.exits_can_change_at()?.filter(|next| *next < set) {
            self.set_timer(next);
        }
        Ok(())
    }

    /// Sets the timer for the end of the wait, or for an earlier check of the exit rules.
    pub(super) fn set_timer(&mut self, due_at: Timestamp) {
        self.state.memory.next_check_at = self.state.due_at.is_some_and(|end| due_at < end).then_some(due_at);
        self.effects.push(Effect::SetTimer { wait_seq: self.state.wait_seq, due_at });
    }

    fn exits_can_change_at(&self) -> Result<Option<Timestamp>, UserRequired> {
        let user = self.user()?;
        let facts = RunFacts { user, trigger: self.run.trigger, steps: &self.state.memory.steps };
        let edge = |behaviour: &_| Counted::of(&user.counted, behaviour)?.edge;
        let by_rules = slide::next_change(&self.program.exit_rules, &facts, edge, self.now());
        Ok(by_rules.into_iter().chain(user.segments_change_at).min())
    }
}
