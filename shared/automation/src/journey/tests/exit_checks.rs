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
fn looked(test_run: &mut TestRun<'_>, at_ms: i64, now_ms: i64) {
    let behaviour = rules::behaviours(&test_run.program.exit_rules)[0].clone();
    let (is_within, edge) = (at_ms >= now_ms - HOUR, Some(from_ms(at_ms)));
    let stats = Stats { count: i64::from(is_within), totals: Vec::new() };
    test_run.user.counted = vec![Counted { behaviour, stats, edge: edge.filter(|_| is_within) }];
}

fn timers(test_run: &TestRun<'_>) -> Vec<(i32, i64)> {
    let timer = |effect: &Effect| match effect {
        Effect::SetTimer { wait_seq, due_at } => Some((*wait_seq, due_at.as_millisecond())),
        _ => None,
    };
    test_run.effects.iter().filter_map(timer).collect()
}

#[test]
fn run_checks_exit_rules_when_window_ends() {
    let p = watched();
    let mut test_run = TestRun::new(&p);
    looked(&mut test_run, -40 * MINUTE, 0);
    test_run.apply(Input::Start, 0);
    let check_at = 20 * MINUTE + 1;
    assert_eq!(timers(&test_run).last(), Some(&(1, check_at)));
    assert_eq!(
        (test_run.state.timer_at(), test_run.state.due_at),
        (Some(from_ms(check_at)), Some(from_ms(10_000 * SECOND)))
    );
    looked(&mut test_run, -40 * MINUTE, check_at);
    test_run.timer(1, check_at);
    assert_eq!((test_run.state.status, test_run.state.reason.as_deref()), (RunStatus::Exited, Some("exit_rules")));
    assert_eq!((test_run.state.timer_at(), test_run.sent()), (None, vec![]));
}

#[test]
fn event_does_not_move_timer_and_check_without_exit_reschedules() {
    let p = watched();
    let mut test_run = TestRun::new(&p);
    looked(&mut test_run, -40 * MINUTE, 0);
    test_run.apply(Input::Start, 0);
    let (set, check_at) = (timers(&test_run).len(), 20 * MINUTE + 1);
    // Another event does not move the timer; the check at that time takes it into account.
    looked(&mut test_run, 10 * MINUTE, 10 * MINUTE);
    test_run.event("looked", json!({}), 10 * MINUTE);
    assert_eq!(timers(&test_run).len(), set);
    looked(&mut test_run, 10 * MINUTE, check_at);
    test_run.timer(1, check_at).timer(1, check_at);
    let next = 70 * MINUTE + 1;
    assert_eq!(timers(&test_run)[set..], [(1, next), (1, next)], "a repeated timer schedules the same check");
    // The next check is at least a minute later, however soon an event leaves a window.
    looked(&mut test_run, 10 * MINUTE + 5, next);
    test_run.timer(1, next);
    assert_eq!(timers(&test_run).last(), Some(&(1, next + MINUTE)));
    assert_eq!(test_run.state.status, RunStatus::Waiting);
}

#[test]
fn wait_ends_on_time_despite_exit_checks() {
    let p = watched();
    let mut test_run = TestRun::new(&p);
    let end = 10_000 * SECOND;
    looked(&mut test_run, 0, 0);
    test_run.apply(Input::Start, 0);
    looked(&mut test_run, 2 * HOUR, HOUR + 1);
    test_run.timer(1, HOUR + 1);
    assert_eq!((timers(&test_run).last(), test_run.state.memory.next_check_at), (Some(&(1, end)), None));
    looked(&mut test_run, 2 * HOUR, end);
    // A repeated check does not end the wait; in the last millisecond the timer is the end of the wait.
    test_run.timer(1, end - 1);
    assert_eq!(test_run.state.status, RunStatus::Waiting);
    test_run.timer(1, end);
    assert_eq!((test_run.state.status, test_run.sent()), (RunStatus::Completed, vec![(1, "steps[1]")]));
}

#[test]
fn runs_of_inactive_automation_do_not_exit() {
    let p = watched();
    let mut test_run = TestRun::new(&p);
    looked(&mut test_run, 0, 0);
    test_run.apply(Input::Start, 0);
    looked(&mut test_run, 0, HOUR + 1);
    test_run.active = false;
    test_run.timer(1, HOUR + 1);
    let (check_at, end) = (2 * HOUR + 1, 10_000 * SECOND);
    assert_eq!((test_run.state.status, timers(&test_run).last()), (RunStatus::Waiting, Some(&(1, check_at))));
    test_run.timer(1, check_at);
    assert_eq!((test_run.state.status, timers(&test_run).last()), (RunStatus::Waiting, Some(&(1, end))));
    test_run.timer(1, end);
    assert_eq!(test_run.state.status, RunStatus::Frozen);
    test_run.active = true;
    test_run.state.status = RunStatus::Waiting;
    test_run.timer(1, end + SECOND);
    assert_eq!(test_run.state.status, RunStatus::Exited);
}

#[test]
fn rules_without_window_need_no_timer() {
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
fn exit_rules_are_checked_at_profile_date() {
    let came = json!([{ "field": "trialEnds", "operator": "within_last", "value": "30d" }]);
    let p = program(json!({ "exitRules": came, "steps": [wait(864_000.0)] }));
    let mut test_run = TestRun { user: user(json!({ "trialEnds": "1970-01-03" })), ..TestRun::new(&p) };
    test_run.apply(Input::Start, 0);
    let day = 24 * HOUR;
    assert_eq!(timers(&test_run).last(), Some(&(1, 2 * day)));
    test_run.timer(1, 2 * day);
    assert_eq!(test_run.state.status, RunStatus::Exited);
}
