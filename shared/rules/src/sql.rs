//! Compiling rules to SQL for many people at once. What rules say is only ever bound as a parameter.
//!
//! Each behaviour, list and segment becomes a set of people that is joined to theirs (`LEFT JOIN … ON id = u.id`), so
//! that it is made once by one scan and never looked up person by person; a hash join of any size stays within its
//! memory, which the hashed subplan of an `IN` does not. Who was merged counts as whom they became (`alias`).
//!
//! A query of many people can be cut into ranges of user ids (`people_between`). Each set then holds only users of the range,
//! so that a slice reads what its own users did, and all slices together read everything once.

mod behaviour;
mod params;
mod value;

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;

use jiff::Timestamp;
use uuid::Uuid;

use super::{Condition, Leaf, Rule};
use domain::push_token::Platform;
use kernel::ids::ProjectId;
pub use params::Param;
use params::Params;

/// Who is in a segment, as far as it is needed to compile rules that name it.
#[derive(Clone, Debug, PartialEq)]
pub enum Membership {
    Rules(Vec<Rule>),
    /// Whoever was put on the list.
    List,
}

/// A query's parts: `{with} SELECT … FROM {from} WHERE {condition}`. The people are `u`, a row each of the table
/// `users`; the condition names the project ($1) and leaves out who was merged.
#[derive(Debug)]
pub struct People {
    pub with: String,
    pub from: String,
    pub condition: String,
    pub params: Vec<Param>,
}

/// One query for the statistics of one behaviour of one person, whose ids are $2: a row of the count (bigint), when the deed
/// at its [`super::slide::Edge`] happened (timestamptz; null where there is none), and the totals (text: decimal numbers of
/// any size).
#[derive(Debug)]
pub struct PersonStats {
    pub sql: String,
    pub params: Vec<Param>,
}

/// Compiles rules on people. `segments` are those that the rules name, and those that these name in turn; one that is
/// missing there has no members.
pub fn people(project: ProjectId, rules: &[Rule], segments: &HashMap<Uuid, Membership>, now: Timestamp) -> People {
    let mut compiler = Compiler::new(project, segments, now);
    let select = compiler.select(rules);
    compiler.finish(select)
}

/// As [`people`], for users whose ids lie in a range. The condition's first parameters after the project ($1) are the
/// range's bounds.
pub fn people_between(
    project: ProjectId,
    rules: &[Rule],
    segments: &HashMap<Uuid, Membership>,
    now: Timestamp,
    range: IdRange,
) -> People {
    let mut compiler = Compiler::new(project, segments, now);
    let after = compiler.params.add(Param::Id(range.after));
    let to = compiler.params.add(Param::Id(range.to));
    compiler.range = Some(RangeParams { after, to });
    let select = compiler.select(rules);
    compiler.finish(select)
}

/// User ids behind `after`, up to `to` and with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdRange {
    pub after: Uuid,
    pub to: Uuid,
}

/// Compiles membership of one segment.
pub fn members(project: ProjectId, of: Uuid, segments: &HashMap<Uuid, Membership>, now: Timestamp) -> People {
    let mut compiler = Compiler::new(project, segments, now);
    let select = match segments.get(&of) {
        Some(Membership::Rules(rules)) => compiler.select(rules),
        _ => {
            let leaf = Leaf { negated: false, condition: Condition::Segment(BTreeSet::from([of])) };
            compiler.select(&[Rule::Leaf(leaf)])
        }
    };
    compiler.finish(select)
}

/// Compiles the statistics of one behaviour of one person, given by all their ids.
pub fn person_stats(project: ProjectId, ids: &[Uuid], behaviour: &super::Behaviour, now: Timestamp) -> PersonStats {
    let none = HashMap::new();
    let mut compiler = Compiler::new(project, &none, now);
    let ids = compiler.params.add(Param::Ids(ids.to_vec()));
    let sql = compiler.stats(behaviour, &ids);
    PersonStats { sql, params: compiler.params.into_vec() }
}

/// Compiles the deeds of one behaviour of one person, given by all their ids, newest first and so many at most: a row of
/// when it happened (timestamptz) and the number of each total (text; null where it has none).
pub fn person_deeds(
    project: ProjectId,
    ids: &[Uuid],
    behaviour: &super::Behaviour,
    now: Timestamp,
    most: usize,
) -> PersonStats {
    let none = HashMap::new();
    let mut compiler = Compiler::new(project, &none, now);
    let ids = compiler.params.add(Param::Ids(ids.to_vec()));
    let sql = compiler.deeds(behaviour, &ids, most);
    PersonStats { sql, params: compiler.params.into_vec() }
}

