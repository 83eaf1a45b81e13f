//! Tests of every type of step, and of runs as a whole.

use super::*;
use domain::message::Channel;

const COMPLETED: RunStatus = RunStatus::Completed;

#[test]
fn run_sends_waits_and_continues() {
    let p = steps(json!([mail(1), wait(5.0), mail(2), wait(0.0), mail(3)]));
    let mut test_run = TestRun::new(&p);
    test_run.apply(Input::Start, 1_000);
    assert_eq!(test_run.sent(), [(1, "steps[0]")]);
    assert_eq!(test_run.effects[1], Effect::SetTimer { wait_seq: 1, due_at: from_ms(6_000) });
    assert_eq!((test_run.state.status, test_run.state.position.as_str()), (RunStatus::Waiting, "steps[1]"));
    test_run.timer(1, 6_100);
    assert_eq!(test_run.sent(), [(1, "steps[0]"), (2, "steps[2]"), (3, "steps[4]")]);
    assert_eq!((test_run.state.status, test_run.state.position.as_str(), test_run.state.due_at), (COMPLETED, "", None));
}

#[test]
fn inapplicable_input_changes_nothing() {
    let p = steps(json!([wait(5.0), mail(1)]));
    let waiting = TestRun::started(&p).state.clone();
    for input in [Input::Start, Input::Timer { wait_seq: 0 }, Input::Timer { wait_seq: 2 }, Input::ProfileChanged] {
        let mut test_run = TestRun { state: waiting.clone(), ..TestRun::new(&p) };
        test_run.apply(input, 9);
        assert_eq!((&test_run.state, test_run.effects.len(), test_run.log.len()), (&waiting, 0, 0), "{input:?}");
    }
    let mut done = TestRun::started(&p);
    done.timer(1, 9);
    let (state, effects) = (done.state.clone(), done.effects.len());
    done.apply(Input::Start, 10).timer(1, 10).event("e", json!({}), 10);
    assert_eq!((done.state, done.effects.len()), (state, effects));
}

#[test]
fn each_channel_has_a_send_step() {
    for (kind, channel) in [
        ("SEND_EMAIL", Channel::Email),
        ("SEND_PUSH", Channel::Push),
        ("SEND_IN_APP", Channel::InApp),
        ("SEND_SMS", Channel::Sms),
    ] {
        let p = steps(json!([{ "type": kind, "templateId": Uuid::from_u128(3) }]));
        let (template_id, position) = (Uuid::from_u128(3), "steps[0]".to_owned());
        let effect = Effect::Send { channel, template_id, subscription_group_id: None, position };
        assert_eq!(TestRun::started(&p).effects, [effect]);
    }
}

#[test]
fn wait_for_event_takes_event_or_timeout_arm() {
    let awaits = json!({
        "type": "WAIT_FOR_EVENT", "name": "buy", "event": "bought", "timeout": 60,
        "where": [{ "field": "total", "operator": "gt", "value": 10 }], "then": [mail(1)], "else": [mail(2)],
    });
    let p = steps(json!([awaits, mail(3)]));
    let mut came = TestRun::started(&p);
    came.event("bought", json!({ "total": 5 }), 1).event("other", json!({ "total": 50 }), 2);
    assert_eq!(came.sent(), []);
    came.event("bought", json!({ "total": 50 }), 3).timer(1, 60_000);
    assert_eq!(came.sent(), [(1, "steps[0].then[0]"), (3, "steps[1]")]);
    assert_eq!(came.log_summary()[1], ("steps[0]", LogAction::Took, Some("then")));
    assert_eq!(came.state.memory.steps["buy"]["event"]["properties"]["total"], 50);
    let mut late = TestRun::started(&p);
    late.timer(1, 60_000).event("bought", json!({ "total": 50 }), 60_001);
    assert_eq!(late.sent(), [(2, "steps[0].else[0]"), (3, "steps[1]")]);
}

