//! Tests of every type of step, and of runs as a whole.

use super::*;
use domain::message::Channel;

const COMPLETED: RunStatus = RunStatus::Completed;

#[test]
fn a_run_sends_waits_and_goes_on() {
    let p = steps(json!([mail(1), wait(5.0), mail(2), wait(0.0), mail(3)]));
    let mut ride = Ride::new(&p);
    ride.meet(Input::Start, 1_000);
    assert_eq!(ride.sent(), [(1, "steps[0]")]);
    assert_eq!(ride.effects[1], Effect::SetTimer { wait_seq: 1, due_at: from_ms(6_000) });
    assert_eq!((ride.state.status, ride.state.position.as_str()), (RunStatus::Waiting, "steps[1]"));
    ride.timer(1, 6_100);
    assert_eq!(ride.sent(), [(1, "steps[0]"), (2, "steps[2]"), (3, "steps[4]")]);
    assert_eq!((ride.state.status, ride.state.position.as_str(), ride.state.due_at), (COMPLETED, "", None));
}

#[test]
fn what_does_not_fit_changes_nothing() {
    let p = steps(json!([wait(5.0), mail(1)]));
    let waiting = Ride::started(&p).state.clone();
    for input in [Input::Start, Input::Timer { wait_seq: 0 }, Input::Timer { wait_seq: 2 }, Input::Changed] {
        let mut ride = Ride { state: waiting.clone(), ..Ride::new(&p) };
        ride.meet(input, 9);
        assert_eq!((&ride.state, ride.effects.len(), ride.marks.len()), (&waiting, 0, 0), "{input:?}");
    }
    let mut done = Ride::started(&p);
    done.timer(1, 9);
    let (state, effects) = (done.state.clone(), done.effects.len());
    done.meet(Input::Start, 10).timer(1, 10).event("e", json!({}), 10);
    assert_eq!((done.state, done.effects.len()), (state, effects));
}

#[test]
fn each_channel_has_its_step() {
    for (kind, channel) in [
        ("SEND_EMAIL", Channel::Email),
        ("SEND_PUSH", Channel::Push),
        ("SEND_IN_APP", Channel::InApp),
        ("SEND_SMS", Channel::Sms),
    ] {
        let p = steps(json!([{ "type": kind, "templateId": Uuid::from_u128(3) }]));
        let (template_id, position) = (Uuid::from_u128(3), "steps[0]".to_owned());
        let effect = Effect::Send { channel, template_id, subscription_group_id: None, position };
        assert_eq!(Ride::started(&p).effects, [effect]);
    }
}

#[test]
fn a_wait_for_an_event_takes_its_arms() {
    let awaits = json!({
        "type": "WAIT_FOR_EVENT", "name": "buy", "event": "bought", "timeout": 60,
        "where": [{ "field": "total", "operator": "gt", "value": 10 }], "then": [mail(1)], "else": [mail(2)],
    });
    let p = steps(json!([awaits, mail(3)]));
    let mut came = Ride::started(&p);
    came.event("bought", json!({ "total": 5 }), 1).event("other", json!({ "total": 50 }), 2);
    assert_eq!(came.sent(), []);
    came.event("bought", json!({ "total": 50 }), 3).timer(1, 60_000);
    assert_eq!(came.sent(), [(1, "steps[0].then[0]"), (3, "steps[1]")]);
    assert_eq!(came.marked()[1], ("steps[0]", Did::Took, Some("then")));
    assert_eq!(came.state.memory.steps["buy"]["event"]["properties"]["total"], 50);
    let mut late = Ride::started(&p);
    late.timer(1, 60_000).event("bought", json!({ "total": 50 }), 60_001);
    assert_eq!(late.sent(), [(2, "steps[0].else[0]"), (3, "steps[1]")]);
}

#[test]
fn a_branch_takes_the_first_arm_that_holds() {
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
        let mut ride = Ride::new(&p);
        ride.person = person(json!({ "plan": plan }));
        ride.trigger = json!({ "properties": { "total": total } });
        ride.state.memory.steps.insert("crm".to_owned(), json!({ "response": { "tier": tier } }));
        ride.meet(Input::Start, 0);
        assert_eq!(ride.marked()[0], ("steps[0]", Did::Took, Some(arm)));
        assert_eq!(ride.sent().iter().map(|s| s.0).collect::<Vec<_>>(), [sent, 5]);
    }
}

