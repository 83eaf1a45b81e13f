//! Advances a run.

mod exit_checks;
mod texts;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::program::{Instruction, Next, Op};
use super::subscriptions::goal_deadline;
use super::until::{date_of, next_time};
use super::{
    CALL_RESULT_TIMEOUT, CHAIN_RESET_AFTER, CallOutcome, Effect, EndedBy, Input, LogAction, LogEntry, MAX_CHAIN_DEPTH,
    MAX_SEND_LATENESS, Occurrence, Program, Run, RunFacts, RunStatus, RunUser, Situation, State, Transition,
    UserRequired,
};
use rules::{Rule, eval};
use template::Limits;

/// Advances a run as far as possible. An input that does not apply, such as a stale timer, changes nothing.
///
/// # Errors
///
/// Returns [`UserRequired`] if the user is needed and `situation` does not have them.
pub fn step(
    program: &Program,
    run: Run<'_>,
    state: &State,
    input: Input<'_>,
    situation: &mut Situation,
) -> Result<Transition, UserRequired> {
    let (state, effects, log) = (state.clone(), Vec::new(), Vec::new());
    let mut execution =
        Execution { program, run, state, situation, effects, log, late: false, data: None, limits: texts::LIMITS };
    match input {
        Input::Timer { wait_seq } if execution.is_in_wait(wait_seq) && execution.is_exit_check() => {
            execution.check_exit_rules()?;
        }
        _ => {
            execution.apply(input)?;
            execution.schedule_exit_check()?;
        }
    }
    Ok(Transition { state: execution.state, effects: execution.effects, log: execution.log })
}

struct Execution<'a> {
    program: &'a Program,
    run: Run<'a>,
    state: State,
    situation: &'a mut Situation,
    effects: Vec<Effect>,
    log: Vec<LogEntry>,
    /// The run was paused for longer than [`MAX_SEND_LATENESS`], so that sends are skipped.
    late: bool,
    /// The data for templates within steps, cached until it changes.
    data: Option<Value>,
    /// What is left of the rendering limits for this input.
    limits: Limits,
}

/// What follows an instruction.
enum Flow {
    Continue(Next),
    Wait,
    End,
}

impl<'a> Execution<'a> {
    fn apply(&mut self, input: Input<'_>) -> Result<(), UserRequired> {
        let active = self.situation.active;
        if let Input::Event(event) = input {
            self.convert(event);
        }
        match input {
            Input::Start if self.state.wait_seq == 0 && !self.state.status.has_ended() => {
                self.run_from(self.program.first())?;
            }
            Input::Timer { wait_seq } if self.is_in_wait(wait_seq) && !active => self.freeze(None),
            Input::Timer { wait_seq } if self.is_in_wait(wait_seq) => self.resume()?,
            Input::CallOutcome { wait_seq, outcome } if self.is_in_wait(wait_seq) => {
                let ended_by = EndedBy::CallOutcome(outcome.clone());
                if active { self.end_wait(Some(ended_by))? } else { self.freeze(Some(ended_by)) }
            }
            Input::Event(event) if self.state.status == RunStatus::Waiting => {
                if active && self.exit_if_rules_hold()? {
                } else if self.waits_for(event) {
                    let ended_by = EndedBy::Event(event.shown());
                    if active { self.end_wait(Some(ended_by))? } else { self.freeze(Some(ended_by)) }
                }
            }
            Input::ProfileChanged if self.state.status == RunStatus::Waiting && active => {
                self.exit_if_rules_hold()?;
            }
            _ => {}
        }
        Ok(())
    }

    fn is_in_wait(&self, wait_seq: i32) -> bool {
        self.state.status == RunStatus::Waiting && self.state.wait_seq == wait_seq
    }

    fn now(&self) -> Timestamp {
        self.situation.now
    }

    fn entry(&self, step: &str, did: LogAction) -> LogEntry {
        LogEntry::new(self.now(), step, did)
    }

    fn user(&self) -> Result<&RunUser, UserRequired> {
        self.situation.user.as_ref().ok_or(UserRequired)
    }

