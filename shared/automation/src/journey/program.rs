//! A compiled version of an automation: a flat list of its steps, each with its successor.

use std::collections::BTreeSet;

use jiff::civil::Time;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::exit_triggers;
use super::values::Values;
use crate::{Action, DateTrigger, Definition, Reentry, Step};
use domain::message::Channel;
use rules::time::time_of_day;
use rules::{Condition, Rule, Source};

/// Index of the next instruction; `None` is the end.
pub(super) type Next = Option<usize>;

/// A compiled step.
#[derive(Debug)]
pub(super) struct Instruction {
    /// Path of the step in the definition.
    pub path: String,
    pub name: Option<String>,
    pub op: Op,
    pub next: Next,
}

/// The operation of an instruction.
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

/// The compiled conversion goal.
#[derive(Debug)]
pub struct Goal {
    pub event: String,
    pub filter: Vec<Rule>,
    /// Seconds after the start of the run.
    pub within: f64,
}

/// An executable version of an automation.
#[derive(Debug)]
pub struct Program {
    pub reentry: Reentry,
    /// Rules on the properties of the triggering event or webhook.
    pub trigger_filter: Vec<Rule>,
    /// Set only if the trigger is a date property.
    pub trigger_date: Option<DateTrigger>,
    /// Rules on the user.
    pub entry_rules: Vec<Rule>,
    pub exit_rules: Vec<Rule>,
    pub goal: Option<Goal>,
    exit_events: BTreeSet<String>,
    exits_by_time: bool,
    /// A boxed slice, without spare capacity: a worker keeps the programs of all active automations in memory.
    instructions: Box<[Instruction]>,
    first: Next,
    updates_user: bool,
    user_rules: Box<[Rule]>,
}

impl Program {
    /// Compiles a definition that was validated when it was saved. The error names the path within it.
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
            exit_events: exit_triggers::by_events(&exit_rules),
            exits_by_time: exit_triggers::by_time(&exit_rules),
            exit_rules,
            goal: goal.transpose()?,
            instructions: Box::default(),
            first: None,
            updates_user: false,
            user_rules: Box::default(),
        };
        let mut block = Block::default();
        program.first = block.steps(&definition.steps, "steps", None)?;
        program.instructions = block.0.into_boxed_slice();
        program.updates_user = program.instructions.iter().any(|one| matches!(one.op, Op::UpdateUser { .. }));
        program.user_rules = program.all_user_rules();
        Ok(program)
    }

    pub(super) fn first(&self) -> Next {
        self.first
    }

    pub(super) fn instruction(&self, index: usize) -> Option<&Instruction> {
        self.instructions.get(index)
    }

    pub(super) fn instruction_at(&self, path: &str) -> Option<&Instruction> {
        self.instructions.iter().find(|one| one.path == path)
    }

    pub(super) fn at(&self, path: &str) -> Option<&Op> {
        self.instruction_at(path).map(|one| &one.op)
    }

    pub(super) fn exit_events(&self) -> &BTreeSet<String> {
        &self.exit_events
    }

    /// Returns whether the exit rules may start to hold by the passing of time alone.
    pub(super) fn exits_by_time(&self) -> bool {
        self.exits_by_time
    }

    /// Returns the names of all events that a run may ever subscribe to, including [`super::ANY_CHANGE`].
    pub fn possible_events(&self) -> BTreeSet<String> {
        let waited = self.instructions.iter().filter_map(|one| match &one.op {
            Op::WaitForEvent { event, .. } => Some(event.clone()),
            _ => None,
        });
        waited.chain(self.goal.iter().map(|goal| goal.event.clone())).chain(self.exit_events.iter().cloned()).collect()
    }

    /// Returns whether a step updates the user's profile, so that its row must be locked.
    pub fn updates_user(&self) -> bool {
        self.updates_user
    }

    /// Returns all rules on the user: entry and exit rules, and those of branches.
    pub fn user_rules(&self) -> &[Rule] {
        &self.user_rules
    }

    fn all_user_rules(&self) -> Box<[Rule]> {
        let branches = self.instructions.iter().flat_map(|one| match &one.op {
            Op::Branch { arms, .. } => arms.iter().flat_map(|(rules, _)| rules.clone()).collect(),
            _ => Vec::new(),
        });
        self.entry_rules.iter().chain(&self.exit_rules).cloned().chain(branches).collect()
    }

    /// Returns whether rules need more of a user than the row that recording loads.
    pub fn needs_more_than_profile(rules: &[Rule]) -> bool {
        let is_of_profile = |condition: &Condition| match condition {
            Condition::Value { source, .. } => *source != Source::CreatedAt,
            _ => false,
        };
        rules::leaves(rules).iter().any(|leaf| !is_of_profile(&leaf.condition))
    }
}

/// A list of instructions under construction.
#[derive(Default)]
struct Block(Vec<Instruction>);

impl Block {
    /// Compiles steps that continue at `end`, and returns the index of the first one.
    ///
    /// The last step is compiled first, so that each successor is known.
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
                let read =
                    |text: &String| time_of_day(text).ok_or(format!("{path}.time: {text:?} is not a time of day"));
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
                return Err(format!("{path}: not a send step"));
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