#[test]
fn a_split_divides_by_weight_and_always_the_same_way() {
    let arms = json!([{ "weight": 3, "steps": [mail(0)] }, { "weight": 1, "steps": [mail(1)] }]);
    let p = steps(json!([{ "type": "SPLIT", "branches": arms }]));
    let arm = |id: u128| {
        let mut ride = Ride { id: Uuid::from_u128(id), ..Ride::new(&p) };
        ride.meet(Input::Start, 0);
        ride.sent()[0].0
    };
    let second = (0..10_000).filter(|id| arm(*id) == 1).count();
    assert!((2_300..2_700).contains(&second), "{second}");
    assert!((0..100).all(|id| arm(id) == arm(id)));
}

#[test]
fn a_step_that_changes_the_person_is_seen_by_those_that_follow() {
    let vip = json!([{ "field": "tier", "operator": "eq", "value": "vip" }]);
    let p = steps(json!([
        { "type": "UPDATE_USER", "properties": { "tier": "vip", "last": "{{ event.properties.total }}", "old": null } },
        { "type": "BRANCH", "branches": [{ "rules": vip, "steps": [mail(1)] }] },
        { "type": "TRACK_EVENT", "event": "promoted", "properties": { "who": "{{ user.name }}" } },
    ]));
    let ride = Ride::started(&p);
    assert_eq!(ride.sent(), [(1, "steps[1].branches[0].steps[0]")]);
    let Effect::UpdateUser { properties, .. } = &ride.effects[0] else { panic!("{:?}", ride.effects) };
    assert_eq!(json!(properties), json!({ "tier": "vip", "last": 9, "old": null }));
    let Effect::TrackEvent { name, properties, depth, .. } = &ride.effects[2] else { panic!("{:?}", ride.effects) };
    assert_eq!((name.as_str(), json!(properties), *depth), ("promoted", json!({ "who": "Ana" }), 1));
}

/// Rendering is limited per input, because the recording transaction waits for it.
#[test]
fn a_run_fails_whose_texts_cost_too_much_together() {
    let loops = |times: u32| format!("{{% for i in (1..{times}) %}}{{{{ user.name }}}}{{% endfor %}}");
    let update = |text: &str, many: usize| {
        let properties: Map<String, Value> = (0..many).map(|i| (format!("p{i}"), json!(text))).collect();
        json!({ "type": "UPDATE_USER", "properties": properties })
    };
    let failed = |p: &Program| {
        let ride = Ride::started(p);
        let ended = (ride.state.status, ride.state.reason.clone());
        let last = ride.marks.last().map(|m| (m.step.clone(), m.did, m.why.clone()));
        (ended, last, ride.effects.len())
    };
    let why = || Some("rendering_limit".to_owned());
    let ended = || (RunStatus::Failed, why());
    // Each text on its own is within the limits.
    let p = steps(json!([mail(1), update(&loops(2_000), 90), mail(2)]));
    assert_eq!(failed(&p), (ended(), Some(("steps[1]".to_owned(), Did::Failed, why())), 1));
    // So is each step on its own.
    let p = steps(json!([update(&loops(2_000), 5), update(&loops(2_000), 5), update(&loops(2_000), 5), mail(1)]));
    assert_eq!(failed(&p), (ended(), Some(("steps[2]".to_owned(), Did::Failed, why())), 2));
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
    assert_eq!(Ride::started(&p).state.status, COMPLETED);
    // Each input has its own limits.
    let p = steps(json!([update(&loops(2_000), 8), wait(1.0), update(&loops(2_000), 8)]));
    let mut ride = Ride::started(&p);
    assert_eq!(ride.timer(1, 1_000).state.status, COMPLETED);
}

#[test]
fn without_the_person_it_is_said_that_they_are_needed() {
    let p = steps(
        json!([mail(1), { "type": "BRANCH", "branches": [], "else": [{ "type": "UPDATE_USER", "properties": {} }] }]),
    );
    let trigger = json!({});
    let run = Run { id: Uuid::nil(), started_at: from_ms(0), depth: 0, trigger: &trigger };
    let mut situation = Situation { now: from_ms(0), active: true, timezone: TimeZone::UTC, person: None };
    let start = State::at_start();
    assert_eq!(step(&p, run, &start, Input::Start, &mut situation), Err(NeedsPerson));
}