    fn holds(&self, rules: &[Rule]) -> Result<bool, UserRequired> {
        if rules.is_empty() {
            return Ok(true);
        }
        let facts = RunFacts { user: self.user()?, trigger: self.run.trigger, steps: &self.state.memory.steps };
        Ok(eval::holds(rules, &facts, self.now()))
    }

    /// Records the conversion, even after the run has ended.
    fn convert(&mut self, event: Occurrence<'_>) {
        let Some(goal) = self.program.goal.as_ref().filter(|goal| goal.event == event.name) else { return };
        let in_time = self.situation.now <= goal_deadline(self.run.started_at, goal.within);
        let reached = in_time && eval::holds_for_event(&goal.filter, event.properties, self.situation.now);
        if reached && self.state.converted_at.is_none() {
            self.state.converted_at = Some(self.situation.now);
            let entry = self.entry("", LogAction::Converted).why(event.name);
            self.log.push(entry);
        }
    }

    fn waits_for(&self, event: Occurrence<'_>) -> bool {
        match self.program.at(&self.state.position) {
            Some(Op::WaitForEvent { event: name, filter, .. }) => {
                name == event.name && eval::holds_for_event(filter, event.properties, self.situation.now)
            }
            _ => false,
        }
    }

    /// Ends the run if its exit rules hold. Returns whether they do.
    fn exit_if_rules_hold(&mut self) -> Result<bool, UserRequired> {
        let exits = !self.program.exit_rules.is_empty() && self.holds(&self.program.exit_rules)?;
        if exits {
            let position = self.state.position.clone();
            let entry = self.entry(&position, LogAction::Exited).why("exit_rules");
            self.log.push(entry);
            self.end(RunStatus::Exited, Some("exit_rules"));
        }
        Ok(exits)
    }

    fn end(&mut self, status: RunStatus, reason: Option<&str>) {
        self.state.status = status;
        self.state.due_at = None;
        self.state.memory.next_check_at = None;
        self.state.reason = reason.map(str::to_owned);
    }

    fn freeze(&mut self, ended_by: Option<EndedBy>) {
        self.state.status = RunStatus::Frozen;
        if ended_by.is_some() {
            self.state.due_at = Some(self.situation.now);
        }
        self.state.memory.ended_by = ended_by;
        self.state.memory.next_check_at = None;
        let position = self.state.position.clone();
        let entry = self.entry(&position, LogAction::Froze);
        self.log.push(entry);
    }

    /// Continues after a timeout, or after a wait that ended earlier while the automation was inactive.
    fn resume(&mut self) -> Result<(), UserRequired> {
        let overdue = self.state.due_at.is_some_and(|due| self.situation.now.duration_since(due) > MAX_SEND_LATENESS);
        self.late = overdue;
        let ended_by = self.state.memory.ended_by.take();
        self.end_wait(ended_by)
    }

    /// Continues after the step at which the run waits.
    fn end_wait(&mut self, ended_by: Option<EndedBy>) -> Result<(), UserRequired> {
        let program = self.program;
        let Some(at) = program.instruction_at(&self.state.position) else {
            self.end(RunStatus::Failed, Some("position_unknown"));
            return Ok(());
        };
        // A user who exits must not take an arm first.
        if self.exit_if_rules_hold()? {
            return Ok(());
        }
        let entry = self.entry(&at.path, LogAction::WentOn);
        let (entry, next) = match (&at.op, ended_by) {
            (Op::WaitForEvent { then, .. }, Some(EndedBy::Event(event))) => {
                let why = event.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
                self.store_result(at, json!({ "event": event }));
                (LogEntry { did: LogAction::Took, ..entry }.arm("then").why(why), *then)
            }
            (Op::WaitForEvent { otherwise, .. }, _) => {
                (LogEntry { did: LogAction::Took, ..entry }.arm("else").why("timeout"), *otherwise)
            }
            (Op::Webhook { .. }, ended_by) => {
                let outcome = match ended_by {
                    Some(EndedBy::CallOutcome(outcome)) => outcome,
                    _ => CallOutcome::failed("no_answer"),
                };
                let entry = match &outcome.error {
                    None => LogEntry { did: LogAction::Answered, ..entry },
                    Some(error) => LogEntry { did: LogAction::Failed, ..entry }.why(error.clone()),
                };
                self.store_result(at, json!(outcome));
                (entry, at.next)
            }
            _ => (entry, at.next),
        };
        self.log.push(entry);
        self.run_from(next)
    }

