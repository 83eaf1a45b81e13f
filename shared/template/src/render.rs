//! Renders the syntax tree, within the budget.

use super::ast::{At, Block, Call, Condition, Expr, For, Join, Node, Op, Path, Pipe, Root, Step, Test};
use super::budget::{Budget, Buf, Limit, Limits, STEP};
use super::filters::Args;
use super::scope::Scope;
use super::value::Value;
use super::{Escape, escape};

/// Maximum number of missing variables in the result.
const MAX_MISSING: usize = 100;

/// The control flow after a node.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    Next,
    Break,
    Continue,
}

struct LoopState {
    index: usize,
    len: usize,
}

pub(super) struct Renderer<'a> {
    source: &'a str,
    scope: &'a Scope<'a>,
    escape: Escape,
    /// How outputs are currently escaped: a capture starts as plain text, even in HTML.
    mode: Escape,
    budget: Budget,
    out: Buf,
    /// The offset of the tag being rendered, for errors.
    at: At,
    loops: Vec<LoopState>,
    /// Loop variables by slot. They take precedence over `assigned`.
    bound: Vec<Option<Value<'a>>>,
    assigned: Vec<Option<Value<'a>>>,
    missing: Vec<&'a str>,
}

impl<'a> Renderer<'a> {
    /// Creates a renderer. `slots` is the number of names, or 0 if no tag stores a value.
    pub(super) fn new(source: &'a str, slots: usize, scope: &'a Scope<'a>, escape: Escape, limits: &Limits) -> Self {
        Self {
            source,
            scope,
            escape,
            mode: escape,
            budget: Budget::new(limits),
            out: Buf::with_capacity(source.len() + source.len() / 8 + 64, limits.output),
            at: 0,
            loops: Vec::new(),
            bound: vec![None; slots],
            assigned: vec![None; slots],
            missing: Vec::new(),
        }
    }

    /// Returns the offset of the current tag, for errors.
    pub(super) fn at(&self) -> At {
        self.at
    }

    /// Returns the remaining limits.
    pub(super) fn left(&self) -> Limits {
        self.budget.left()
    }

    pub(super) fn finish(self) -> (String, Vec<&'a str>) {
        (self.out.into_text(), self.missing)
    }