#[test]
fn branch_takes_first_matching_arm() {
    let rule = |field: &str, value: Value| json!([{ "field": field, "operator": "eq", "value": value }]);
    let branches = json!([
        { "rules": rule("plan", json!("pro")), "steps": [mail(1)] },
        { "rules": rule("event.properties.total", json!(9)), "steps": [mail(2)] },
        { "rules": rule("steps.crm.response.tier", json!(3)), "steps": [mail(3)] },
    ]);
    let p = steps(json!([{ "type": "BRANCH", "branches": branches, "else": [mail(4)] }, mail(5)]));
    for (plan, total, tier, arm, sent) in [
        ("pro", 9, 3, "branches[0]", 1),
        ("free", 9, 3, "branches[1]", 2),
        ("free", 1, 3, "branches[2]", 3),
        ("free", 1, 1, "else", 4),
    ] {
        let mut test_run = TestRun::new(&p);
        test_run.user = user(json!({ "plan": plan }));
        test_run.trigger = json!({ "properties": { "total": total } });
        test_run.state.memory.steps.insert("crm".to_owned(), json!({ "response": { "tier": tier } }));
        test_run.apply(Input::Start, 0);
        assert_eq!(test_run.log_summary()[0], ("steps[0]", LogAction::Took, Some(arm)));
        assert_eq!(test_run.sent().iter().map(|s| s.0).collect::<Vec<_>>(), [sent, 5]);
    }
}

#[test]
fn split_is_weighted_and_deterministic() {
    let arms = json!([{ "weight": 3, "steps": [mail(0)] }, { "weight": 1, "steps": [mail(1)] }]);
    let p = steps(json!([{ "type": "SPLIT", "branches": arms }]));
    let arm = |id: u128| {
        let mut test_run = TestRun { id: Uuid::from_u128(id), ..TestRun::new(&p) };
        test_run.apply(Input::Start, 0);
        test_run.sent()[0].0
    };
    let second = (0..10_000).filter(|id| arm(*id) == 1).count();
    assert!((2_300..2_700).contains(&second), "{second}");
    assert!((0..100).all(|id| arm(id) == arm(id)));
}

#[test]
fn later_steps_see_profile_update() {
    let vip = json!([{ "field": "tier", "operator": "eq", "value": "vip" }]);
    let p = steps(json!([
        { "type": "UPDATE_USER", "properties": { "tier": "vip", "last": "{{ event.properties.total }}", "old": null } },
        { "type": "BRANCH", "branches": [{ "rules": vip, "steps": [mail(1)] }] },
        { "type": "TRACK_EVENT", "event": "promoted", "properties": { "who": "{{ user.name }}" } },
    ]));
    let test_run = TestRun::started(&p);
    assert_eq!(test_run.sent(), [(1, "steps[1].branches[0].steps[0]")]);
    let Effect::UpdateUser { properties, .. } = &test_run.effects[0] else { panic!("{:?}", test_run.effects) };
    assert_eq!(json!(properties), json!({ "tier": "vip", "last": 9, "old": null }));
    let Effect::TrackEvent { name, properties, depth, .. } = &test_run.effects[2] else {
        panic!("{:?}", test_run.effects)
    };
    assert_eq!((name.as_str(), json!(properties), *depth), ("promoted", json!({ "who": "Ana" }), 1));
}

