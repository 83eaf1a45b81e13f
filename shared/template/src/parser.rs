//! Builds the syntax tree from the pieces of a source.

use super::ast::{Block, For, Node};
use super::expr::Cursor;
use super::lexer::{Inner, Kind, Lexed, Piece, lex};
use super::names::Names;
use super::{Fault, NESTING_MAX};

/// Returns the nodes of a source, and the names that they use.
pub(super) fn parse(source: &str) -> Result<(Block, Names), Fault> {
    let lexed = lex(source)?;
    let mut parser = Parser { source, lexed: &lexed, next: 0, names: Names::default(), loops: 0, depth: 0 };
    let (nodes, stop) = parser.block()?;
    match stop {
        None => Ok((nodes, parser.names)),
        Some(stop) => Err(Fault::new(stop.inner.at, format!("`{{% {} %}}` has no matching opening tag", stop.name))),
    }
}

const TAGS: &str = "assign, break, capture, case, comment, continue, echo, for, if, raw, unless";

/// A tag that ends or divides a block.
struct Stop<'s, 't> {
    name: &'s str,
    inner: &'t Inner,
}

struct Parser<'s, 't> {
    source: &'s str,
    lexed: &'t Lexed,
    next: usize,
    names: Names,
    /// Number of loops that enclose the current position.
    loops: usize,
    depth: usize,
}

type Body<'s, 't> = (Block, Option<Stop<'s, 't>>);

impl<'s, 't> Parser<'s, 't> {
    fn cursor(&mut self, inner: &Inner) -> Cursor<'s, '_> {
        Cursor::new(self.source, &self.lexed.tokens[inner.tokens.clone()], &mut self.names)
    }

    /// Parses nodes up to the first tag that ends or divides a block, or up to the end of the source.
    fn block(&mut self) -> Result<Body<'s, 't>, Fault> {
        let lexed = self.lexed;
        let mut nodes = Vec::new();
        while let Some(piece) = lexed.pieces.get(self.next) {
            self.next += 1;
            match piece {
                Piece::Text(range) => nodes.push(Node::Text(range.clone())),
                Piece::Output(inner) if inner.tokens.len() == 1 => {}
                Piece::Output(inner) => nodes.push(Node::Output(inner.at, self.cursor(inner).pipe()?)),
                Piece::Tag(name, inner) => match &self.source[name.clone()] {
                    name
                    @ ("elsif" | "else" | "when" | "endif" | "endunless" | "endfor" | "endcase" | "endcapture") => {
                        return Ok((nodes, Some(Stop { name, inner })));
                    }
                    name => nodes.push(self.tag(name, inner)?),
                },
            }
        }
        Ok((nodes, None))
    }

    /// Parses the block in the tag `name` at `open`; returns it with the tag that ended it.
    fn body(&mut self, name: &str, open: &Inner) -> Result<(Block, Stop<'s, 't>), Fault> {
        if self.depth == NESTING_MAX {
            return Err(Fault::new(open.at, format!("tags are nested more than {NESTING_MAX} deep")));
        }
        self.depth += 1;
        let result = self.block();
        self.depth -= 1;
        match result? {
            (nodes, Some(stop)) => Ok((nodes, stop)),
            (_, None) => Err(Fault::new(open.at, format!("`{{% {name} %}}` is never closed with `{{% end{name} %}}`"))),
        }
    }

    fn tag(&mut self, name: &'s str, inner: &'t Inner) -> Result<Node, Fault> {
        match name {
            "if" | "unless" => self.conditional(name, inner),
            "case" => self.case(inner),
            "for" => self.for_loop(inner),
            "assign" => self.assign(inner),
            "capture" => self.capture(inner),
            "echo" => Ok(Node::Output(inner.at, self.cursor(inner).pipe()?)),
            "break" | "continue" => {
                if self.loops == 0 {
                    return Err(Fault::new(inner.at, format!("`{{% {name} %}}` is outside of a {{% for %}}")));
                }
                self.cursor(inner).end()?;
                Ok(if name == "break" { Node::Break } else { Node::Continue })
            }
            _ => Err(Fault::new(inner.at, format!("unknown tag \"{name}\"; the tags are {TAGS}"))),
        }
    }

    /// Checks that `stop` is `end<name>` with nothing after it.
    fn close(&mut self, stop: &Stop<'s, 't>, name: &str, open: &Inner) -> Result<(), Fault> {
        if stop.name.strip_prefix("end") == Some(name) {
            return self.cursor(stop.inner).end();
        }
        let line = super::position(self.source, open.at).0;
        let message = format!(
            "expected `{{% end{name} %}}` for the {{% {name} %}} in line {line}, found `{{% {} %}}`",
            stop.name
        );
        Err(Fault::new(stop.inner.at, message))
    }

