//! Every reachable campaign state, by requests, the scheduler and the clock.

use std::collections::HashSet;

use super::*;

const COMMANDS: [Command; 4] = [Command::Send, Command::Pause, Command::Resume, Command::Cancel];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct State {
    status: CampaignStatus,
    under_way: bool,
    /// Its scheduled time is in the future.
    waits: bool,
}

impl State {
    fn after(self, command: Command) -> Option<Self> {
        let transition = transition(command, self.status, self.under_way, self.waits)?;
        Some(match transition {
            Transition::Begin => Self { status: CampaignStatus::Sending, under_way: true, ..self },
            Transition::To(status) => Self { status, ..self },
        })
    }

    /// Returns the states that follow without a transition request.
    fn next_states(self) -> Vec<Self> {
        use CampaignStatus::{Completed, Draft, Failed, Paused, Scheduled, Sending};
        let time_comes = self.waits.then_some(Self { waits: false, ..self });
        // An edit sets or removes the time.
        let edited = match self.status {
            Draft => vec![Self { status: Scheduled, waits: true, ..self }],
            Scheduled => vec![Self { status: Draft, waits: false, ..self }],
            Paused => vec![Self { waits: true, ..self }, Self { waits: false, ..self }],
            _ => vec![],
        };
        let scheduler = match self.status {
            Scheduled if !self.waits => {
                vec![Self { status: Sending, under_way: true, ..self }, Self { status: Paused, ..self }]
            }
            Scheduled => vec![Self { status: Paused, ..self }],
            Sending => vec![
                Self { status: Paused, ..self },
                Self { status: Failed, ..self },
                Self { status: Completed, under_way: false, ..self },
                // Until its next occurrence.
                Self { status: Scheduled, under_way: false, waits: true },
            ],
            _ => vec![],
        };
        time_comes.into_iter().chain(edited).chain(scheduler).collect()
    }
}

/// Returns all states reachable from a draft.
fn reachable_states() -> HashSet<State> {
    let draft = State { status: CampaignStatus::Draft, under_way: false, waits: false };
    let (mut all, mut new) = (HashSet::new(), vec![draft]);
    while let Some(state) = new.pop() {
        if all.insert(state) {
            new.extend(state.next_states());
            new.extend(COMMANDS.iter().filter_map(|command| state.after(*command)));
        }
    }
    all
}

#[test]
fn no_send_starts_while_one_is_active_and_ended_is_final() {
    use CampaignStatus::{Cancelled, Completed, Failed, Paused, Scheduled, Sending};
    let all = reachable_states();
    assert_eq!(CampaignStatus::ALL.iter().filter(|status| all.iter().any(|state| state.status == **status)).count(), 7);
    for state in all {
        for command in COMMANDS {
            let transition = transition(command, state.status, state.under_way, state.waits);
            assert!(
                transition != Some(Transition::Begin) || !state.under_way,
                "{command:?} sends {state:?} a second time"
            );
            // Only an explicit send begins before the scheduled time.
            assert!(
                transition != Some(Transition::Begin) || command == Command::Send || !state.waits,
                "{command:?} starts {state:?} before its time"
            );
            let has_ended = matches!(state.status, Completed | Cancelled | Failed);
            assert!(transition.is_none() || !has_ended, "{command:?} of {state:?}");
        }
        let allows = |command| state.after(command).is_some();
        assert_eq!(allows(Command::Cancel), matches!(state.status, Scheduled | Sending | Paused), "{state:?}");
        assert_eq!(allows(Command::Pause), matches!(state.status, Scheduled | Sending), "{state:?}");
        assert_eq!(allows(Command::Resume), state.status == Paused, "{state:?}");
        assert!(!allows(Command::Cancel) || state.after(Command::Cancel).unwrap().status == Cancelled);
    }
}

#[test]
fn resuming_undoes_a_pause() {
    use CampaignStatus::{Paused, Scheduled, Sending};
    let mut paused = 0;
    for before in reachable_states() {
        let Some(during) = before.after(Command::Pause) else { continue };
        paused += 1;
        assert_eq!(during, State { status: Paused, ..before });
        let after = during.after(Command::Resume).unwrap();
        // A campaign that is due begins at once, as the scheduler would have begun it.
        let is_due = before.status == Scheduled && !before.waits;
        assert_eq!(after, if is_due { State { status: Sending, under_way: true, ..before } } else { before });
    }
    assert!(paused >= 4, "{paused} can be paused");
}

#[test]
fn only_resume_depends_on_more_than_the_status() {
    for status in CampaignStatus::ALL {
        for command in COMMANDS {
            let found: HashSet<_> = [(false, false), (false, true), (true, false), (true, true)]
                .map(|(under_way, waits)| {
                    transition(command, status, under_way, waits).map(|transition| format!("{transition:?}"))
                })
                .into();
            let kinds = if (command, status) == (Command::Resume, CampaignStatus::Paused) { 3 } else { 1 };
            assert_eq!(found.len(), kinds, "{command:?} of {status:?}");
        }
    }
}
