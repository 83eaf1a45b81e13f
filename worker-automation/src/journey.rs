//! A run's next steps. Pure: what happens to a run follows from its state, the input and the input's time alone, so that
//! any order of restarts and repeats gives the same effects.

use jiff::{SignedDuration, Timestamp};
use shared::automation::{Definition, Step};
use shared::store::runs::record::RunStatus;
use uuid::Uuid;

/// Where a run stands.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    pub status: RunStatus,
    /// Path of the step it stands at.
    pub position: String,
    /// Waits begun so far.
    pub wait_seq: i32,
    pub due_at: Option<Timestamp>,
    pub reason: Option<String>,
}

impl State {
    pub fn at_start() -> Self {
        Self { status: RunStatus::Waiting, position: "0".to_owned(), wait_seq: 0, due_at: None, reason: None }
    }
}

/// What a run meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// The trigger.
    Start,
    /// The end of the wait of that number.
    Timer { wait_seq: i32 },
    /// The same, while the automation is inactive.
    TimerWhileInactive { wait_seq: i32 },
}

/// What is to be done about it.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    SendEmail { template_id: Uuid, position: String },
    SetTimer { wait_seq: i32, due_at: Timestamp },
}

/// Moves a run on as far as it can go at `now`. An input that does not fit (a stale timer) changes nothing.
pub fn step(definition: &Definition, state: &State, input: Input, now: Timestamp) -> (State, Vec<Effect>) {
    let waits_for = |seq: i32| state.status == RunStatus::Waiting && state.wait_seq == seq;
    let from = match input {
        Input::Start if state.wait_seq == 0 && !state.status.has_ended() => 0,
        Input::Timer { wait_seq } if waits_for(wait_seq) => match state.position.parse::<usize>() {
            Ok(position) => position + 1,
            Err(_) => return (ended(state, RunStatus::Failed, Some("position_unknown")), Vec::new()),
        },
        Input::TimerWhileInactive { wait_seq } if waits_for(wait_seq) => {
            return (State { status: RunStatus::Frozen, ..state.clone() }, Vec::new());
        }
        Input::Start | Input::Timer { .. } | Input::TimerWhileInactive { .. } => return (state.clone(), Vec::new()),
    };
    advance(definition, state, from, now)
}

fn advance(definition: &Definition, state: &State, from: usize, now: Timestamp) -> (State, Vec<Effect>) {
    let mut effects = Vec::new();
    for (position, step) in definition.steps.iter().enumerate().skip(from) {
        match step {
            Step::SendEmail { template_id, .. } => {
                effects.push(Effect::SendEmail { template_id: *template_id, position: position.to_string() });
            }
            Step::Wait { delay, .. } if *delay <= 0.0 => {}
            Step::Wait { delay, .. } => {
                let (wait_seq, due_at) = (state.wait_seq + 1, later(now, *delay));
                effects.push(Effect::SetTimer { wait_seq, due_at });
                let position = position.to_string();
                return (
                    State { status: RunStatus::Waiting, position, wait_seq, due_at: Some(due_at), reason: None },
                    effects,
                );
            }
        }
    }
    let position = definition.steps.len().to_string();
    (ended(&State { position, ..state.clone() }, RunStatus::Completed, None), effects)
}

fn ended(state: &State, status: RunStatus, reason: Option<&str>) -> State {
    State { status, due_at: None, reason: reason.map(str::to_owned), ..state.clone() }
}

