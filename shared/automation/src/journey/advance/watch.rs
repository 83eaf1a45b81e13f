//! Exit rules whose windows slide: a waiting run looks at them again when they can next come to hold though nothing happens.
//!
//! That is by the run's own timer, which is then due before its wait ends, so a run costs a row and no more, whatever its rules
//! ask. A look changes nothing but when the next one comes; one more than needed does no harm.

use jiff::{SignedDuration, Timestamp};

use super::super::{Effect, NeedsPerson, RunFacts, RunStatus};
use super::Walk;
use rules::eval::Counted;
use rules::slide;

/// After a look in vain the next one comes so much later at the soonest: what somebody did a thousand times in a window
/// leaves it a thousand times.
const REST: SignedDuration = SignedDuration::from_mins(1);
/// Between looks while the automation is inactive: its runs stand still, and look so much after it is active again at most.
const STANDS_STILL: SignedDuration = SignedDuration::from_hours(1);
/// Timers are of whole milliseconds when they come: a wait that ends within one has ended.
const MOMENT: SignedDuration = SignedDuration::from_millis(1);

impl Walk<'_> {
    /// Whether a timer that comes now is a look, and not the end of the wait.
    pub(super) fn is_early(&self) -> bool {
        let left = self.state.due_at.map(|due| due.duration_since(self.now()));
        self.program.exits_by_time() && left.is_some_and(|left| left >= MOMENT)
    }

    /// Looks at the exit rules, and says when the next look comes.
    pub(super) fn look(&mut self) -> Result<(), NeedsPerson> {
        let after = |rest| self.now().checked_add(rest).unwrap_or(Timestamp::MAX);
        let (rested, much_later) = (after(REST), after(STANDS_STILL));
        let next = if !self.situation.active {
            Some(much_later)
        } else if self.leaves()? {
            return Ok(());
        } else {
            self.exits_can_change_at()?.map(|at| at.max(rested))
        };
        if let Some(due) = self.state.due_at {
            self.set_timer(next.map_or(due, |next| next.min(due)));
        }
        Ok(())
    }

    /// Brings the timer forward where the exit rules can come to hold before it.
    pub(super) fn watch(&mut self) -> Result<(), NeedsPerson> {
        let waits = self.state.status == RunStatus::Waiting && self.situation.active;
        let Some(set) = self.state.timer_at().filter(|_| waits && self.program.exits_by_time()) else { return Ok(()) };
        if let Some(next) = self.exits_can_change_at()?.filter(|next| *next < set) {
            self.set_timer(next);
        }
        Ok(())
    }

    /// Sets the timer: for the end of the wait, or for a look before that.
    pub(super) fn set_timer(&mut self, due_at: Timestamp) {
        self.state.memory.looks_at = self.state.due_at.is_some_and(|end| due_at < end).then_some(due_at);
        self.effects.push(Effect::SetTimer { wait_seq: self.state.wait_seq, due_at });
    }

    fn exits_can_change_at(&self) -> Result<Option<Timestamp>, NeedsPerson> {
        let person = self.person()?;
        let facts = RunFacts { person, trigger: self.run.trigger, steps: &self.state.memory.steps };
        let edge = |behaviour: &_| Counted::of(&person.counted, behaviour)?.edge;
        let by_rules = slide::next_change(&self.program.exit_rules, &facts, edge, self.now());
        Ok(by_rules.into_iter().chain(person.segments_change_at).min())
    }
}
