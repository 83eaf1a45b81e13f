//! A version of an automation, compiled: its steps in one list, each with the one that follows.

use std::collections::BTreeSet;

use jiff::civil::Time;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::decisive;
use super::values::Values;
use crate::{Action, DateTrigger, Definition, Reentry, Step};
use domain::message::Channel;
use rules::time::time_of_day;
use rules::{Condition, Rule, Source};

/// Where a run goes on; `None` is the end.
pub(super) type Next = Option<usize>;

/// A compiled step.
#[derive(Debug)]
pub(super) struct Instruction {
    /// Its place in the definition.
    pub path: String,
    pub name: Option<String>,
    pub op: Op,
    pub next: Next,
}

/// What an instruction does.
#[derive(Debug)]
pub(super) enum Op {
    Send { channel: Channel, template_id: Uuid, subscription_group_id: Option<Uuid> },
    Wait { delay: f64 },
    WaitUntil { time: Option<Time>, property: Option<String>, offset: f64 },
    WaitForEvent { event: String, filter: Vec<Rule>, timeout: f64, then: Next, otherwise: Next },
    Branch { arms: Vec<(Vec<Rule>, Next)>, otherwise: Next },
    Split { arms: Vec<(f64, Next)> },
    UpdateUser { properties: Values },
    TrackEvent { event: String, properties: Values },
    Webhook { url: String, body: Option<Values> },
    StartAutomation { automation_id: Uuid },
    Exit,
}

/// What counts as success.
#[derive(Debug)]
pub struct Goal {
    pub event: String,
    pub filter: Vec<Rule>,
    /// Seconds.
    pub within: f64,
}

/// A version of an automation, ready to be run.
#[derive(Debug)]
pub struct Program {
    pub reentry: Reentry,
    /// On the properties of what triggers.
    pub trigger_filter: Vec<Rule>,
    /// Only where that is the trigger.
    pub trigger_date: Option<DateTrigger>,
    /// On the person.
    pub entry_rules: Vec<Rule>,
    pub exit_rules: Vec<Rule>,
    pub goal: Option<Goal>,
    exits_by: BTreeSet<String>,
    exits_by_time: bool,
    /// No longer than it has to be: a worker holds those of every active automation.
    instructions: Box<[Instruction]>,
    first: Next,
    changes_person: bool,
    person_rules: Box<[Rule]>,
}

impl Program {
    /// The error names the place in the definition, which was checked when it was saved.
    pub fn compile(definition: &Definition) -> Result<Self, String> {
        let exit_rules = rules(definition.exit_rules.as_ref(), "exitRules")?;
        let goal = definition.goal.as_ref().map(|goal| {
            let filter = event_rules(goal.filter.as_ref(), "goal.where")?;
            Ok::<_, String>(Goal { event: goal.event.clone(), filter, within: goal.within })
        });
        let mut program = Self {
            reentry: definition.reentry,
            trigger_filter: event_rules(definition.trigger_filter.as_ref(), "triggerFilter")?,
            trigger_date: definition.date().cloned(),
            entry_rules: rules(definition.entry_rules.as_ref(), "entryRules")?,
            exits_by: decisive::by_events(&exit_rules),
            exits_by_time: decisive::by_time(&exit_rules),
            exit_rules,
            goal: goal.transpose()?,
            instructions: Box::default(),
            first: None,
            changes_person: false,
            person_rules: Box::default(),
        };
        let mut block = Block::default();
        program.first = block.steps(&definition.steps, "steps", None)?;
        program.instructions = block.0.into_boxed_slice();
        program.changes_person = program.instructions.iter().any(|one| matches!(one.op, Op::UpdateUser { .. }));
        program.person_rules = program.all_person_rules();
        Ok(program)
    }

    pub(super) fn first(&self) -> Next {
        self.first
    }

    pub(super) fn instruction(&self, index: usize) -> Option<&Instruction> {
        self.instructions.get(index)
    }

    pub(super) fn standing_at(&self, path: &str) -> Option<&Instruction> {
        self.instructions.iter().find(|one| one.path == path)
    }

    pub(super) fn at(&self, path: &str) -> Option<&Op> {
        self.standing_at(path).map(|one| &one.op)
    }

    pub(super) fn exits_by(&self) -> &BTreeSet<String> {
        &self.exits_by
    }

    /// Whether its exit rules may come to hold though nothing happens.
    pub(super) fn exits_by_time(&self) -> bool {
        self.exits_by_time
    }

    /// The names of all events that a run of it may ever listen for, [`super::ANYTHING`] included.
    pub fn may_hear(&self) -> BTreeSet<String> {
        let waited = self.instructions.iter().filter_map(|one| match &one.op {
            Op::WaitForEvent { event, .. } => Some(event.clone()),
            _ => None,
        });
        waited.chain(self.goal.iter().map(|goal| goal.event.clone())).chain(self.exits_by.iter().cloned()).collect()
    }

    /// Whether a step writes the person's profile, so that their row must be locked.
    pub fn changes_person(&self) -> bool {
        self.changes_person
    }