/// Compiles the statistics of one behaviour of many people, all of whose `ids` are given with the `people` whose they are.
/// A row of who did it: the person (uuid), the count (bigint), when the deed at its [`super::slide::Edge`] happened
/// (timestamptz; null where there is none), and the totals (text: decimal numbers of any size).
pub fn crowd_stats(
    project: ProjectId,
    ids: &[Uuid],
    people: &[Uuid],
    behaviour: &super::Behaviour,
    now: Timestamp,
) -> PersonStats {
    let none = HashMap::new();
    let mut compiler = Compiler::new(project, &none, now);
    let ids = compiler.params.add(Param::Ids(ids.to_vec()));
    let people = compiler.params.add(Param::Ids(people.to_vec()));
    let sql = compiler.crowd_stats(behaviour, &ids, &people);
    PersonStats { sql, params: compiler.params.into_vec() }
}

struct Compiler<'a> {
    segments: &'a HashMap<Uuid, Membership>,
    now: Timestamp,
    params: Params,
    /// Definitions of `WITH`, in the order in which they need each other.
    with: Vec<String>,
    /// The names of the segments in it; none while one is being compiled.
    named: HashMap<Uuid, Option<String>>,
    /// The parameters of the range of user ids, where only those are looked for.
    range: Option<RangeParams>,
}

/// `users u` and what is joined to it, and the condition.
struct Select {
    joins: String,
    condition: String,
    joined: usize,
}

/// Ids that were merged, each with every person that it leads to. UNION, not UNION ALL: it ends whatever the rows hold.
const ALIAS: &str = "alias (id, person) AS (SELECT id, merged_into FROM users WHERE project_id = $1 AND merged_into IS NOT NULL \
    UNION SELECT a.id, m.merged_into FROM alias a JOIN users m ON m.project_id = $1 AND m.id = a.person \
    WHERE m.merged_into IS NOT NULL)";

/// The parameters of a range of user ids.
struct RangeParams {
    after: String,
    to: String,
}

/// The ids that were merged into users of a range, found from those users on.
fn alias_of_range(RangeParams { after, to }: &RangeParams) -> String {
    format!(
        "alias (id, person) AS (SELECT id, merged_into FROM users WHERE project_id = $1 AND merged_into > {after}::uuid \
         AND merged_into <= {to}::uuid UNION SELECT m.id, a.person FROM alias a CROSS JOIN LATERAL \
         (SELECT id FROM users WHERE project_id = $1 AND merged_into = a.id OFFSET 0) AS m)"
    )
}

impl<'a> Compiler<'a> {
    fn new(project: ProjectId, segments: &'a HashMap<Uuid, Membership>, now: Timestamp) -> Self {
        Self { segments, now, params: Params::of(project), with: Vec::new(), named: HashMap::new(), range: None }
    }

    fn finish(self, select: Select) -> People {
        let Select { joins, condition, .. } = select;
        let with = if joins.is_empty() && self.with.is_empty() {
            String::new()
        } else {
            let alias = self.range.as_ref().map_or_else(|| ALIAS.to_owned(), alias_of_range);
            let all: Vec<&str> = std::iter::once(alias.as_str()).chain(self.with.iter().map(String::as_str)).collect();
            format!("WITH RECURSIVE {}", all.join(", "))
        };
        People { with, from: format!("users u{joins}"), condition, params: self.params.into_vec() }
    }

    fn select(&mut self, rules: &[Rule]) -> Select {
        let mut select = Select { joins: String::new(), condition: String::new(), joined: 0 };
        let condition = self.all(rules, &mut select);
        let in_range =
            self.range.as_ref().map_or_else(String::new, |range| format!("{} AND ", in_range("u.id", range)));
        select.condition = format!("u.project_id = $1 AND u.merged_into IS NULL AND {in_range}{condition}");
        select
    }

    /// Rows of a table that has a `user_id`, each under the id of the person whose it is (`id`), with some of its columns: as SQL.
    /// The conditions call the table `d`.
    fn owned(&self, table: &str, columns: &str, conditions: &str) -> String {
        match &self.range {
            None => format!(
                "SELECT coalesce(a.person, d.user_id) AS id{columns} FROM {table} d LEFT JOIN alias a ON a.id = d.user_id \
                 WHERE {conditions}"
            ),
            // Ids that were merged lie anywhere, so each of those is looked up. A range alone would have to be all ids.
            Some(range) => format!(
                "SELECT d.user_id AS id{columns} FROM {table} d WHERE {conditions} AND {in_range} \
                 UNION ALL SELECT a.person AS id{columns} FROM {table} d JOIN alias a ON a.id = d.user_id \
                 WHERE {conditions} AND d.user_id = ANY(ARRAY(SELECT id FROM alias))",
                in_range = in_range("d.user_id", range)
            ),
        }
    }

    fn all(&mut self, rules: &[Rule], select: &mut Select) -> String {
        self.joined_by(rules, " AND ", "true", select)
    }