/// Rendering is limited per input, because the recording transaction waits for it.
#[test]
fn run_fails_when_rendering_exceeds_limits() {
    let loops = |times: u32| format!("{{% for i in (1..{times}) %}}{{{{ user.name }}}}{{% endfor %}}");
    let update = |text: &str, many: usize| {
        let properties: Map<String, Value> = (0..many).map(|i| (format!("p{i}"), json!(text))).collect();
        json!({ "type": "UPDATE_USER", "properties": properties })
    };
    let failed = |p: &Program| {
        let test_run = TestRun::started(p);
        let ended = (test_run.state.status, test_run.state.reason.clone());
        let last = test_run.log.last().map(|m| (m.step.clone(), m.did, m.why.clone()));
        (ended, last, test_run.effects.len())
    };
    let why = || Some("rendering_limit".to_owned());
    let ended = || (RunStatus::Failed, why());
    // Each text on its own is within the limits.
    let p = steps(json!([mail(1), update(&loops(2_000), 90), mail(2)]));
    assert_eq!(failed(&p), (ended(), Some(("steps[1]".to_owned(), LogAction::Failed, why())), 1));
    // So is each step on its own.
    let p = steps(json!([update(&loops(2_000), 5), update(&loops(2_000), 5), update(&loops(2_000), 5), mail(1)]));
    assert_eq!(failed(&p), (ended(), Some(("steps[2]".to_owned(), LogAction::Failed, why())), 2));
    // Copies of copies.
    let twice =
        json!({ "type": "UPDATE_USER", "properties": { "a": "{{ user.properties }}", "b": "{{ user.properties }}" } });
    let p = steps(json!(vec![twice; 40]));
    assert_eq!(failed(&p).0, ended());
    let track = json!({ "type": "TRACK_EVENT", "event": "c", "properties": { "x": loops(50_000) } });
    assert_eq!(failed(&steps(json!([track]))).0, ended());
    let hook = json!({ "type": "WEBHOOK", "name": "n", "url": "https://example.com", "body": { "x": loops(50_000) } });
    assert_eq!(failed(&steps(json!([hook]))).0, ended());
    // Realistic templates are far below the limits: a cart of 100 items and some properties at every step.
    let cart = "{% for i in (1..100) %}{{ i }}: {{ user.name | upcase }}, {{ event.properties.total | plus: i }} EUR{% endfor %}";
    let p = steps(json!(vec![update(cart, 2); 5]));
    assert_eq!(TestRun::started(&p).state.status, COMPLETED);
    // Each input has its own limits.
    let p = steps(json!([update(&loops(2_000), 8), wait(1.0), update(&loops(2_000), 8)]));
    let mut test_run = TestRun::started(&p);
    assert_eq!(test_run.timer(1, 1_000).state.status, COMPLETED);
}

#[test]
fn step_without_user_requires_user() {
    let p = steps(
        json!([mail(1), { "type": "BRANCH", "branches": [], "else": [{ "type": "UPDATE_USER", "properties": {} }] }]),
    );
    let trigger = json!({});
    let run = Run { id: Uuid::nil(), started_at: from_ms(0), depth: 0, trigger: &trigger };
    let mut situation = Situation { now: from_ms(0), active: true, timezone: TimeZone::UTC, user: None };
    let start = State::at_start();
    assert_eq!(step(&p, run, &start, Input::Start, &mut situation), Err(UserRequired));
}

#[test]
fn webhook_waits_for_result_and_continues_after_timeout() {
    let hook = json!({ "type": "WEBHOOK", "name": "crm", "url": "https://example.com", "body": { "id": "{{ user.externalId }}" } });
    let p = steps(json!([hook, mail(1)]));
    let test_run = TestRun::started(&p);
    let Effect::Call { wait_seq, name, body, .. } = &test_run.effects[1] else { panic!("{:?}", test_run.effects) };
    assert_eq!((*wait_seq, name.as_str(), body), (1, "crm", &json!({ "id": "u" })));
    let outcome = |error: Option<&str>| CallOutcome {
        status: Some(200),
        response: json!({ "tier": 3 }),
        error: error.map(str::to_owned),
    };
    for (error, did) in [(None, LogAction::Answered), (Some("answered with 404"), LogAction::Failed)] {
        let mut test_run = TestRun::started(&p);
        test_run.apply(Input::CallOutcome { wait_seq: 0, outcome: &outcome(error) }, 1);
        assert_eq!(test_run.sent(), [], "stale");
        test_run.apply(Input::CallOutcome { wait_seq: 1, outcome: &outcome(error) }, 2);
        test_run.apply(Input::CallOutcome { wait_seq: 1, outcome: &outcome(error) }, 3);
        assert_eq!((test_run.sent(), test_run.log[1].did), (vec![(1, "steps[1]")], did));
        assert_eq!(test_run.state.memory.steps["crm"]["response"]["tier"], 3);
    }
    let mut unanswered = TestRun::started(&p);
    unanswered.timer(1, 7_200_000);
    assert_eq!(
        (unanswered.sent().len(), unanswered.state.memory.steps["crm"]["error"].as_str()),
        (1, Some("no_answer"))
    );
}

