//! Advances a run.

mod texts;
mod watch;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::listen::until;
use super::program::{Instruction, Next, Op};
use super::until::{date_of, next_time};
use super::{
    ANSWER_WITHIN, Answer, Did, Effect, EndedBy, Input, LATE, MOST_DEEP, Mark, Moved, NeedsPerson, Occurrence, Person,
    Program, QUICK, Run, RunFacts, RunStatus, Situation, State,
};
use rules::{Rule, eval};
use template::Limits;

/// Advances a run as far as possible. An input that does not apply, such as a stale timer, changes nothing.
///
/// # Errors
///
/// Returns [`NeedsPerson`] if the user is needed and `situation` does not have them.
pub fn step(
    program: &Program,
    run: Run<'_>,
    state: &State,
    input: Input<'_>,
    situation: &mut Situation,
) -> Result<Moved, NeedsPerson> {
    let (state, effects, marks) = (state.clone(), Vec::new(), Vec::new());
    let mut walk =
        Walk { program, run, state, situation, effects, marks, late: false, data: None, limits: texts::LIMITS };
    match input {
        Input::Timer { wait_seq } if walk.is_in_wait(wait_seq) && walk.is_early() => walk.look()?,
        _ => {
            walk.meet(input)?;
            walk.watch()?;
        }
    }
    Ok(Moved { state: walk.state, effects: walk.effects, marks: walk.marks })
}

struct Walk<'a> {
    program: &'a Program,
    run: Run<'a>,
    state: State,
    situation: &'a mut Situation,
    effects: Vec<Effect>,
    marks: Vec<Mark>,
    /// The run was paused for longer than [`LATE`], so that sends are skipped.
    late: bool,
    /// The data for templates within steps, cached until it changes.
    data: Option<Value>,
    /// What is left of the rendering limits for this input.
    limits: Limits,
}

/// What follows an instruction.
enum Then {
    Goes(Next),
    Waits,
    Ends,
}

