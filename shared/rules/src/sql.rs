//! Compiles rules to SQL for many users at once. Values from rules are always bound as parameters.
//!
//! Each behaviour, list and segment becomes a set of user IDs that is joined to `users` (`LEFT JOIN … ON id = u.id`).
//! One scan builds the set, without lookups per user, and a hash join of any size stays within its memory, unlike the
//! hashed subplan of an `IN`. Rows of merged users count for the user they were merged into (`alias`).
//!
//! A query for many users can be split into ranges of user IDs (`users_in_range`). Each set then holds only users
//! of the range, so that all slices together read everything only once.

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

/// The definition of a segment's membership, as needed to compile rules that name it.
#[derive(Clone, Debug, PartialEq)]
pub enum Membership {
    Rules(Vec<Rule>),
    /// The users on a static list.
    List,
}

/// The parts of a query: `{with} SELECT … FROM {from} WHERE {condition}`.
///
/// The users are `u`, one row each of the table `users`. The condition restricts them to the project ($1) and excludes
/// merged users.
#[derive(Debug)]
pub struct UserQuery {
    pub with: String,
    pub from: String,
    pub condition: String,
    pub params: Vec<Param>,
}

/// A query for the statistics or the activities of one behaviour.
///
/// $2 holds the user IDs. The functions that return it describe its rows.
#[derive(Debug)]
pub struct BehaviourQuery {
    pub sql: String,
    pub params: Vec<Param>,
}

/// Compiles rules on users.
///
/// `segments` holds the segments that the rules name, directly or through other segments. A segment that is missing
/// there has no members.
pub fn users(project: ProjectId, rules: &[Rule], segments: &HashMap<Uuid, Membership>, now: Timestamp) -> UserQuery {
    let mut compiler = Compiler::new(project, segments, now);
    let select = compiler.select(rules);
    compiler.finish(select)
}

/// Like [`users`], for users whose IDs are in a range. The first parameters after the project ($1) are the bounds
/// of the range.
pub fn users_in_range(
    project: ProjectId,
    rules: &[Rule],
    segments: &HashMap<Uuid, Membership>,
    now: Timestamp,
    range: IdRange,
) -> UserQuery {
    let mut compiler = Compiler::new(project, segments, now);
    let after = compiler.params.add(Param::Id(range.after));
    let to = compiler.params.add(Param::Id(range.to));
    compiler.range = Some(RangeParams { after, to });
    let select = compiler.select(rules);
    compiler.finish(select)
}

/// User IDs greater than `after`, up to and including `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdRange {
    pub after: Uuid,
    pub to: Uuid,
}

/// Compiles the membership of one segment.
pub fn members(project: ProjectId, of: Uuid, segments: &HashMap<Uuid, Membership>, now: Timestamp) -> UserQuery {
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

/// Compiles the statistics of one behaviour of one user, given by all their IDs.
///
/// The query returns one row: the count (bigint), when the activity at its [`super::slide::Edge`] happened
/// (timestamptz; null if there is none), and the totals (text: decimal numbers of any size).
pub fn user_stats(project: ProjectId, ids: &[Uuid], behaviour: &super::Behaviour, now: Timestamp) -> BehaviourQuery {
    let none = HashMap::new();
    let mut compiler = Compiler::new(project, &none, now);
    let ids = compiler.params.add(Param::Ids(ids.to_vec()));
    let sql = compiler.stats(behaviour, &ids);
    BehaviourQuery { sql, params: compiler.params.into_vec() }
}

/// Compiles a query for at most `limit` activities of one behaviour of one user, given by all their IDs, newest first.
///
/// Each row has the time of the activity (timestamptz) and the number for each total (text; null if it has none).
pub fn user_activities(
    project: ProjectId,
    ids: &[Uuid],
    behaviour: &super::Behaviour,
    now: Timestamp,
    limit: usize,
) -> BehaviourQuery {
    let none = HashMap::new();
    let mut compiler = Compiler::new(project, &none, now);
    let ids = compiler.params.add(Param::Ids(ids.to_vec()));
    let sql = compiler.activities(behaviour, &ids, limit);
    BehaviourQuery { sql, params: compiler.params.into_vec() }
}

/// Compiles the statistics of one behaviour of many users. `users[i]` is the user to whom `ids[i]` belongs.
///
/// Each user who did it has a row: the user (uuid), the count (bigint), when the activity at its [`super::slide::Edge`]
/// happened (timestamptz; null if there is none), and the totals (text: decimal numbers of any size).
pub fn bulk_stats(
    project: ProjectId,
    ids: &[Uuid],
    users: &[Uuid],
    behaviour: &super::Behaviour,
    now: Timestamp,
) -> BehaviourQuery {
    let none = HashMap::new();
    let mut compiler = Compiler::new(project, &none, now);
    let ids = compiler.params.add(Param::Ids(ids.to_vec()));
    let users = compiler.params.add(Param::Ids(users.to_vec()));
    let sql = compiler.bulk_stats(behaviour, &ids, &users);
    BehaviourQuery { sql, params: compiler.params.into_vec() }
}

struct Compiler<'a> {
    segments: &'a HashMap<Uuid, Membership>,
    now: Timestamp,
    params: Params,
    /// Definitions of the `WITH` clause, in order of dependency.
    with: Vec<String>,
    /// The names of the segments in `with`; `None` while a segment is being compiled.
    named: HashMap<Uuid, Option<String>>,
    /// The bounds of the user IDs, if the query is restricted to a range.
    range: Option<RangeParams>,
}