    /// Stores the result of a named step for later steps.
    fn store_result(&mut self, at: &Instruction, value: Value) {
        if let Some(name) = &at.name {
            self.state.memory.steps.insert(name.clone(), value);
            self.data = None;
        }
    }

    fn run_from(&mut self, from: Next) -> Result<(), UserRequired> {
        let program = self.program;
        let mut next = from;
        while let Some(at) = next.and_then(|index| program.instruction(index)) {
            if self.exit_if_rules_hold()? {
                return Ok(());
            }
            self.state.position.clone_from(&at.path);
            match self.execute(at)? {
                Flow::Continue(to) => next = to,
                Flow::Wait | Flow::End => return Ok(()),
            }
        }
        self.state.position.clear();
        self.end(RunStatus::Completed, None);
        Ok(())
    }

    fn execute(&mut self, at: &'a Instruction) -> Result<Flow, UserRequired> {
        let now = self.now();
        let position = at.path.clone();
        let entry = |did| LogEntry::new(now, &at.path, did);
        Ok(match &at.op {
            Op::Send { .. } if self.late => self.continue_with(entry(LogAction::Skipped).why("too_late"), at.next),
            Op::Send { channel, template_id, subscription_group_id } => {
                let (channel, template_id, subscription_group_id) = (*channel, *template_id, *subscription_group_id);
                self.effects.push(Effect::Send { channel, template_id, subscription_group_id, position });
                self.continue_with(entry(LogAction::Sent), at.next)
            }
            Op::Wait { delay } if *delay <= 0.0 => self.continue_with(entry(LogAction::Passed), at.next),
            Op::Wait { delay } => self.begin_wait(entry(LogAction::Waited), add_seconds(now, *delay)),
            Op::WaitUntil { time, property, offset } => self.wait_until(at, *time, property.as_deref(), *offset)?,
            Op::WaitForEvent { timeout, .. } => self.begin_wait(entry(LogAction::Waited), add_seconds(now, *timeout)),
            Op::Branch { arms, otherwise } => {
                for (i, (rules, to)) in arms.iter().enumerate() {
                    if self.holds(rules)? {
                        return Ok(
                            self.continue_with(entry(LogAction::Took).arm(format!("branches[{i}]")).why("rules"), *to)
                        );
                    }
                }
                self.continue_with(entry(LogAction::Took).arm("else").why("no rules held"), *otherwise)
            }
            Op::Split { arms } => {
                let (arm, to) = self.choose_arm(&at.path, arms);
                self.continue_with(entry(LogAction::Took).arm(format!("branches[{arm}]")).why("chance"), to)
            }
            Op::UpdateUser { properties } => {
                let render = |data: &Value, limits: &mut Limits| properties.render_object(data, now, limits);
                let Some(properties) = self.render_step(at, render)? else { return Ok(Flow::End) };
                self.data = None;
                self.situation.user.as_mut().ok_or(UserRequired)?.patch(&properties);
                self.effects.push(Effect::UpdateUser { position, properties });
                self.continue_with(entry(LogAction::Updated), at.next)
            }
            Op::TrackEvent { event, properties } => {
                let Some(depth) = self.next_depth() else { return Ok(self.exit_as_loop(at)) };
                let render = |data: &Value, limits: &mut Limits| properties.render_object(data, now, limits);
                let Some(properties) = self.render_step(at, render)? else { return Ok(Flow::End) };
                self.effects.push(Effect::TrackEvent { position, depth, name: event.clone(), properties });
                self.continue_with(entry(LogAction::Tracked), at.next)
            }
            Op::StartAutomation { automation_id } => {
                let Some(depth) = self.next_depth() else { return Ok(self.exit_as_loop(at)) };
                let automation_id = *automation_id;
                self.effects.push(Effect::StartAutomation { position, depth, automation_id });
                self.continue_with(entry(LogAction::Started), at.next)
            }
            Op::Webhook { url, body } => {
                let run = self.run;
                let render = |data: &Value, limits: &mut Limits| match body {
                    Some(body) => body.render(data, now, limits),
                    None => Ok(texts::default_webhook_body(data, run, at)),
                };
                let Some(body) = self.render_step(at, render)? else { return Ok(Flow::End) };
                let due = now.checked_add(CALL_RESULT_TIMEOUT).unwrap_or(Timestamp::MAX);
                let then = self.begin_wait(entry(LogAction::Called), due);
                let (wait_seq, name) = (self.state.wait_seq, at.name.clone().unwrap_or_default());
                self.effects.push(Effect::Call { wait_seq, position, name, url: url.clone(), body });
                then
            }
            Op::Exit => {
                self.log.push(entry(LogAction::Exited).why("exit_step"));
                self.end(RunStatus::Exited, Some("exit_step"));
                Flow::End
            }
        })
    }