#[test]
fn a_webhook_waits_for_its_answer_and_goes_on_without_one() {
    let hook = json!({ "type": "WEBHOOK", "name": "crm", "url": "https://example.com", "body": { "id": "{{ user.externalId }}" } });
    let p = steps(json!([hook, mail(1)]));
    let ride = Ride::started(&p);
    let Effect::Call { wait_seq, name, body, .. } = &ride.effects[1] else { panic!("{:?}", ride.effects) };
    assert_eq!((*wait_seq, name.as_str(), body), (1, "crm", &json!({ "id": "u" })));
    let answer = |error: Option<&str>| Answer {
        status: Some(200),
        response: json!({ "tier": 3 }),
        error: error.map(str::to_owned),
    };
    for (error, did) in [(None, Did::Answered), (Some("answered with 404"), Did::Failed)] {
        let mut ride = Ride::started(&p);
        ride.meet(Input::Answer { wait_seq: 0, answer: &answer(error) }, 1);
        assert_eq!(ride.sent(), [], "stale");
        ride.meet(Input::Answer { wait_seq: 1, answer: &answer(error) }, 2);
        ride.meet(Input::Answer { wait_seq: 1, answer: &answer(error) }, 3);
        assert_eq!((ride.sent(), ride.marks[1].did), (vec![(1, "steps[1]")], did));
        assert_eq!(ride.state.memory.steps["crm"]["response"]["tier"], 3);
    }
    let mut unanswered = Ride::started(&p);
    unanswered.timer(1, 7_200_000);
    assert_eq!(
        (unanswered.sent().len(), unanswered.state.memory.steps["crm"]["error"].as_str()),
        (1, Some("no_answer"))
    );
}

#[test]
fn waiting_until_a_date_skips_what_is_none_and_passes_what_is_over() {
    let p = steps(json!([{ "type": "WAIT_UNTIL", "property": "renewal", "offset": -60 }, mail(1)]));
    for (renewal, did) in [
        (json!("1970-01-01T00:10:00Z"), Did::Waited),
        (json!("1970-01-01T00:00:30Z"), Did::Passed),
        (json!("soon"), Did::Skipped),
        (json!(null), Did::Skipped),
    ] {
        let mut ride = Ride::new(&p);
        ride.person = person(json!({ "renewal": renewal }));
        ride.meet(Input::Start, 0);
        assert_eq!((ride.marks[0].did, ride.sent().len()), (did, usize::from(did != Did::Waited)), "{renewal}");
    }
    let p = steps(json!([{ "type": "WAIT_UNTIL", "time": "09:00" }]));
    let mut ride = Ride::new(&p);
    ride.person = person(json!({ "timezone": "Europe/Oslo" }));
    ride.meet(Input::Start, 0);
    assert_eq!(ride.state.due_at, Some("1970-01-01T08:00:00Z".parse().unwrap()));
}

#[test]
fn exit_rules_are_watched_while_waiting_and_before_every_step() {
    let left = json!([{ "field": "left", "operator": "eq", "value": true }]);
    let p = program(json!({ "exitRules": left, "steps": [mail(1), wait(60.0), mail(2)] }));
    assert_eq!(p.exits_by().iter().collect::<Vec<_>>(), [ANYTHING]);
    let mut ride = Ride::started(&p);
    ride.meet(Input::Changed, 1);
    assert_eq!(ride.state.status, RunStatus::Waiting);
    ride.person = person(json!({ "left": true }));
    let mut by_time = Ride { state: ride.state.clone(), person: ride.person.clone(), ..Ride::new(&p) };
    ride.meet(Input::Changed, 2);
    by_time.timer(1, 60_000);
    for ride in [&ride, &by_time] {
        assert_eq!((ride.state.status, ride.state.reason.as_deref()), (RunStatus::Exited, Some("exit_rules")));
        assert!(ride.sent().iter().all(|s| s.0 == 1));
    }
    let by_deed = program(json!({ "exitRules": [{ "field": "event:bought", "operator": "did" }], "steps": [] }));
    assert_eq!(by_deed.exits_by().iter().collect::<Vec<_>>(), ["bought"]);
}