#[test]
fn wait_until_skips_invalid_and_past_dates() {
    let p = steps(json!([{ "type": "WAIT_UNTIL", "property": "renewal", "offset": -60 }, mail(1)]));
    for (renewal, did) in [
        (json!("1970-01-01T00:10:00Z"), LogAction::Waited),
        (json!("1970-01-01T00:00:30Z"), LogAction::Passed),
        (json!("soon"), LogAction::Skipped),
        (json!(null), LogAction::Skipped),
    ] {
        let mut test_run = TestRun::new(&p);
        test_run.user = user(json!({ "renewal": renewal }));
        test_run.apply(Input::Start, 0);
        assert_eq!(
            (test_run.log[0].did, test_run.sent().len()),
            (did, usize::from(did != LogAction::Waited)),
            "{renewal}"
        );
    }
    let p = steps(json!([{ "type": "WAIT_UNTIL", "time": "09:00" }]));
    let mut test_run = TestRun::new(&p);
    test_run.user = user(json!({ "timezone": "Europe/Oslo" }));
    test_run.apply(Input::Start, 0);
    assert_eq!(test_run.state.due_at, Some("1970-01-01T08:00:00Z".parse().unwrap()));
}

#[test]
fn exit_rules_apply_while_waiting_and_before_each_step() {
    let left = json!([{ "field": "left", "operator": "eq", "value": true }]);
    let p = program(json!({ "exitRules": left, "steps": [mail(1), wait(60.0), mail(2)] }));
    assert_eq!(p.exit_events().iter().collect::<Vec<_>>(), [ANY_CHANGE]);
    let mut test_run = TestRun::started(&p);
    test_run.apply(Input::ProfileChanged, 1);
    assert_eq!(test_run.state.status, RunStatus::Waiting);
    test_run.user = user(json!({ "left": true }));
    let mut by_time = TestRun { state: test_run.state.clone(), user: test_run.user.clone(), ..TestRun::new(&p) };
    test_run.apply(Input::ProfileChanged, 2);
    by_time.timer(1, 60_000);
    for test_run in [&test_run, &by_time] {
        assert_eq!((test_run.state.status, test_run.state.reason.as_deref()), (RunStatus::Exited, Some("exit_rules")));
        assert!(test_run.sent().iter().all(|s| s.0 == 1));
    }
    let by_deed = program(json!({ "exitRules": [{ "field": "event:bought", "operator": "did" }], "steps": [] }));
    assert_eq!(by_deed.exit_events().iter().collect::<Vec<_>>(), ["bought"]);
}

#[test]
fn goal_counts_once_within_its_time_even_after_run_ended() {
    let goal =
        json!({ "event": "bought", "within": 60, "where": [{ "field": "total", "operator": "gt", "value": 1 }] });
    let p = program(json!({ "goal": goal, "steps": [mail(1)] }));
    let mut test_run = TestRun::started(&p);
    assert_eq!(test_run.state.status, COMPLETED);
    let run = Run { id: test_run.id, started_at: from_ms(0), depth: 0, trigger: &test_run.trigger };
    assert_eq!(event_subscriptions(&p, run, &test_run.state)["bought"], Some(from_ms(60_000)));
    test_run.event("bought", json!({ "total": 1 }), 10).event("bought", json!({ "total": 2 }), 20);
    test_run.event("bought", json!({ "total": 3 }), 30);
    assert_eq!((test_run.state.converted_at, test_run.state.status), (Some(from_ms(20)), COMPLETED));
    assert!(event_subscriptions(&p, run_of(&test_run), &test_run.state).is_empty());
    let mut late = TestRun::started(&p);
    late.event("bought", json!({ "total": 2 }), 60_001);
    assert_eq!(late.state.converted_at, None);
}