impl<'a> Walk<'a> {
    fn meet(&mut self, input: Input<'_>) -> Result<(), NeedsPerson> {
        let active = self.situation.active;
        if let Input::Event(event) = input {
            self.convert(event);
        }
        match input {
            Input::Start if self.state.wait_seq == 0 && !self.state.status.has_ended() => {
                self.go(self.program.first())?;
            }
            Input::Timer { wait_seq } if self.is_in_wait(wait_seq) && !active => self.freeze(None),
            Input::Timer { wait_seq } if self.is_in_wait(wait_seq) => self.resume()?,
            Input::Answer { wait_seq, answer } if self.is_in_wait(wait_seq) => {
                let ended_by = EndedBy::Answer(answer.clone());
                if active { self.end_wait(Some(ended_by))? } else { self.freeze(Some(ended_by)) }
            }
            Input::Event(event) if self.state.status == RunStatus::Waiting => {
                if active && self.leaves()? {
                } else if self.waits_for(event) {
                    let ended_by = EndedBy::Event(event.shown());
                    if active { self.end_wait(Some(ended_by))? } else { self.freeze(Some(ended_by)) }
                }
            }
            Input::Changed if self.state.status == RunStatus::Waiting && active => {
                self.leaves()?;
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

    fn mark(&self, step: &str, did: Did) -> Mark {
        Mark::new(self.now(), step, did)
    }

    fn person(&self) -> Result<&Person, NeedsPerson> {
        self.situation.person.as_ref().ok_or(NeedsPerson)
    }

    fn holds(&self, rules: &[Rule]) -> Result<bool, NeedsPerson> {
        if rules.is_empty() {
            return Ok(true);
        }
        let facts = RunFacts { person: self.person()?, trigger: self.run.trigger, steps: &self.state.memory.steps };
        Ok(eval::holds(rules, &facts, self.now()))
    }

    /// Records the conversion, even after the run has ended.
    fn convert(&mut self, event: Occurrence<'_>) {
        let Some(goal) = self.program.goal.as_ref().filter(|goal| goal.event == event.name) else { return };
        let in_time = self.situation.now <= until(self.run.started_at, goal.within);
        let reached = in_time && eval::holds_for_event(&goal.filter, event.properties, self.situation.now);
        if reached && self.state.converted_at.is_none() {
            self.state.converted_at = Some(self.situation.now);
            let mark = self.mark("", Did::Converted).why(event.name);
            self.marks.push(mark);
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
    fn leaves(&mut self) -> Result<bool, NeedsPerson> {
        let leaves = !self.program.exit_rules.is_empty() && self.holds(&self.program.exit_rules)?;
        if leaves {
            let position = self.state.position.clone();
            let mark = self.mark(&position, Did::Exited).why("exit_rules");
            self.marks.push(mark);
            self.end(RunStatus::Exited, Some("exit_rules"));
        }
        Ok(leaves)
    }

    fn end(&mut self, status: RunStatus, reason: Option<&str>) {
        self.state.status = status;
        self.state.due_at = None;
        self.state.memory.looks_at = None;
        self.state.reason = reason.map(str::to_owned);
    }

    fn freeze(&mut self, ended_by: Option<EndedBy>) {
        self.state.status = RunStatus::Frozen;
        if ended_by.is_some() {
            self.state.due_at = Some(self.situation.now);
        }
        self.state.memory.ended_by = ended_by;
        self.state.memory.looks_at = None;
        let position = self.state.position.clone();
        let mark = self.mark(&position, Did::Froze);
        self.marks.push(mark);
    }

    /// Continues after a timeout, or after a wait that ended earlier while the automation was inactive.
    fn resume(&mut self) -> Result<(), NeedsPerson> {
        let overdue = self.state.due_at.is_some_and(|due| self.situation.now.duration_since(due) > LATE);
        self.late = overdue;
        let ended_by = self.state.memory.ended_by.take();
        self.end_wait(ended_by)
    }

    /// Continues after the step at which the run waits.
    fn end_wait(&mut self, ended_by: Option<EndedBy>) -> Result<(), NeedsPerson> {
        let program = self.program;
        let Some(at) = program.standing_at(&self.state.position) else {
            self.end(RunStatus::Failed, Some("position_unknown"));
            return Ok(());
        };
        // A user who exits must not take an arm first.
        if self.leaves()? {
            return Ok(());
        }
        let mark = self.mark(&at.path, Did::WentOn);
        let (mark, next) = match (&at.op, ended_by) {
            (Op::WaitForEvent { then, .. }, Some(EndedBy::Event(event))) => {
                let why = event.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
                self.keep(at, json!({ "event": event }));
                (Mark { did: Did::Took, ..mark }.arm("then").why(why), *then)
            }
            (Op::WaitForEvent { otherwise, .. }, _) => {
                (Mark { did: Did::Took, ..mark }.arm("else").why("timeout"), *otherwise)
            }
            (Op::Webhook { .. }, ended_by) => {
                let answer = match ended_by {
                    Some(EndedBy::Answer(answer)) => answer,
                    _ => Answer::failed("no_answer"),
                };
                let mark = match &answer.error {
                    None => Mark { did: Did::Answered, ..mark },
                    Some(error) => Mark { did: Did::Failed, ..mark }.why(error.clone()),
                };
                self.keep(at, json!(answer));
                (mark, at.next)
            }
            _ => (mark, at.next),
        };
        self.marks.push(mark);
        self.go(next)
    }

    /// Stores the result of a named step for later steps.
    fn keep(&mut self, at: &Instruction, value: Value) {
        if let Some(name) = &at.name {
            self.state.memory.steps.insert(name.clone(), value);
            self.data = None;
        }
    }

    fn go(&mut self, from: Next) -> Result<(), NeedsPerson> {
        let program = self.program;
        let mut next = from;
        while let Some(at) = next.and_then(|index| program.instruction(index)) {
            if self.leaves()? {
                return Ok(());
            }
            self.state.position.clone_from(&at.path);
            match self.take(at)? {
                Then::Goes(to) => next = to,
                Then::Waits | Then::Ends => return Ok(()),
            }
        }
        self.state.position.clear();
        self.end(RunStatus::Completed, None);
        Ok(())
    }

    fn take(&mut self, at: &'a Instruction) -> Result<Then, NeedsPerson> {
        let now = self.now();
        let position = at.path.clone();
        let mark = |did| Mark::new(now, &at.path, did);
        Ok(match &at.op {
            Op::Send { .. } if self.late => self.passes(mark(Did::Skipped).why("too_late"), at.next),
            Op::Send { channel, template_id, subscription_group_id } => {
                let (channel, template_id, subscription_group_id) = (*channel, *template_id, *subscription_group_id);
                self.effects.push(Effect::Send { channel, template_id, subscription_group_id, position });
                self.passes(mark(Did::Sent), at.next)
            }
            Op::Wait { delay } if *delay <= 0.0 => self.passes(mark(Did::Passed), at.next),
            Op::Wait { delay } => self.waits(mark(Did::Waited), later(now, *delay)),
            Op::WaitUntil { time, property, offset } => self.wait_until(at, *time, property.as_deref(), *offset)?,
            Op::WaitForEvent { timeout, .. } => self.waits(mark(Did::Waited), later(now, *timeout)),
            Op::Branch { arms, otherwise } => {
                for (i, (rules, to)) in arms.iter().enumerate() {
                    if self.holds(rules)? {
                        return Ok(self.passes(mark(Did::Took).arm(format!("branches[{i}]")).why("rules"), *to));
                    }
                }
                self.passes(mark(Did::Took).arm("else").why("no rules held"), *otherwise)
            }
            Op::Split { arms } => {
                let (arm, to) = self.by_chance(&at.path, arms);
                self.passes(mark(Did::Took).arm(format!("branches[{arm}]")).why("chance"), to)
            }
            Op::UpdateUser { properties } => {
                let render = |data: &Value, limits: &mut Limits| properties.render_object(data, now, limits);
                let Some(properties) = self.fill(at, render)? else { return Ok(Then::Ends) };
                self.data = None;
                self.situation.person.as_mut().ok_or(NeedsPerson)?.patch(&properties);
                self.effects.push(Effect::UpdateUser { position, properties });
                self.passes(mark(Did::Updated), at.next)
            }
            Op::TrackEvent { event, properties } => {
                let Some(depth) = self.deeper() else { return Ok(self.too_deep(at)) };
                let render = |data: &Value, limits: &mut Limits| properties.render_object(data, now, limits);
                let Some(properties) = self.fill(at, render)? else { return Ok(Then::Ends) };
                self.effects.push(Effect::TrackEvent { position, depth, name: event.clone(), properties });
                self.passes(mark(Did::Tracked), at.next)
            }
            Op::StartAutomation { automation_id } => {
                let Some(depth) = self.deeper() else { return Ok(self.too_deep(at)) };
                let automation_id = *automation_id;
                self.effects.push(Effect::StartAutomation { position, depth, automation_id });
                self.passes(mark(Did::Started), at.next)
            }
            Op::Webhook { url, body } => {
                let run = self.run;
                let render = |data: &Value, limits: &mut Limits| match body {
                    Some(body) => body.render(data, now, limits),
                    None => Ok(texts::about(data, run, at)),
                };
                let Some(body) = self.fill(at, render)? else { return Ok(Then::Ends) };
                let due = now.checked_add(ANSWER_WITHIN).unwrap_or(Timestamp::MAX);
                let then = self.waits(mark(Did::Called), due);
                let (wait_seq, name) = (self.state.wait_seq, at.name.clone().unwrap_or_default());
                self.effects.push(Effect::Call { wait_seq, position, name, url: url.clone(), body });
                then
            }
            Op::Exit => {
                self.marks.push(mark(Did::Exited).why("exit_step"));
                self.end(RunStatus::Exited, Some("exit_step"));
                Then::Ends
            }
        })
    }

    fn passes(&mut self, mark: Mark, next: Next) -> Then {
        self.marks.push(mark);
        Then::Goes(next)
    }

    fn waits(&mut self, mark: Mark, due_at: Timestamp) -> Then {
        self.marks.push(Mark { until: Some(due_at), ..mark });
        self.state.wait_seq += 1;
        self.state.status = RunStatus::Waiting;
        self.state.due_at = Some(due_at);
        self.state.reason = None;
        self.set_timer(due_at);
        Then::Waits
    }

    fn wait_until(
        &mut self,
        at: &Instruction,
        time: Option<jiff::civil::Time>,
        property: Option<&str>,
        offset: f64,
    ) -> Result<Then, NeedsPerson> {
        let now = self.now();
        let person = self.person()?;
        let zone = person.timezone().unwrap_or_else(|| self.situation.timezone.clone());
        let until = match (property, time) {
            (Some(property), time) => date_of(&person.properties, property, offset, time, &zone),
            (None, Some(time)) => Some(next_time(time, &zone, now)),
            (None, None) => None,
        };
        let mark = Mark::new(now, &at.path, Did::Passed);
        Ok(match until {
            None => self.passes(Mark { did: Did::Skipped, ..mark }.why("property_not_a_date"), at.next),
            Some(until) if until <= now => self.passes(mark.why("in_the_past"), at.next),
            Some(until) => self.waits(Mark { did: Did::Waited, ..mark }, until),
        })
    }

    /// Chooses an arm by weight. The choice is always the same for the same run and step.
    fn by_chance(&self, path: &str, arms: &[(f64, Next)]) -> (usize, Next) {
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

    /// Returns the depth of what this run starts, or `None` if that exceeds [`MOST_DEEP`].
    fn deeper(&self) -> Option<i16> {
        let slow = self.now().duration_since(self.run.started_at) >= QUICK;
        let depth = if slow { 0 } else { self.run.depth };
        (depth < MOST_DEEP).then_some(depth + 1)
    }

    fn too_deep(&mut self, at: &Instruction) -> Then {
        self.marks.push(Mark::new(self.now(), &at.path, Did::Exited).why("loop"));
        self.end(RunStatus::Exited, Some("loop"));
        Then::Ends
    }
}

fn later(now: Timestamp, seconds: f64) -> Timestamp {
    let wait = SignedDuration::try_from_secs_f64(seconds).unwrap_or(SignedDuration::ZERO);
    now.checked_add(wait).unwrap_or(Timestamp::MAX)
}