    pub(super) fn block(&mut self, nodes: &'a Block) -> Result<Flow, Limit> {
        for node in nodes {
            let flow = self.node(node)?;
            if flow != Flow::Next {
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }

    fn node(&mut self, node: &'a Node) -> Result<Flow, Limit> {
        self.budget.spend(STEP)?;
        match node {
            Node::Text(range) => {
                let text = &self.source[range.clone()];
                self.budget.bytes(text.len())?;
                if self.mode != self.escape && text.contains(['<', '&']) {
                    self.become_html()?;
                }
                self.out.push(text)?;
            }
            Node::Output(at, pipe) => {
                self.at = *at;
                let value = self.pipe(pipe)?;
                let before = self.out.len();
                if self.mode != self.escape && matches!(value, Value::Safe(_)) {
                    self.become_html()?;
                }
                value.write(&mut self.out, self.mode)?;
                self.budget.bytes(self.out.len().saturating_sub(before))?;
            }
            Node::If { at, arms, otherwise } => {
                for (condition, block) in arms {
                    self.at = *at;
                    if self.condition(condition)? {
                        return self.block(block);
                    }
                }
                return self.block(otherwise);
            }
            Node::Case { at, subject, arms, otherwise } => {
                self.at = *at;
                let subject = self.expr(subject)?;
                for (values, block) in arms {
                    for value in values {
                        let value = self.expr(value)?;
                        self.charge_comparison(&subject, &value)?;
                        if subject.equals(&value) {
                            return self.block(block);
                        }
                    }
                }
                return self.block(otherwise);
            }
            Node::For(node) => return self.for_loop(node),
            Node::Assign { at, slot, value } => {
                self.at = *at;
                let value = self.pipe(value)?;
                self.assigned[*slot] = Some(value);
            }
            Node::Capture { at, slot, body } => {
                let outer = std::mem::replace(&mut self.out, Buf::new(self.budget.text_max()));
                let outer_mode = std::mem::replace(&mut self.mode, Escape::None);
                let flow = self.block(body)?;
                let text = std::mem::replace(&mut self.out, outer).into_text();
                let html = std::mem::replace(&mut self.mode, outer_mode) == Escape::Html;
                self.at = *at;
                self.budget.bytes(text.len())?;
                self.assigned[*slot] = Some(if html { Value::Safe(text.into()) } else { text.into() });
                return Ok(flow);
            }
            Node::Break => return Ok(Flow::Break),
            Node::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::Next)
    }

    /// Switches a capture with markup to HTML: escapes its text so far.
    ///
    /// A capture without markup stays plain text, so that filters and comparisons see the characters that a reader
    /// sees.
    fn become_html(&mut self) -> Result<(), Limit> {
        let mut out = Buf::new(self.budget.text_max());
        escape::html(self.out.as_str(), &mut out)?;
        self.budget.bytes(out.len())?;
        self.out = out;
        self.mode = Escape::Html;
        Ok(())
    }

    fn for_loop(&mut self, node: &'a For) -> Result<Flow, Limit> {
        self.at = node.at;
        let list = self.expr(&node.list)?;
        self.note_missing(&node.list, &list);
        let list = match list {
            Value::Map(map) => {
                self.budget.spend(STEP.saturating_mul(map.len() as u64))?;
                let pair = |(key, value): (&'a String, &'a serde_json::Value)| {
                    Value::items(vec![Value::Str(key), Value::from(value)])
                };
                Value::items(map.iter().map(pair).collect())
            }
            // A non-empty string counts as a list of one, an empty one as an empty list.
            other if other.as_str().is_some_and(|text| !text.is_empty()) => Value::items(vec![other]),
            other => other,
        };
        let len = list.list_len().unwrap_or(0);
        let start = self.count(node.offset.as_ref())?.unwrap_or(0).min(len);
        let len = self.count(node.limit.as_ref())?.unwrap_or(len).min(len - start);
        if len == 0 {
            return self.block(&node.otherwise);
        }
        let outer = self.bound[node.slot].take();
        self.loops.push(LoopState { index: 0, len });
        for index in 0..len {
            self.at = node.at;
            self.budget.iteration()?;
            if let Some(state) = self.loops.last_mut() {
                state.index = index;
            }
            let position = if node.reversed { start + len - 1 - index } else { start + index };
            self.bound[node.slot] = Some(list.at(position));
            if self.block(&node.body)? == Flow::Break {
                break;
            }
        }
        self.loops.pop();
        self.bound[node.slot] = outer;
        Ok(Flow::Next)
    }

    /// Evaluates a `limit` or `offset`. A value that is not a number is ignored; a negative one counts as 0.
    fn count(&mut self, expr: Option<&'a Expr>) -> Result<Option<usize>, Limit> {
        let Some(expr) = expr else { return Ok(None) };
        let value = self.expr(expr)?;
        Ok(value.number().and_then(|n| n.as_f64()).map(|n| n as usize))
    }

    fn condition(&mut self, condition: &'a Condition) -> Result<bool, Limit> {
        let mut result = None;
        for (i, test) in condition.tests.iter().enumerate().rev() {
            result = Some(match (result, condition.joins.get(i)) {
                (Some(false), Some(Join::And)) => false,
                (Some(true), Some(Join::Or)) => true,
                _ => self.test(test)?,
            });
        }
        Ok(result.unwrap_or(false) != condition.negated)
    }

    fn test(&mut self, test: &'a Test) -> Result<bool, Limit> {
        self.budget.spend(STEP)?;
        let left = self.expr(&test.left)?;
        let Some((op, right)) = &test.right else { return Ok(left.is_truthy()) };
        let right = self.expr(right)?;
        self.charge_comparison(&left, &right)?;
        Ok(match op {
            Op::Eq => left.equals(&right),
            Op::Ne => !left.equals(&right),
            Op::Lt => left.compare(&right).is_some_and(std::cmp::Ordering::is_lt),
            Op::Gt => left.compare(&right).is_some_and(std::cmp::Ordering::is_gt),
            Op::Le => left.compare(&right).is_some_and(std::cmp::Ordering::is_le),
            Op::Ge => left.compare(&right).is_some_and(std::cmp::Ordering::is_ge),
            Op::Contains => left.contains(&right, self.budget.text_max())?,
        })
    }

    /// Charges the cost of comparing two values.
    fn charge_comparison(&mut self, left: &Value<'a>, right: &Value<'a>) -> Result<(), Limit> {
        self.budget.spend((left.weight() + right.weight()) as u64)
    }

    fn pipe(&mut self, pipe: &'a Pipe) -> Result<Value<'a>, Limit> {
        let mut value = self.expr(&pipe.head)?;
        if value.is_nil() && !pipe.calls.iter().any(|call| call.filter.name == "default") {
            self.note_missing(&pipe.head, &value);
        }
        for call in &pipe.calls {
            value = self.call(value, call)?;
        }
        Ok(value)
    }

    fn call(&mut self, value: Value<'a>, call: &'a Call) -> Result<Value<'a>, Limit> {
        self.budget.spend(STEP)?;
        self.budget.bytes(value.weight())?;
        let mut values = [Value::Nil, Value::Nil];
        for (value, arg) in values.iter_mut().zip(&call.args) {
            *value = self.expr(arg)?;
            self.budget.bytes(value.weight())?;
        }
        let args = Args {
            values: &values[..call.args.len().min(values.len())],
            allow_false: call.allow_false,
            now: self.scope.now(),
            max: self.budget.text_max(),
            escape: self.escape,
        };
        let result = (call.filter.run)(value, &args)?;
        if result.as_str().is_some_and(|text| text.len() > self.budget.text_max()) {
            return Err(Limit::Output(self.budget.text_max()));
        }
        self.budget.bytes(result.weight())?;
        Ok(result)
    }

    fn expr(&mut self, expr: &'a Expr) -> Result<Value<'a>, Limit> {
        Ok(match expr {
            Expr::Nil => Value::Nil,
            Expr::Bool(value) => Value::Bool(*value),
            Expr::Int(value) => Value::Int(*value),
            Expr::Float(value) => Value::Float(*value),
            Expr::Text(text) => Value::Str(text),
            Expr::Empty => Value::Empty,
            Expr::Blank => Value::Blank,
            Expr::Path(path) => self.path(path)?,
            Expr::Range(ends) => {
                let mut end = |expr| -> Result<i64, Limit> {
                    let value = self.expr(expr)?.number();
                    Ok(value
                        .and_then(|n| if let Value::Int(n) = n { Some(n) } else { n.as_f64().map(|n| n as i64) })
                        .unwrap_or(0))
                };
                Value::Range(end(&ends.0)?, end(&ends.1)?)
            }
        })
    }

    fn path(&mut self, path: &'a Path) -> Result<Value<'a>, Limit> {
        self.budget.spend(path.steps.len() as u64 * 8)?;
        let mut value = match &path.root {
            Root::Loop => self.loops.len().checked_sub(1).map_or(Value::Nil, Value::Loop),
            Root::Name { name, slot } => match self.local(*slot) {
                Some(value) => value.clone(),
                None => self.scope.get(name),
            },
        };
        for step in &path.steps {
            value = match (step, value) {
                (Step::Key(key), Value::Loop(depth)) => self.loop_field(depth, key),
                (Step::Key(key), value) => value.field(key),
                (Step::Index(index), value) => value.index(&self.expr(index)?),
            };
        }
        Ok(value)
    }

    fn local(&self, slot: usize) -> Option<&Value<'a>> {
        self.bound.get(slot)?.as_ref().or_else(|| self.assigned[slot].as_ref())
    }

    fn loop_field(&self, depth: usize, key: &str) -> Value<'a> {
        let Some(state) = self.loops.get(depth) else { return Value::Nil };
        let int = |value: usize| Value::Int(value as i64);
        match key {
            "index" => int(state.index + 1),
            "index0" => int(state.index),
            "rindex" => int(state.len - state.index),
            "rindex0" => int(state.len - state.index - 1),
            "first" => Value::Bool(state.index == 0),
            "last" => Value::Bool(state.index + 1 == state.len),
            "length" => int(state.len),
            "parentloop" => depth.checked_sub(1).map_or(Value::Nil, Value::Loop),
            _ => Value::Nil,
        }
    }

    fn note_missing(&mut self, expr: &'a Expr, value: &Value<'_>) {
        if let (Expr::Path(path), Value::Nil) = (expr, value)
            && self.missing.len() < MAX_MISSING
            && !self.missing.contains(&&*path.name)
        {
            self.missing.push(&path.name);
        }
    }
}