fn run_of<'a>(test_run: &'a TestRun<'_>) -> Run<'a> {
    Run { id: test_run.id, started_at: from_ms(0), depth: 0, trigger: &test_run.trigger }
}

#[test]
fn wait_that_ends_while_inactive_continues_later() {
    let awaits = json!({ "type": "WAIT_FOR_EVENT", "event": "x", "timeout": 60, "then": [mail(1)], "else": [mail(2)] });
    let p = steps(json!([awaits]));
    for (event_first, sent) in [(true, 1), (false, 2)] {
        let mut test_run = TestRun::started(&p);
        test_run.active = false;
        if event_first {
            test_run.event("x", json!({}), 5);
        }
        test_run.timer(1, 60_000).event("x", json!({}), 60_005);
        assert_eq!((test_run.state.status, test_run.sent().len()), (RunStatus::Frozen, 0));
        // After resuming, the run waits again for the timer with the same number.
        (test_run.active, test_run.state.status) = (true, RunStatus::Waiting);
        test_run.timer(1, 90_000);
        assert_eq!(test_run.sent().iter().map(|s| s.0).collect::<Vec<_>>(), [sent]);
    }
}

#[test]
fn message_a_day_late_is_skipped() {
    let p = steps(json!([wait(60.0), mail(1), wait(60.0), mail(2)]));
    let day = MAX_SEND_LATENESS.as_millis() as i64;
    let mut test_run = TestRun::started(&p);
    test_run.timer(1, 60_000 + day + 1_000).timer(2, 60_000 + day + 61_000);
    assert_eq!(test_run.sent(), [(2, "steps[3]")]);
    assert_eq!((test_run.log[2].did, test_run.log[2].why.as_deref()), (LogAction::Skipped, Some("too_late")));
    let mut in_time = TestRun::started(&p);
    in_time.timer(1, 60_000 + day);
    assert_eq!(in_time.sent(), [(1, "steps[1]")]);
}

#[test]
fn chain_of_automations_is_limited() {
    let start = json!({ "type": "START_AUTOMATION", "automationId": Uuid::from_u128(8) });
    for (step, wait_s) in [(start, 0.0), (json!({ "type": "TRACK_EVENT", "event": "e" }), 60.0)] {
        let p = steps(json!([wait(wait_s), step, mail(1)]));
        let mut test_run = TestRun { depth: MAX_CHAIN_DEPTH, ..TestRun::new(&p) };
        test_run.apply(Input::Start, 0).timer(1, 60_000);
        assert_eq!((test_run.state.status, test_run.state.reason.as_deref()), (RunStatus::Exited, Some("loop")));
        assert!(test_run.sent().is_empty());
    }
    // A chain that is slow enough may continue forever.
    let p = steps(json!([wait(3_600.0), { "type": "TRACK_EVENT", "event": "e" }]));
    let mut test_run = TestRun { depth: MAX_CHAIN_DEPTH, ..TestRun::new(&p) };
    test_run.apply(Input::Start, 0).timer(1, 3_600_000);
    assert!(matches!(test_run.effects.last(), Some(Effect::TrackEvent { depth: 1, .. })), "{:?}", test_run.effects);
}

#[test]
fn unknown_position_fails_run() {
    let p = steps(json!([mail(1)]));
    let state = State { position: "steps[7]".to_owned(), wait_seq: 1, ..State::at_start() };
    let mut test_run = TestRun { state, ..TestRun::new(&p) };
    test_run.timer(1, 0);
    assert_eq!(
        (test_run.state.status, test_run.state.reason.as_deref()),
        (RunStatus::Failed, Some("position_unknown"))
    );
}
