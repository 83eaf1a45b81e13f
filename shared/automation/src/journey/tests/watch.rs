//! Tests of exit rules that start to hold by the passing of time.

use super::*;
use rules::eval::{Counted, Stats};

const SECOND: i64 = 1_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

/// An automation that users exit after an hour without the event `looked`.
fn watched() -> Program {
    let idle = json!([{ "field": "event:looked", "operator": "did_not", "value": { "within": "1h" } }]);
    program(json!({ "exitRules": idle, "steps": [wait(10_000.0), mail(1)] }))
}

/// Sets the user's statistics as of `now_ms`: the last event `looked` occurred at `at_ms`.
fn looked(ride: &mut Ride<'_>, at_ms: i64, now_ms: i64) {
    let behaviour = rules::behaviours(&ride.program.exit_rules)[0].clone();
    let (is_within, edge) = (at_ms >= now_ms - HOUR, Some(from_ms(at_ms)));
    let stats = Stats { count: i64::from(is_within), totals: Vec::new() };
    ride.person.counted = vec![Counted { behaviour, stats, edge: edge.filter(|_| is_within) }];
}

fn timers(ride: &Ride<'_>) -> Vec<(i32, i64)> {
    let timer = |effect: &Effect| match effect {
        Effect::SetTimer { wait_seq, due_at } => Some((*wait_seq, due_at.as_millisecond())),
        _ => None,
    };
    ride.effects.iter().filter_map(timer).collect()
}

#[test]
fn a_run_looks_again_when_a_window_has_slid_past() {
    let p = watched();
    let mut ride = Ride::new(&p);
    looked(&mut ride, -40 * MINUTE, 0);
    ride.meet(Input::Start, 0);
    let look = 20 * MINUTE + 1;
    assert_eq!(timers(&ride).last(), Some(&(1, look)));
    assert_eq!((ride.state.timer_at(), ride.state.due_at), (Some(from_ms(look)), Some(from_ms(10_000 * SECOND))));
    looked(&mut ride, -40 * MINUTE, look);
    ride.timer(1, look);
    assert_eq!((ride.state.status, ride.state.reason.as_deref()), (RunStatus::Exited, Some("exit_rules")));
    assert_eq!((ride.state.timer_at(), ride.sent()), (None, vec![]));
}

#[test]
fn what_happens_meanwhile_puts_no_timer_off_and_a_look_in_vain_comes_again() {
    let p = watched();
    let mut ride = Ride::new(&p);
    looked(&mut ride, -40 * MINUTE, 0);
    ride.meet(Input::Start, 0);
    let (set, look) = (timers(&ride).len(), 20 * MINUTE + 1);
    // Another event does not move the timer; the check at that time takes it into account.
    looked(&mut ride, 10 * MINUTE, 10 * MINUTE);
    ride.event("looked", json!({}), 10 * MINUTE);
    assert_eq!(timers(&ride).len(), set);
    looked(&mut ride, 10 * MINUTE, look);
    ride.timer(1, look).timer(1, look);
    let next = 70 * MINUTE + 1;
    assert_eq!(timers(&ride)[set..], [(1, next), (1, next)], "a repeated timer schedules the same check");
    // The next check is at least a minute later, however soon an event leaves a window.
    looked(&mut ride, 10 * MINUTE + 5, next);
    ride.timer(1, next);
    assert_eq!(timers(&ride).last(), Some(&(1, next + MINUTE)));
    assert_eq!(ride.state.status, RunStatus::Waiting);
}

#[test]
fn a_wait_ends_at_its_time_all_the_same() {
    let p = watched();
    let mut ride = Ride::new(&p);
    let end = 10_000 * SECOND;
    looked(&mut ride, 0, 0);
    ride.meet(Input::Start, 0);
    looked(&mut ride, 2 * HOUR, HOUR + 1);
    ride.timer(1, HOUR + 1);
    assert_eq!((timers(&ride).last(), ride.state.memory.looks_at), (Some(&(1, end)), None));
    looked(&mut ride, 2 * HOUR, end);
    // A repeated check does not end the wait; in the last millisecond the timer is the end of the wait.
    ride.timer(1, end - 1);
    assert_eq!(ride.state.status, RunStatus::Waiting);
    ride.timer(1, end);
    assert_eq!((ride.state.status, ride.sent()), (RunStatus::Completed, vec![(1, "steps[1]")]));
}

#[test]
fn while_the_automation_stands_still_its_runs_do() {
    let p = watched();
    let mut ride = Ride::new(&p);
    looked(&mut ride, 0, 0);
    ride.meet(Input::Start, 0);
    looked(&mut ride, 0, HOUR + 1);
    ride.active = false;
    ride.timer(1, HOUR + 1);
    let (look, end) = (2 * HOUR + 1, 10_000 * SECOND);
    assert_eq!((ride.state.status, timers(&ride).last()), (RunStatus::Waiting, Some(&(1, look))));
    ride.timer(1, look);
    assert_eq!((ride.state.status, timers(&ride).last()), (RunStatus::Waiting, Some(&(1, end))));
    ride.timer(1, end);
    assert_eq!(ride.state.status, RunStatus::Frozen);
    ride.active = true;
    ride.state.status = RunStatus::Waiting;
    ride.timer(1, end + SECOND);
    assert_eq!(ride.state.status, RunStatus::Exited);
}

#[test]
fn rules_that_time_says_nothing_of_cost_no_timer() {
    for (rule, by_time) in [
        (json!({ "field": "event:a", "operator": "did" }), false),
        (json!({ "field": "plan", "operator": "eq", "value": "pro" }), false),
        (json!({ "field": "renewal", "operator": "within_last", "value": "2d" }), true),
        (json!({ "field": "event:a", "operator": "did", "value": { "within": "2d" } }), true),
        (json!({ "field": "segment", "operator": "in", "value": [Uuid::from_u128(1)] }), true),
    ] {
        let p = program(json!({ "exitRules": [rule], "steps": [wait(60.0)] }));
        assert_eq!(p.exits_by_time(), by_time, "{rule}");
    }
}

#[test]
fn a_date_of_the_profile_that_comes_is_looked_at_then() {
    let came = json!([{ "field": "trialEnds", "operator": "within_last", "value": "30d" }]);
    let p = program(json!({ "exitRules": came, "steps": [wait(864_000.0)] }));
    let mut ride = Ride { person: person(json!({ "trialEnds": "1970-01-03" })), ..Ride::new(&p) };
    ride.meet(Input::Start, 0);
    let day = 24 * HOUR;
    assert_eq!(timers(&ride).last(), Some(&(1, 2 * day)));
    ride.timer(1, 2 * day);
    assert_eq!(ride.state.status, RunStatus::Exited);
}
