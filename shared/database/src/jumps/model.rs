//! A model of two schedulers and a follower that share one clock and one row, while the clock jumps, schedulers restart
//! and an operator accepts the clock.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

const MINUTE_MS: i64 = 60_000;

#[derive(Clone, Copy, Debug)]
enum Act {
    /// The clock is moved by this number of minutes.
    Jump(i64),
    /// The clock is corrected.
    Mend,
    /// An operator accepts the clock.
    Accept,
    /// A scheduler restarts.
    Restart(usize),
    /// A scheduler polls the row.
    Look(usize),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        2 => prop_oneof![11..3_000_i64, -3_000..-11_i64, -9..9_i64].prop_map(Act::Jump),
        1 => Just(Act::Mend),
        1 => Just(Act::Accept),
        1 => (0..2_usize).prop_map(Act::Restart),
        5 => (0..2_usize).prop_map(Act::Look),
    ]
}

/// The state of the model.
struct World {
    passed_ms: i64,
    /// How far the clock is from the elapsed time.
    off_ms: i64,
    stored: Option<ClockJump>,
    schedulers: [Seen; 2],
    follower: Seen,
}

impl World {
    fn shown_ms(&self) -> i64 {
        1_790_000_000_000 + self.passed_ms + self.off_ms
    }

    /// Polls as the scheduler's tick does.
    fn look(&mut self, which: usize) {
        let (shown_ms, passed_ms) = (self.shown_ms(), self.passed_ms);
        let seen = &mut self.schedulers[which];
        seen.read(shown_ms, passed_ms);
        match seen.compare(self.stored.as_ref(), shown_ms) {
            Next::Note => {
                self.stored = Some(ClockJump { ahead_ms: seen.ahead_ms, jumped_at: from_ms(shown_ms) });
                seen.noted = true;
            }
            Next::Forget => self.stored = None,
            Next::Nothing | Next::Accepted => {}
        }
    }

    fn everybody_looks(&mut self) {
        for which in [0, 1, 0, 1] {
            self.passed_ms += 500;
            self.look(which);
        }
        let shown_ms = self.shown_ms();
        self.follower.read(shown_ms, self.passed_ms);
        self.follower.follow(self.stored.as_ref(), shown_ms, self.passed_ms);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    /// If all processes poll after each step, the elapsed time decides what is due, and all schedulers agree.
    #[test]
    fn all_hold_a_jump_until_it_is_mended_or_said_to_be_right(acts in prop::collection::vec(act(), 1..40)) {
        let schedulers = [Seen::default(), Seen::default()];
        let mut world = World { passed_ms: 0, off_ms: 0, stored: None, schedulers, follower: Seen::default() };
        world.everybody_looks();
        // The clock's offset when it was last correct. The jump to hold is the offset beyond it.
        let mut right_ms = 0;
        for act in acts {
            world.passed_ms += 7_000;
            match act {
                Act::Jump(minutes) => world.off_ms += minutes * MINUTE_MS,
                Act::Mend => world.off_ms = right_ms,
                Act::Accept => {
                    if world.stored.take().is_some() {
                        right_ms = world.off_ms;
                    }
                }
                // A scheduler that starts while the clock is behind assumes that it is correct: jumps back are only
                // logged.
                Act::Restart(which) if world.off_ms >= right_ms => world.schedulers[which] = Seen::default(),
                Act::Restart(_) => {}
                Act::Look(which) => world.look(which),
            }
            if let Act::Jump(minutes) = act && minutes.abs() <= 10 {
                // A small jump cannot be distinguished from a correction: it counts as elapsed time.
                right_ms += minutes * MINUTE_MS;
            }
            world.everybody_looks();
            let ahead_ms = world.off_ms - right_ms;
            let held = world.schedulers.map(|seen| seen.held_ms());
            let expected = if ahead_ms.abs() > BOUND_MS { ahead_ms.max(0) } else { 0 };
            prop_assert_eq!(held, [expected; 2], "after {:?}", act);
            prop_assert_eq!(world.follower.held_ms(), expected, "after {:?}", act);
            prop_assert_eq!(world.stored.is_some(), expected > 0, "after {:?}", act);
            if ahead_ms.abs() <= BOUND_MS {
                right_ms = world.off_ms;
            }
        }
    }
}
