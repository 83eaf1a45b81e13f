//! Tests of runs: step by step, and against a reference implementation that walks the step tree.

mod exit_checks;
mod model;
mod steps;

use std::collections::{BTreeSet, HashSet};

use jiff::tz::TimeZone;
use serde_json::{Value, json};
use uuid::Uuid;

use super::*;
use crate::Definition;
use kernel::clock::from_ms;

/// Compiles an automation with these fields.
fn program(parts: Value) -> Program {
    let mut whole = json!({ "triggerType": "EVENT", "triggerEvent": "e", "reentry": "always", "steps": [] });
    whole.as_object_mut().unwrap().extend(parts.as_object().unwrap().clone());
    Program::compile(&Definition::decode(whole).unwrap()).unwrap()
}

fn steps(steps: Value) -> Program {
    program(json!({ "steps": steps }))
}

fn mail(n: u128) -> Value {
    json!({ "type": "SEND_EMAIL", "templateId": Uuid::from_u128(n) })
}

fn wait(delay: f64) -> Value {
    json!({ "type": "WAIT", "delay": delay })
}

fn user(properties: Value) -> RunUser {
    RunUser {
        id: Uuid::from_u128(9),
        external_id: Some("u".to_owned()),
        anonymous_id: None,
        email: None,
        name: Some("Ana".to_owned()),
        // The name is also a property.
        properties: json!({ "name": "Ana" })
            .as_object()
            .into_iter()
            .chain(properties.as_object())
            .flatten()
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect(),
        created_at: from_ms(0),
        last_seen_at: from_ms(0),
        platforms: BTreeSet::new(),
        counted: Vec::new(),
        segments: HashSet::new(),
        segments_change_at: None,
    }
}

/// A run under test, with everything it has produced so far.
struct TestRun<'a> {
    program: &'a Program,
    trigger: Value,
    id: Uuid,
    depth: i16,
    state: State,
    user: RunUser,
    active: bool,
    effects: Vec<Effect>,
    log: Vec<LogEntry>,
}

impl<'a> TestRun<'a> {
    fn new(program: &'a Program) -> Self {
        Self {
            program,
            trigger: json!({ "name": "e", "properties": { "total": 9 } }),
            id: Uuid::from_u128(77),
            depth: 0,
            state: State::at_start(),
            user: user(json!({})),
            active: true,
            effects: Vec::new(),
            log: Vec::new(),
        }
    }

    /// Creates a run that was triggered at time 0.
    fn started(program: &'a Program) -> Self {
        let mut test_run = Self::new(program);
        test_run.apply(Input::Start, 0);
        test_run
    }

    fn apply(&mut self, input: Input<'_>, at_ms: i64) -> &mut Self {
        let mut situation = Situation {
            now: from_ms(at_ms),
            active: self.active,
            timezone: TimeZone::UTC,
            user: Some(self.user.clone()),
        };
        let run = Run { id: self.id, started_at: from_ms(0), depth: self.depth, trigger: &self.trigger };
        let moved = step(self.program, run, &self.state, input, &mut situation).unwrap();
        self.user = situation.user.unwrap();
        self.state = moved.state;
        self.effects.extend(moved.effects);
        self.log.extend(moved.log);
        self
    }

    fn event(&mut self, name: &str, properties: Value, at_ms: i64) -> &mut Self {
        let properties = properties.as_object().cloned().unwrap();
        let occurrence = Occurrence { id: Uuid::from_u128(5), name, properties: &properties, at: from_ms(at_ms) };
        self.apply(Input::Event(occurrence), at_ms)
    }

    fn timer(&mut self, wait_seq: i32, at_ms: i64) -> &mut Self {
        self.apply(Input::Timer { wait_seq }, at_ms)
    }

    /// Returns the number of each sent email's template, and the path of the step that sent it.
    fn sent(&self) -> Vec<(u128, &str)> {
        let mails = self.effects.iter().filter_map(|e| match e {
            Effect::Send { template_id, position, .. } => Some((template_id.as_u128(), position.as_str())),
            _ => None,
        });
        mails.collect()
    }

    fn log_summary(&self) -> Vec<(&str, LogAction, Option<&str>)> {
        self.log.iter().map(|m| (m.step.as_str(), m.did, m.arm.as_deref())).collect()
    }
}