    /// Parses the block after an `else`, up to `end<name>`.
    fn otherwise(&mut self, stop: &Stop<'s, 't>, name: &str, open: &Inner) -> Result<Block, Fault> {
        let mut cursor = self.cursor(stop.inner);
        if cursor.take_word("if") {
            return Err(Fault::new(stop.inner.at, "write `{% elsif … %}` for `else if`"));
        }
        cursor.end()?;
        let (block, stop) = self.body(name, open)?;
        self.close(&stop, name, open)?;
        Ok(block)
    }

    fn conditional(&mut self, name: &str, open: &'t Inner) -> Result<Node, Fault> {
        let mut arms = Vec::new();
        let mut condition = self.cursor(open).condition(name == "unless")?;
        let otherwise = loop {
            let (block, stop) = self.body(name, open)?;
            arms.push((condition, block));
            match stop.name {
                "elsif" => condition = self.cursor(stop.inner).condition(false)?,
                "else" => break self.otherwise(&stop, name, open)?,
                _ => {
                    self.close(&stop, name, open)?;
                    break Vec::new();
                }
            }
        };
        Ok(Node::If { at: open.at, arms, otherwise })
    }

    fn case(&mut self, open: &'t Inner) -> Result<Node, Fault> {
        let mut cursor = self.cursor(open);
        let subject = cursor.expr()?;
        cursor.end()?;
        let mut arms = Vec::new();
        // Anything between `case` and the first `when` is dropped; usually it is a line break.
        let (_, mut stop) = self.body("case", open)?;
        let otherwise = loop {
            match stop.name {
                "when" => {
                    let mut cursor = self.cursor(stop.inner);
                    let mut values = vec![cursor.expr()?];
                    while cursor.take(Kind::Comma) || cursor.take_word("or") {
                        values.push(cursor.expr()?);
                    }
                    cursor.end()?;
                    let (block, next) = self.body("case", open)?;
                    arms.push((values, block));
                    stop = next;
                }
                "else" => break self.otherwise(&stop, "case", open)?,
                _ => {
                    self.close(&stop, "case", open)?;
                    break Vec::new();
                }
            }
        };
        Ok(Node::Case { at: open.at, subject, arms, otherwise })
    }

    fn for_loop(&mut self, open: &'t Inner) -> Result<Node, Fault> {
        let mut cursor = self.cursor(open);
        let name = cursor.word("a name for the element")?;
        if !cursor.take_word("in") {
            return Err(cursor.expected("`in`"));
        }
        let list = cursor.expr()?;
        let (mut reversed, mut limit, mut offset) = (false, None, None);
        loop {
            cursor.take(Kind::Comma);
            if cursor.take_word("reversed") {
                reversed = true;
                continue;
            }
            let target = match (cursor.peek().kind, cursor.text(cursor.peek())) {
                (Kind::Word, "limit") => &mut limit,
                (Kind::Word, "offset") => &mut offset,
                (Kind::End, _) => break,
                _ => return Err(cursor.expected("`limit:`, `offset:`, `reversed` or the end of the tag")),
            };
            cursor.word("")?;
            if !cursor.take(Kind::Colon) {
                return Err(cursor.expected("`:`"));
            }
            *target = Some(cursor.expr()?);
        }
        let slot = cursor.names().slot(name);
        self.names.enter_loop(slot);
        self.loops += 1;
        let result = self.body("for", open);
        self.loops -= 1;
        self.names.leave_loop();
        let (body, stop) = result?;
        let otherwise = if stop.name == "else" {
            self.otherwise(&stop, "for", open)?
        } else {
            self.close(&stop, "for", open)?;
            Vec::new()
        };
        Ok(Node::For(Box::new(For { at: open.at, slot, list, reversed, limit, offset, body, otherwise })))
    }

    fn assign(&mut self, open: &Inner) -> Result<Node, Fault> {
        let mut cursor = self.cursor(open);
        let name = cursor.word("a name to assign to")?;
        if !cursor.take(Kind::Assign) {
            return Err(cursor.expected("`=`"));
        }
        let value = cursor.pipe()?;
        let slot = self.names.slot(name);
        self.names.assign(slot);
        Ok(Node::Assign { at: open.at, slot, value })
    }

    fn capture(&mut self, open: &'t Inner) -> Result<Node, Fault> {
        let mut cursor = self.cursor(open);
        let token = cursor.peek();
        let name = if cursor.take(Kind::Text) { cursor.text(token) } else { cursor.word("a name to capture into")? };
        cursor.end()?;
        let (body, stop) = self.body("capture", open)?;
        self.close(&stop, "capture", open)?;
        let slot = self.names.slot(name);
        self.names.assign(slot);
        Ok(Node::Capture { at: open.at, slot, body })
    }
}
