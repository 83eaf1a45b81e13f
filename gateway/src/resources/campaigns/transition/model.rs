//! Every reachable campaign state, by requests, the scheduler and the clock.

use std::collections::HashSet;

use super::*;

const WISHES: [Wish; 4] = [Wish::Send, Wish::Pause, Wish::Resume, Wish::Cancel];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Stand {
    status: CampaignStatus,
    under_way: bool,
    /// Its scheduled time is in the future.
    waits: bool,
}

impl Stand {
    fn after(self, wish: Wish) -> Option<Self> {
        let step = step(wish, self.status, self.under_way, self.waits)?;
        Some(match step {
            Step::Begin => Self { status: CampaignStatus::Sending, under_way: true, ..self },
            Step::To(status) => Self { status, ..self },
        })
    }

    /// Returns the states that follow without a transition request.
    fn by_itself(self) -> Vec<Self> {
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
fn all() -> HashSet<Stand> {
    let draft = Stand { status: CampaignStatus::Draft, under_way: false, waits: false };
    let (mut all, mut new) = (HashSet::new(), vec![draft]);
    while let Some(stand) = new.pop() {
        if all.insert(stand) {
            new.extend(stand.by_itself());
            new.extend(WISHES.iter().filter_map(|wish| stand.after(*wish)));
        }
    }
    all
}

#[test]
fn no_sending_begins_while_one_is_under_way_and_what_has_ended_stays_so() {
    use CampaignStatus::{Cancelled, Completed, Failed, Paused, Scheduled, Sending};
    let all = all();
    assert_eq!(CampaignStatus::ALL.iter().filter(|status| all.iter().any(|stand| stand.status == **status)).count(), 7);
    for stand in all {
        for wish in WISHES {
            let step = step(wish, stand.status, stand.under_way, stand.waits);
            assert!(step != Some(Step::Begin) || !stand.under_way, "{wish:?} sends {stand:?} a second time");
            // Only an explicit send begins before the scheduled time.
            assert!(
                step != Some(Step::Begin) || wish == Wish::Send || !stand.waits,
                "{wish:?} starts {stand:?} before its time"
            );
            let has_ended = matches!(stand.status, Completed | Cancelled | Failed);
            assert!(step.is_none() || !has_ended, "{wish:?} of {stand:?}");
        }
        let allows = |wish| stand.after(wish).is_some();
        assert_eq!(allows(Wish::Cancel), matches!(stand.status, Scheduled | Sending | Paused), "{stand:?}");
        assert_eq!(allows(Wish::Pause), matches!(stand.status, Scheduled | Sending), "{stand:?}");
        assert_eq!(allows(Wish::Resume), stand.status == Paused, "{stand:?}");
        assert!(!allows(Wish::Cancel) || stand.after(Wish::Cancel).unwrap().status == Cancelled);
    }
}

#[test]
fn a_pause_is_taken_back_by_resuming() {
    use CampaignStatus::{Paused, Scheduled, Sending};
    let mut paused = 0;
    for before in all() {
        let Some(during) = before.after(Wish::Pause) else { continue };
        paused += 1;
        assert_eq!(during, Stand { status: Paused, ..before });
        let after = during.after(Wish::Resume).unwrap();
        // A campaign that is due begins at once, as the scheduler would have begun it.
        let is_due = before.status == Scheduled && !before.waits;
        assert_eq!(after, if is_due { Stand { status: Sending, under_way: true, ..before } } else { before });
    }
    assert!(paused >= 4, "{paused} can be paused");
}

#[test]
fn only_what_resuming_comes_to_depends_on_more_than_the_status() {
    for status in CampaignStatus::ALL {
        for wish in WISHES {
            let found: HashSet<_> = [(false, false), (false, true), (true, false), (true, true)]
                .map(|(under_way, waits)| step(wish, status, under_way, waits).map(|step| format!("{step:?}")))
                .into();
            let kinds = if (wish, status) == (Wish::Resume, CampaignStatus::Paused) { 3 } else { 1 };
            assert_eq!(found.len(), kinds, "{wish:?} of {status:?}");
        }
    }
}