#[test]
fn a_goal_counts_once_in_its_time_also_after_the_end() {
    let goal =
        json!({ "event": "bought", "within": 60, "where": [{ "field": "total", "operator": "gt", "value": 1 }] });
    let p = program(json!({ "goal": goal, "steps": [mail(1)] }));
    let mut ride = Ride::started(&p);
    assert_eq!(ride.state.status, COMPLETED);
    let run = Run { id: ride.id, started_at: from_ms(0), depth: 0, trigger: &ride.trigger };
    assert_eq!(listens(&p, run, &ride.state)["bought"], Some(from_ms(60_000)));
    ride.event("bought", json!({ "total": 1 }), 10).event("bought", json!({ "total": 2 }), 20);
    ride.event("bought", json!({ "total": 3 }), 30);
    assert_eq!((ride.state.converted_at, ride.state.status), (Some(from_ms(20)), COMPLETED));
    assert!(listens(&p, run_of(&ride), &ride.state).is_empty());
    let mut late = Ride::started(&p);
    late.event("bought", json!({ "total": 2 }), 60_001);
    assert_eq!(late.state.converted_at, None);
}

fn run_of<'a>(ride: &'a Ride<'_>) -> Run<'a> {
    Run { id: ride.id, started_at: from_ms(0), depth: 0, trigger: &ride.trigger }
}

#[test]
fn what_ends_a_wait_while_inactive_is_taken_up_later() {
    let awaits = json!({ "type": "WAIT_FOR_EVENT", "event": "x", "timeout": 60, "then": [mail(1)], "else": [mail(2)] });
    let p = steps(json!([awaits]));
    for (event_first, sent) in [(true, 1), (false, 2)] {
        let mut ride = Ride::started(&p);
        ride.active = false;
        if event_first {
            ride.event("x", json!({}), 5);
        }
        ride.timer(1, 60_000).event("x", json!({}), 60_005);
        assert_eq!((ride.state.status, ride.sent().len()), (RunStatus::Frozen, 0));
        // After resuming, the run waits again for the timer with the same number.
        (ride.active, ride.state.status) = (true, RunStatus::Waiting);
        ride.timer(1, 90_000);
        assert_eq!(ride.sent().iter().map(|s| s.0).collect::<Vec<_>>(), [sent]);
    }
}

#[test]
fn a_message_that_comes_a_day_late_is_left_out() {
    let p = steps(json!([wait(60.0), mail(1), wait(60.0), mail(2)]));
    let day = LATE.as_millis() as i64;
    let mut ride = Ride::started(&p);
    ride.timer(1, 60_000 + day + 1_000).timer(2, 60_000 + day + 61_000);
    assert_eq!(ride.sent(), [(2, "steps[3]")]);
    assert_eq!((ride.marks[2].did, ride.marks[2].why.as_deref()), (Did::Skipped, Some("too_late")));
    let mut in_time = Ride::started(&p);
    in_time.timer(1, 60_000 + day);
    assert_eq!(in_time.sent(), [(1, "steps[1]")]);
}

#[test]
fn automations_that_start_each_other_come_to_an_end() {
    let start = json!({ "type": "START_AUTOMATION", "automationId": Uuid::from_u128(8) });
    for (step, wait_s) in [(start, 0.0), (json!({ "type": "TRACK_EVENT", "event": "e" }), 60.0)] {
        let p = steps(json!([wait(wait_s), step, mail(1)]));
        let mut ride = Ride { depth: MOST_DEEP, ..Ride::new(&p) };
        ride.meet(Input::Start, 0).timer(1, 60_000);
        assert_eq!((ride.state.status, ride.state.reason.as_deref()), (RunStatus::Exited, Some("loop")));
        assert!(ride.sent().is_empty());
    }
    // A chain that is slow enough may continue forever.
    let p = steps(json!([wait(3_600.0), { "type": "TRACK_EVENT", "event": "e" }]));
    let mut ride = Ride { depth: MOST_DEEP, ..Ride::new(&p) };
    ride.meet(Input::Start, 0).timer(1, 3_600_000);
    assert!(matches!(ride.effects.last(), Some(Effect::TrackEvent { depth: 1, .. })), "{:?}", ride.effects);
}

#[test]
fn a_place_that_is_not_there_ends_the_run() {
    let p = steps(json!([mail(1)]));
    let state = State { position: "steps[7]".to_owned(), wait_seq: 1, ..State::at_start() };
    let mut ride = Ride { state, ..Ride::new(&p) };
    ride.timer(1, 0);
    assert_eq!((ride.state.status, ride.state.reason.as_deref()), (RunStatus::Failed, Some("position_unknown")));
}
