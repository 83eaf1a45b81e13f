//! Parses the contents of outputs and tags: values, filters and conditions.

use super::ast::{Call, Condition, Expr, Join, Op, Path, Pipe, Root, Step, Test};
use super::filters;
use super::lexer::{Kind, Token};
use super::names::Names;
use super::{Fault, NESTING_MAX};

/// Reads the tokens of one tag or output.
pub(super) struct Cursor<'s, 't> {
    source: &'s str,
    /// Never empty: the last token is `End`, and the cursor never moves past it.
    tokens: &'t [Token],
    next: usize,
    names: &'t mut Names,
    depth: usize,
}

impl<'s, 't> Cursor<'s, 't> {
    pub(super) fn new(source: &'s str, tokens: &'t [Token], names: &'t mut Names) -> Self {
        Self { source, tokens, next: 0, names, depth: 0 }
    }

    pub(super) fn peek(&self) -> Token {
        self.tokens[self.next]
    }

    fn bump(&mut self) -> Token {
        let token = self.peek();
        self.next = (self.next + 1).min(self.tokens.len() - 1);
        token
    }

    pub(super) fn take(&mut self, kind: Kind) -> bool {
        let found = self.peek().kind == kind;
        if found {
            self.bump();
        }
        found
    }

    pub(super) fn text(&self, token: Token) -> &'s str {
        &self.source[token.start..token.end]
    }

    /// Consumes the next token if it is this word.
    pub(super) fn take_word(&mut self, word: &str) -> bool {
        let token = self.peek();
        let found = token.kind == Kind::Word && self.text(token) == word;
        if found {
            self.bump();
        }
        found
    }

    pub(super) fn word(&mut self, what: &str) -> Result<&'s str, Fault> {
        match self.peek().kind {
            Kind::Word => {
                let token = self.bump();
                Ok(self.text(token))
            }
            _ => Err(self.expected(what)),
        }
    }

    pub(super) fn expected(&self, what: &str) -> Fault {
        let token = self.peek();
        let found = match token.kind {
            Kind::End => "the end of the tag".to_owned(),
            Kind::Text => format!("the text {:?}", self.text(token)),
            _ => format!("`{}`", self.text(token)),
        };
        Fault::new(token.start, format!("expected {what}, found {found}"))
    }

    pub(super) fn end(&self) -> Result<(), Fault> {
        match self.peek().kind {
            Kind::End => Ok(()),
            _ => Err(self.expected("the end of the tag")),
        }
    }

    pub(super) fn names(&mut self) -> &mut Names {
        self.names
    }

    /// Parses a value with its filters.
    pub(super) fn pipe(&mut self) -> Result<Pipe, Fault> {
        let head = self.expr()?;
        let mut calls = Vec::new();
        while self.take(Kind::Pipe) {
            calls.push(self.call()?);
        }
        match self.peek().kind {
            Kind::End => Ok(Pipe { head, calls }),
            Kind::Assign | Kind::Eq | Kind::Ne | Kind::Lt | Kind::Gt | Kind::Le | Kind::Ge => {
                Err(Fault::new(self.peek().start, "comparisons are only allowed in {% if %}"))
            }
            _ => Err(self.expected("`|` or the end of the tag")),
        }
    }

    fn call(&mut self) -> Result<Call, Fault> {
        let at = self.peek().start;
        let name = self.word("the name of a filter")?;
        let filter = filters::find(name).ok_or_else(|| Fault::new(at, filters::unknown(name)))?;
        let mut call = Call { filter, args: Vec::new(), allow_false: false };
        if self.take(Kind::Colon) {
            loop {
                if name == "default" && self.take_word("allow_false") {
                    if !self.take(Kind::Colon) {
                        return Err(self.expected("`:`"));
                    }
                    call.allow_false = self.take_word("true");
                    if !call.allow_false && !self.take_word("false") {
                        return Err(self.expected("`true` or `false`"));
                    }
                } else {
                    call.args.push(self.expr()?);
                }
                if !self.take(Kind::Comma) {
                    break;
                }
            }
        }
        if call.args.len() < filter.min || call.args.len() > filter.max {
            let takes = match (filter.min, filter.max) {
                (0, 0) => "no arguments".to_owned(),
                (a, b) if a == b => format!("{a} argument{}", if a == 1 { "" } else { "s" }),
                (a, b) => format!("{a} to {b} arguments"),
            };
            return Err(Fault::new(at, format!("the filter `{name}` takes {takes}, not {}", call.args.len())));
        }
        if let ("date", Some(Expr::Text(format))) = (name, call.args.first()) {
            filters::check_date_format(format).map_err(|message| Fault::new(at, message))?;
        }
        Ok(call)
    }

    pub(super) fn expr(&mut self) -> Result<Expr, Fault> {
        let token = self.peek();
        Ok(match token.kind {
            Kind::Int(value) => {
                self.bump();
                Expr::Int(value)
            }
            Kind::Float(value) => {
                self.bump();
                Expr::Float(value)
            }
            Kind::Text => {
                self.bump();
                Expr::Text(self.text(token).into())
            }
            Kind::Word => match self.text(token) {
                "nil" | "null" => self.literal(Expr::Nil),
                "true" => self.literal(Expr::Bool(true)),
                "false" => self.literal(Expr::Bool(false)),
                "empty" => self.literal(Expr::Empty),
                "blank" => self.literal(Expr::Blank),
                _ => Expr::Path(self.nested(Self::path)?),
            },
            Kind::ParenOpen => {
                self.bump();
                let from = self.nested(Self::expr)?;
                if !self.take(Kind::DotDot) {
                    return Err(Fault::new(
                        token.start,
                        "parentheses are only for ranges such as (1..5); split the condition into several {% if %}",
                    ));
                }
                let to = self.nested(Self::expr)?;
                if !self.take(Kind::ParenClose) {
                    return Err(self.expected("`)`"));
                }
                Expr::Range(Box::new((from, to)))
            }
            _ => return Err(self.expected("a value")),
        })
    }

    fn literal(&mut self, literal: Expr) -> Expr {
        self.bump();
        literal
    }

    /// Runs a parser one level deeper. The limit prevents hostile input from overflowing the stack.
    fn nested<T>(&mut self, rule: fn(&mut Self) -> Result<T, Fault>) -> Result<T, Fault> {
        if self.depth == NESTING_MAX {
            return Err(Fault::new(self.peek().start, format!("nested more than {NESTING_MAX} deep")));
        }
        self.depth += 1;
        let result = rule(self);
        self.depth -= 1;
        result
    }

    fn path(&mut self) -> Result<Path, Fault> {
        let root = self.word("a name")?;
        let slot = self.names.slot(root);
        let mut name = root.to_owned();
        let mut steps = Vec::new();
        let mut known = true;
        loop {
            if self.take(Kind::Dot) {
                let key = self.word("a name after the dot")?;
                if known {
                    name.push('.');
                    name.push_str(key);
                }
                steps.push(Step::Key(key.into()));
            } else if self.take(Kind::BracketOpen) {
                let index = self.nested(Self::expr)?;
                if !self.take(Kind::BracketClose) {
                    return Err(self.expected("`]`"));
                }
                let shown = match &index {
                    Expr::Text(key) => Some(format!("[{key:?}]")),
                    Expr::Int(position) => Some(format!("[{position}]")),
                    _ => None,
                };
                known &= shown.is_some();
                name.extend(shown.filter(|_| known));
                steps.push(match index {
                    Expr::Text(key) => Step::Key(key),
                    other => Step::Index(other),
                });
            } else {
                break;
            }
        }
        if root == "forloop" && self.names.in_loop() {
            return Ok(Path { root: Root::Loop, steps, name: name.into() });
        }
        self.names.read(slot, &name);
        Ok(Path { root: Root::Name { name: root.into(), slot }, steps, name: name.into() })
    }

    pub(super) fn condition(&mut self, negated: bool) -> Result<Condition, Fault> {
        let mut condition = Condition { negated, tests: vec![self.test()?], joins: Vec::new() };
        loop {
            let join = if self.take_word("and") {
                Join::And
            } else if self.take_word("or") {
                Join::Or
            } else {
                break;
            };
            condition.joins.push(join);
            condition.tests.push(self.test()?);
        }
        match self.peek().kind {
            Kind::End => Ok(condition),
            Kind::Pipe => Err(Fault::new(
                self.peek().start,
                "filters cannot be used in a condition; {% assign %} the value first, and join conditions by `or`",
            )),
            _ => Err(self.expected("`and`, `or` or the end of the tag")),
        }
    }

    fn test(&mut self) -> Result<Test, Fault> {
        let left = self.expr()?;
        let op = match self.peek().kind {
            Kind::Eq => Op::Eq,
            Kind::Ne => Op::Ne,
            Kind::Lt => Op::Lt,
            Kind::Gt => Op::Gt,
            Kind::Le => Op::Le,
            Kind::Ge => Op::Ge,
            Kind::Assign => return Err(Fault::new(self.peek().start, "to compare, write `==`")),
            Kind::Word if self.text(self.peek()) == "contains" => Op::Contains,
            _ => return Ok(Test { left, right: None }),
        };
        self.bump();
        Ok(Test { left, right: Some((op, self.expr()?)) })
    }
}
