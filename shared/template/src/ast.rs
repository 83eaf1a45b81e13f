//! The syntax tree of a compiled template. Names are resolved to slots, and filters to functions.

use std::ops::Range;

use super::filters::Filter;

pub(super) type Block = Vec<Node>;

/// A byte offset in the source, for rendering errors.
pub(super) type At = usize;

#[derive(Debug)]
pub(super) enum Node {
    Text(Range<usize>),
    Output(At, Pipe),
    If { at: At, arms: Vec<(Condition, Block)>, otherwise: Block },
    Case { at: At, subject: Expr, arms: Vec<(Vec<Expr>, Block)>, otherwise: Block },
    For(Box<For>),
    Assign { at: At, slot: usize, value: Pipe },
    Capture { at: At, slot: usize, body: Block },
    Break,
    Continue,
}

#[derive(Debug)]
pub(super) struct For {
    pub(super) at: At,
    pub(super) slot: usize,
    pub(super) list: Expr,
    pub(super) reversed: bool,
    pub(super) limit: Option<Expr>,
    pub(super) offset: Option<Expr>,
    pub(super) body: Block,
    pub(super) otherwise: Block,
}

/// A value and the filters applied to it.
#[derive(Debug)]
pub(super) struct Pipe {
    pub(super) head: Expr,
    pub(super) calls: Vec<Call>,
}

#[derive(Debug)]
pub(super) struct Call {
    pub(super) filter: &'static Filter,
    pub(super) args: Vec<Expr>,
    /// Whether `default` has `allow_false: true`.
    pub(super) allow_false: bool,
}

#[derive(Debug)]
pub(super) enum Expr {
    Nil,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Box<str>),
    Empty,
    Blank,
    Path(Path),
    Range(Box<(Expr, Expr)>),
}

#[derive(Debug)]
pub(super) struct Path {
    pub(super) root: Root,
    pub(super) steps: Vec<Step>,
    /// The path as written in a template, up to the first index that is known only while rendering.
    pub(super) name: Box<str>,
}

#[derive(Debug)]
pub(super) enum Root {
    /// `forloop`
    Loop,
    /// A variable. The slot holds its value if a tag assigns one.
    Name { name: Box<str>, slot: usize },
}

#[derive(Debug)]
pub(super) enum Step {
    Key(Box<str>),
    Index(Expr),
}

/// Tests joined by `and` and `or`, evaluated from right to left as in Liquid. `joins[i]` follows `tests[i]`.
#[derive(Debug)]
pub(super) struct Condition {
    pub(super) negated: bool,
    pub(super) tests: Vec<Test>,
    pub(super) joins: Vec<Join>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Join {
    And,
    Or,
}

#[derive(Debug)]
pub(super) struct Test {
    pub(super) left: Expr,
    pub(super) right: Option<(Op, Expr)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    Eq,
    Ne,
    Lt,
    Gt,
    Le,
    Ge,
    Contains,
}
