//! A model of two schedulers and a follower that share one clock and one row, while the clock jumps, schedulers restart
//! and an operator accepts the clock.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

const MINUTE_MS: i64 = 60_000;

#[derive(Clone, Copy, Debug)]
enum Event {
    /// The clock is moved by this number of minutes.
    Jump(i64),
    /// The clock is corrected.
    Correct,
    /// An operator accepts the clock.
    Accept,
    /// A scheduler restarts.
    Restart(usize),
    /// A scheduler polls the row.
    Poll(usize),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => prop_oneof![11..3_000_i64, -3_000..-11_i64, -9..9_i64].prop_map(Event::Jump),
        1 => Just(Event::Correct),
        1 => Just(Event::Accept),
        1 => (0..2_usize).prop_map(Event::Restart),
        5 => (0..2_usize).prop_map(Event::Poll),
    ]
}

/// The state of the model.
struct Model {
    monotonic_ms: i64,
    /// How far the clock is from the elapsed time.
    offset_ms: i64,
    stored: Option<ClockJump>,
    schedulers: [JumpState; 2],
    follower: JumpState,
}

impl Model {
    fn shown_ms(&self) -> i64 {
        1_790_000_000_000 + self.monotonic_ms + self.offset_ms
    }

    /// Polls as the scheduler's tick does.
    fn poll(&mut self, which: usize) {
        let (shown_ms, monotonic_ms) = (self.shown_ms(), self.monotonic_ms);
        let seen = &mut self.schedulers[which];
        seen.read(shown_ms, monotonic_ms);
        match seen.compare(self.stored.as_ref(), shown_ms) {
            JumpAction::Record => {
                self.stored = Some(ClockJump { ahead_ms: seen.ahead_ms, jumped_at: from_ms(shown_ms) });
                seen.recorded = true;
            }
            JumpAction::Clear => self.stored = None,
            JumpAction::Nothing | JumpAction::Accepted => {}
        }
    }

    fn poll_all(&mut self) {
        for which in [0, 1, 0, 1] {
            self.monotonic_ms += 500;
            self.poll(which);
        }
        let shown_ms = self.shown_ms();
        self.follower.read(shown_ms, self.monotonic_ms);
        self.follower.follow(self.stored.as_ref(), shown_ms, self.monotonic_ms);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    /// If all processes poll after each step, the elapsed time decides what is due, and all schedulers agree.
    #[test]
    fn schedulers_hold_a_jump_until_it_is_corrected_or_accepted(events in prop::collection::vec(event(), 1..40)) {
        let schedulers = [JumpState::default(), JumpState::default()];
        let mut model = Model { monotonic_ms: 0, offset_ms: 0, stored: None, schedulers, follower: JumpState::default() };
        model.poll_all();
        // The clock's offset when it was last correct. The jump to hold is the offset beyond it.
        let mut correct_offset_ms = 0;
        for event in events {
            model.monotonic_ms += 7_000;
            match event {
                Event::Jump(minutes) => model.offset_ms += minutes * MINUTE_MS,
                Event::Correct => model.offset_ms = correct_offset_ms,
                Event::Accept => {
                    if model.stored.take().is_some() {
                        correct_offset_ms = model.offset_ms;
                    }
                }
                // A scheduler that starts while the clock is behind assumes that it is correct: jumps back are only
                // logged.
                Event::Restart(which) if model.offset_ms >= correct_offset_ms => model.schedulers[which] = JumpState::default(),
                Event::Restart(_) => {}
                Event::Poll(which) => model.poll(which),
            }
            if let Event::Jump(minutes) = event && minutes.abs() <= 10 {
                // A small jump cannot be distinguished from a correction: it counts as elapsed time.
                correct_offset_ms += minutes * MINUTE_MS;
            }
            model.poll_all();
            let ahead_ms = model.offset_ms - correct_offset_ms;
            let held = model.schedulers.map(|seen| seen.held_ms());
            let expected = if ahead_ms.abs() > JUMP_THRESHOLD_MS { ahead_ms.max(0) } else { 0 };
            prop_assert_eq!(held, [expected; 2], "after {:?}", event);
            prop_assert_eq!(model.follower.held_ms(), expected, "after {:?}", event);
            prop_assert_eq!(model.stored.is_some(), expected > 0, "after {:?}", event);
            if ahead_ms.abs() <= JUMP_THRESHOLD_MS {
                correct_offset_ms = model.offset_ms;
            }
        }
    }
}