    /// All rules that are asked of the person: for coming in, for leaving, and those of branches.
    pub fn person_rules(&self) -> &[Rule] {
        &self.person_rules
    }

    fn all_person_rules(&self) -> Box<[Rule]> {
        let branches = self.instructions.iter().flat_map(|one| match &one.op {
            Op::Branch { arms, .. } => arms.iter().flat_map(|(rules, _)| rules.clone()).collect(),
            _ => Vec::new(),
        });
        self.entry_rules.iter().chain(&self.exit_rules).cloned().chain(branches).collect()
    }

    /// Whether rules ask for more than a person's row holds for recording.
    pub fn asks_beyond_profile(rules: &[Rule]) -> bool {
        let is_of_profile = |condition: &Condition| match condition {
            Condition::Value { source, .. } => *source != Source::CreatedAt,
            _ => false,
        };
        rules::leaves(rules).iter().any(|leaf| !is_of_profile(&leaf.condition))
    }
}

/// The list of instructions as it grows.
#[derive(Default)]
struct Block(Vec<Instruction>);

impl Block {
    /// Compiles steps after which `end` follows, the last one first, so that what follows is known; returns where they
    /// begin.
    fn steps(&mut self, steps: &[Step], path: &str, end: Next) -> Result<Next, String> {
        let mut next = end;
        for (i, step) in steps.iter().enumerate().rev() {
            let path = format!("{path}[{i}]");
            let op = self.op(&step.action, &path, next)?;
            self.0.push(Instruction { path, name: step.name.clone(), op, next });
            next = Some(self.0.len() - 1);
        }
        Ok(next)
    }

    fn op(&mut self, action: &Action, path: &str, next: Next) -> Result<Op, String> {
        if let Some((channel, template_id)) = action.sends() {
            return Ok(Op::Send { channel, template_id, subscription_group_id: action.subscription_group() });
        }
        let mut arms = Vec::new();
        for (arm, steps) in action.arms() {
            arms.push(self.steps(steps, &format!("{path}{arm}"), next)?);
        }
        let mut arms = arms.into_iter();
        let values = |field: &str, value: &Value| Values::compile(value).map_err(|e| format!("{path}.{field}: {e}"));
        let object = |field: &str, map: &Map<String, Value>| values(field, &json!(map));
        Ok(match action {
            Action::Wait { delay } => Op::Wait { delay: *delay },
            Action::WaitUntil { time, property, offset } => {
                let read = |text: &String| time_of_day(text).ok_or(format!("{path}.time: {text:?} is no time of day"));
                let time = time.as_ref().map(read).transpose()?;
                Op::WaitUntil { time, property: property.clone(), offset: offset.unwrap_or(0.0) }
            }
            Action::WaitForEvent { event, filter, timeout, .. } => {
                let filter = event_rules(filter.as_ref(), &format!("{path}.where"))?;
                let (then, otherwise) = (arms.next().flatten(), arms.next().flatten());
                Op::WaitForEvent { event: event.clone(), filter, timeout: *timeout, then, otherwise }
            }
            Action::Branch { branches, .. } => {
                let mut read = Vec::new();
                for (i, arm) in branches.iter().enumerate() {
                    let rules = rules(Some(&arm.rules), &format!("{path}.branches[{i}].rules"))?;
                    read.push((rules, arms.next().flatten()));
                }
                Op::Branch { arms: read, otherwise: arms.next().flatten() }
            }
            Action::Split { branches } => Op::Split { arms: branches.iter().map(|b| b.weight).zip(arms).collect() },
            Action::UpdateUser { properties } => Op::UpdateUser { properties: object("properties", properties)? },
            Action::TrackEvent { event, properties } => {
                Op::TrackEvent { event: event.clone(), properties: object("properties", properties)? }
            }
            Action::Webhook(request) => {
                let body = request.body.as_ref().map(|body| values("body", body)).transpose()?;
                Op::Webhook { url: request.url.clone(), body }
            }
            Action::StartAutomation { automation_id } => Op::StartAutomation { automation_id: *automation_id },
            Action::Exit {} => Op::Exit,
            Action::SendEmail { .. } | Action::SendPush { .. } | Action::SendInApp { .. } | Action::SendSms { .. } => {
                return Err(format!("{path}: sends nothing"));
            }
        })
    }
}

fn rules(stored: Option<&Value>, path: &str) -> Result<Vec<Rule>, String> {
    read(stored, path, rules::parse)
}

fn event_rules(stored: Option<&Value>, path: &str) -> Result<Vec<Rule>, String> {
    read(stored, path, rules::parse_for_event)
}

type Parse = fn(&Value, &str) -> Result<Vec<Rule>, Vec<rules::RuleProblem>>;

fn read(stored: Option<&Value>, path: &str, parse: Parse) -> Result<Vec<Rule>, String> {
    let problem = |problems: Vec<rules::RuleProblem>| {
        problems.first().map_or_else(|| path.to_owned(), |p| format!("{}: {}", p.path, p.message))
    };
    stored.map_or(Ok(Vec::new()), |stored| parse(stored, path).map_err(problem))
}