fn later(now: Timestamp, seconds: f64) -> Timestamp {
    let wait = SignedDuration::try_from_secs_f64(seconds).unwrap_or(SignedDuration::ZERO);
    now.checked_add(wait).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use shared::automation::{Reentry, TriggerType};
    use shared::clock::from_ms;

    use super::*;

    fn definition(steps: Vec<Step>) -> Definition {
        Definition {
            trigger_type: TriggerType::Event,
            trigger_event: Some("e".into()),
            reentry: Reentry::Always,
            steps,
        }
    }

    fn mail(n: u128) -> Step {
        Step::SendEmail { template_id: Uuid::from_u128(n), name: None }
    }

    fn wait(delay: f64) -> Step {
        Step::Wait { delay, name: None }
    }

    fn sent(effects: &[Effect]) -> Vec<(u128, &str)> {
        let mails = effects.iter().filter_map(|e| match e {
            Effect::SendEmail { template_id, position } => Some((template_id.as_u128(), position.as_str())),
            Effect::SetTimer { .. } => None,
        });
        mails.collect()
    }

    #[test]
    fn a_run_sends_waits_and_goes_on() {
        let d = definition(vec![mail(1), wait(5.0), mail(2), wait(0.0), mail(3)]);
        let (state, effects) = step(&d, &State::at_start(), Input::Start, from_ms(1_000));
        assert_eq!(sent(&effects), [(1, "0")]);
        assert_eq!(effects[1], Effect::SetTimer { wait_seq: 1, due_at: from_ms(6_000) });
        assert_eq!((state.status, state.position.as_str(), state.wait_seq), (RunStatus::Waiting, "1", 1));
        let (state, effects) = step(&d, &state, Input::Timer { wait_seq: 1 }, from_ms(6_100));
        assert_eq!(sent(&effects), [(2, "2"), (3, "4")]);
        assert_eq!((state.status, state.position.as_str(), state.due_at), (RunStatus::Completed, "5", None));
    }

    #[test]
    fn what_does_not_fit_changes_nothing() {
        let d = definition(vec![wait(5.0), mail(1)]);
        let (waiting, _) = step(&d, &State::at_start(), Input::Start, from_ms(0));
        for input in [Input::Start, Input::Timer { wait_seq: 0 }, Input::Timer { wait_seq: 2 }] {
            assert_eq!(step(&d, &waiting, input, from_ms(9)), (waiting.clone(), vec![]), "{input:?}");
        }
        let (done, _) = step(&d, &waiting, Input::Timer { wait_seq: 1 }, from_ms(9));
        for input in [Input::Start, Input::Timer { wait_seq: 1 }, Input::TimerWhileInactive { wait_seq: 1 }] {
            assert_eq!(step(&d, &done, input, from_ms(10)), (done.clone(), vec![]), "{input:?}");
        }
    }

    #[test]
    fn a_wait_that_ends_while_inactive_freezes_the_run() {
        let d = definition(vec![wait(5.0), mail(1)]);
        let (waiting, _) = step(&d, &State::at_start(), Input::Start, from_ms(0));
        let (frozen, effects) = step(&d, &waiting, Input::TimerWhileInactive { wait_seq: 1 }, from_ms(5_000));
        assert_eq!((frozen.status, effects.len()), (RunStatus::Frozen, 0));
        // Resuming makes it wait again for the timer of the same number.
        let resumed = State { status: RunStatus::Waiting, ..frozen };
        let (_, effects) = step(&d, &resumed, Input::Timer { wait_seq: 1 }, from_ms(9_000));
        assert_eq!(sent(&effects), [(1, "1")]);
    }

    #[test]
    fn an_automation_without_steps_completes_at_once() {
        let (state, effects) = step(&definition(vec![]), &State::at_start(), Input::Start, from_ms(0));
        assert_eq!((state.status, effects.len()), (RunStatus::Completed, 0));
    }

    proptest! {
        /// However often timers are repeated, and whatever stale ones come between, each mail is sent once.
        #[test]
        fn repeats_and_stale_timers_send_nothing_twice(
            waits in prop::collection::vec(prop::option::of(1..100u32), 1..8),
            noise in prop::collection::vec(0..9i32, 0..40),
        ) {
            let steps: Vec<Step> = waits.iter().enumerate().map(|(i, w)| w.map_or(mail(i as u128), |w| wait(f64::from(w)))).collect();
            let d = definition(steps);
            let expected: Vec<u128> = waits.iter().enumerate().filter(|(_, w)| w.is_none()).map(|(i, _)| i as u128).collect();
            let (mut state, effects) = step(&d, &State::at_start(), Input::Start, from_ms(0));
            let mut mails: Vec<u128> = sent(&effects).iter().map(|s| s.0).collect();
            let mut fired = noise;
            // Enough of every number, so that the run comes to its end.
            (0..9).for_each(|_| fired.extend(0..9));
            for (i, wait_seq) in fired.into_iter().enumerate() {
                let (next, effects) = step(&d, &state, Input::Timer { wait_seq }, from_ms(i as i64));
                mails.extend(sent(&effects).iter().map(|s| s.0));
                state = next;
            }
            prop_assert_eq!(mails, expected);
            prop_assert_eq!(state.status, RunStatus::Completed);
        }
    }
}