/// The joins to `users u`, and the condition.
struct Select {
    joins: String,
    condition: String,
    joined: usize,
}

/// Merged IDs, each with every user that they were merged into, directly or indirectly. `UNION` instead of `UNION ALL`
/// guarantees that the recursion ends whatever the rows contain.
const ALIAS: &str = "alias (id, user_id) AS (SELECT id, merged_into FROM users WHERE project_id = $1 AND merged_into IS NOT NULL \
    UNION SELECT a.id, m.merged_into FROM alias a JOIN users m ON m.project_id = $1 AND m.id = a.user_id \
    WHERE m.merged_into IS NOT NULL)";

/// The parameters with the bounds of a range of user IDs.
struct RangeParams {
    after: String,
    to: String,
}

/// Returns the definition of `alias` for IDs that were merged into users of a range, starting from those users.
fn alias_of_range(RangeParams { after, to }: &RangeParams) -> String {
    format!(
        "alias (id, user_id) AS (SELECT id, merged_into FROM users WHERE project_id = $1 AND merged_into > {after}::uuid \
         AND merged_into <= {to}::uuid UNION SELECT m.id, a.user_id FROM alias a CROSS JOIN LATERAL \
         (SELECT id FROM users WHERE project_id = $1 AND merged_into = a.id OFFSET 0) AS m)"
    )
}

impl<'a> Compiler<'a> {
    fn new(project: ProjectId, segments: &'a HashMap<Uuid, Membership>, now: Timestamp) -> Self {
        Self { segments, now, params: Params::of(project), with: Vec::new(), named: HashMap::new(), range: None }
    }

    fn finish(self, select: Select) -> UserQuery {
        let Select { joins, condition, .. } = select;
        let with = if joins.is_empty() && self.with.is_empty() {
            String::new()
        } else {
            let alias = self.range.as_ref().map_or_else(|| ALIAS.to_owned(), alias_of_range);
            let all: Vec<&str> = std::iter::once(alias.as_str()).chain(self.with.iter().map(String::as_str)).collect();
            format!("WITH RECURSIVE {}", all.join(", "))
        };
        UserQuery { with, from: format!("users u{joins}"), condition, params: self.params.into_vec() }
    }

    fn select(&mut self, rules: &[Rule]) -> Select {
        let mut select = Select { joins: String::new(), condition: String::new(), joined: 0 };
        let condition = self.all(rules, &mut select);
        let in_range =
            self.range.as_ref().map_or_else(String::new, |range| format!("{} AND ", in_range("u.id", range)));
        select.condition = format!("u.project_id = $1 AND u.merged_into IS NULL AND {in_range}{condition}");
        select
    }

    /// Returns SQL for the rows of a table with a `user_id`: the ID of the current user as `id`, and some of the
    /// columns.
    ///
    /// The conditions refer to the table as `d`.
    fn owned(&self, table: &str, columns: &str, conditions: &str) -> String {
        match &self.range {
            None => format!(
                "SELECT coalesce(a.user_id, d.user_id) AS id{columns} FROM {table} d LEFT JOIN alias a ON a.id = d.user_id \
                 WHERE {conditions}"
            ),
            // Merged IDs may be outside the range, so they are looked up one by one.
            Some(range) => format!(
                "SELECT d.user_id AS id{columns} FROM {table} d WHERE {conditions} AND {in_range} \
                 UNION ALL SELECT a.user_id AS id{columns} FROM {table} d JOIN alias a ON a.id = d.user_id \
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

    /// Compiles a leaf. The result is never null, so that it can be negated.
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
                // Users who never did it have no row. If they satisfy the rule, select the users who do not, and
                // negate.
                let opposite = behaviour.holds_for_none();
                let set = self.behaviour_set(behaviour, opposite);
                in_any(&[select.join(&set)], leaf.negated == opposite)
            }
        }
    }

    fn is_list(&self, id: Uuid) -> bool {
        matches!(self.segments.get(&id), Some(Membership::List))
    }

    /// Returns the name of a segment's set in `WITH`; `None` if it has no rules or depends on itself.
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

/// Tests whether a user is in one of the joined sets, or in none. In plain form, so that the planner finds an inner
/// join.
fn in_any(sets: &[String], holds: bool) -> String {
    let (test, operator) = if holds { ("IS NOT NULL", " OR ") } else { ("IS NULL", " AND ") };
    match sets {
        [] => (!holds).to_string(),
        _ => format!("({})", sets.iter().map(|set| format!("{set}.id {test}")).collect::<Vec<_>>().join(operator)),
    }
}

impl Select {
    /// Joins a set of IDs, which must contain no duplicates, and returns its name.
    fn join(&mut self, set: &str) -> String {
        self.joined += 1;
        let name = format!("s{}", self.joined);
        let _ = write!(self.joins, " LEFT JOIN {set} {name} ON {name}.id = u.id");
        name
    }
}