    fn joined_by(&mut self, rules: &[Rule], operator: &str, empty: &str, select: &mut Select) -> String {
        let parts: Vec<String> = rules.iter().map(|rule| self.rule(rule, select)).collect();
        if parts.is_empty() { empty.to_owned() } else { format!("({})", parts.join(operator)) }
    }

    fn rule(&mut self, rule: &Rule, select: &mut Select) -> String {
        match rule {
            Rule::All(rules) => self.all(rules, select),
            Rule::Any(rules) => self.joined_by(rules, " OR ", "false", select),
            Rule::Not(rule) => format!("(NOT {})", self.rule(rule, select)),
            Rule::Leaf(leaf) => self.leaf(leaf, select),
        }
    }

    /// Never null: each leaf is true or false, so that it can be negated.
    fn leaf(&mut self, leaf: &Leaf, select: &mut Select) -> String {
        match &leaf.condition {
            Condition::Value { source, test } => {
                let condition = self.params.profile_test(source, test, self.now);
                format!("({condition} IS {})", if leaf.negated { "NOT TRUE" } else { "TRUE" })
            }
            Condition::Segment(ids) => {
                let mut sets: Vec<String> = Vec::new();
                let lists: Vec<Uuid> = ids.iter().copied().filter(|id| self.is_list(*id)).collect();
                if !lists.is_empty() {
                    let set = self.list_members(&lists);
                    sets.push(select.join(&set));
                }
                for id in ids {
                    if let Some(name) = self.segment(*id) {
                        sets.push(select.join(&name));
                    }
                }
                in_any(&sets, !leaf.negated)
            }
            Condition::Platform(platforms) => {
                let set = self.with_token(platforms);
                in_any(&[select.join(&set)], !leaf.negated)
            }
            Condition::Behaviour(behaviour) => {
                // Who never did it stands in no row: where that satisfies the rule, those who fail it are looked for.
                let opposite = behaviour.holds_for_none();
                let set = self.behaved(behaviour, opposite);
                in_any(&[select.join(&set)], leaf.negated == opposite)
            }
        }
    }

    fn is_list(&self, id: Uuid) -> bool {
        matches!(self.segments.get(&id), Some(Membership::List))
    }

    /// The name of a segment's set in `WITH`; none where it has no rules, or rests on itself.
    fn segment(&mut self, id: Uuid) -> Option<String> {
        if let Some(name) = self.named.get(&id) {
            return name.clone();
        }
        let segments = self.segments;
        let Some(Membership::Rules(rules)) = segments.get(&id) else { return None };
        self.named.insert(id, None);
        let Select { joins, condition, .. } = self.select(rules);
        let name = format!("segment_{}", self.with.len());
        self.with.push(format!("{name} (id) AS (SELECT u.id FROM users u{joins} WHERE {condition})"));
        self.named.insert(id, Some(name.clone()));
        Some(name)
    }

    fn list_members(&mut self, lists: &[Uuid]) -> String {
        let lists = self.params.add(Param::Ids(lists.to_vec()));
        let conditions = format!("d.project_id = $1 AND d.segment_id = ANY({lists}::uuid[])");
        format!("(SELECT DISTINCT id FROM ({}) AS d)", self.owned("segment_member", "", &conditions))
    }

    fn with_token(&mut self, platforms: &BTreeSet<Platform>) -> String {
        let wanted = if platforms.is_empty() {
            String::new()
        } else {
            let names = platforms.iter().map(|platform| platform.as_str().to_owned()).collect();
            format!(" AND d.platform = ANY({}::text[])", self.params.add(Param::Texts(names)))
        };
        let conditions = format!("d.project_id = $1 AND d.user_id IS NOT NULL{wanted}");
        format!("(SELECT DISTINCT id FROM ({}) AS d)", self.owned("push_token", "", &conditions))
    }
}

fn in_range(id: &str, RangeParams { after, to }: &RangeParams) -> String {
    format!("{id} > {after}::uuid AND {id} <= {to}::uuid")
}

/// Whether somebody is in one of the joined sets, or in none. Said plainly, so that the planner sees an inner join.
fn in_any(sets: &[String], holds: bool) -> String {
    let (test, operator) = if holds { ("IS NOT NULL", " OR ") } else { ("IS NULL", " AND ") };
    match sets {
        [] => (!holds).to_string(),
        _ => format!("({})", sets.iter().map(|set| format!("{set}.id {test}")).collect::<Vec<_>>().join(operator)),
    }
}

impl Select {
    /// Joins a set of ids, each of which it must hold once; returns its name.
    fn join(&mut self, set: &str) -> String {
        self.joined += 1;
        let name = format!("s{}", self.joined);
        let _ = write!(self.joins, " LEFT JOIN {set} {name} ON {name}.id = u.id");
        name
    }
}