    fn continue_with(&mut self, entry: LogEntry, next: Next) -> Flow {
        self.log.push(entry);
        Flow::Continue(next)
    }

    fn begin_wait(&mut self, entry: LogEntry, due_at: Timestamp) -> Flow {
        self.log.push(LogEntry { until: Some(due_at), ..entry });
        self.state.wait_seq += 1;
        self.state.status = RunStatus::Waiting;
        self.state.due_at = Some(due_at);
        self.state.reason = None;
        self.set_timer(due_at);
        Flow::Wait
    }

    fn wait_until(
        &mut self,
        at: &Instruction,
        time: Option<jiff::civil::Time>,
        property: Option<&str>,
        offset: f64,
    ) -> Result<Flow, UserRequired> {
        let now = self.now();
        let user = self.user()?;
        let zone = user.timezone().unwrap_or_else(|| self.situation.timezone.clone());
        let until = match (property, time) {
            (Some(property), time) => date_of(&user.properties, property, offset, time, &zone),
            (None, Some(time)) => Some(next_time(time, &zone, now)),
            (None, None) => None,
        };
        let entry = LogEntry::new(now, &at.path, LogAction::Passed);
        Ok(match until {
            None => {
                self.continue_with(LogEntry { did: LogAction::Skipped, ..entry }.why("property_not_a_date"), at.next)
            }
            Some(until) if until <= now => self.continue_with(entry.why("in_the_past"), at.next),
            Some(until) => self.begin_wait(LogEntry { did: LogAction::Waited, ..entry }, until),
        })
    }

    /// Chooses an arm by weight. The choice is always the same for the same run and step.
    fn choose_arm(&self, path: &str, arms: &[(f64, Next)]) -> (usize, Next) {
        let hash = xxh3_64_with_seed(path.as_bytes(), self.run.id.as_u64_pair().1);
        let total: f64 = arms.iter().map(|(weight, _)| weight).sum();
        // The upper 53 bits, which a double holds exactly.
        let mut left = (hash >> 11) as f64 / (1_u64 << 53) as f64 * total;
        for (i, (weight, to)) in arms.iter().enumerate() {
            if left < *weight {
                return (i, *to);
            }
            left -= weight;
        }
        let last = arms.iter().rposition(|(weight, _)| *weight > 0.0).unwrap_or_default();
        (last, arms.get(last).and_then(|(_, to)| *to))
    }

    /// Returns the depth of what this run starts, or `None` if that exceeds [`MAX_CHAIN_DEPTH`].
    fn next_depth(&self) -> Option<i16> {
        let slow = self.now().duration_since(self.run.started_at) >= CHAIN_RESET_AFTER;
        let depth = if slow { 0 } else { self.run.depth };
        (depth < MAX_CHAIN_DEPTH).then_some(depth + 1)
    }

    fn exit_as_loop(&mut self, at: &Instruction) -> Flow {
        self.log.push(LogEntry::new(self.now(), &at.path, LogAction::Exited).why("loop"));
        self.end(RunStatus::Exited, Some("loop"));
        Flow::End
    }
}

fn add_seconds(now: Timestamp, seconds: f64) -> Timestamp {
    let wait = SignedDuration::try_from_secs_f64(seconds).unwrap_or(SignedDuration::ZERO);
    now.checked_add(wait).unwrap_or(Timestamp::MAX)
}
