//! Evaluates segments for many users at once. Data is loaded set by set, each behaviour with one statement for all
//! users concerned, and the rules are evaluated in memory.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use serde_json::{Map, Value};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::super::evaluate::{Definitions, closure, set_timeout};
use super::super::members;
use super::{in_order, maybe, numbers};
use crate::push_tokens;
use crate::users::read::{self, OwnedIds, User};
use database::StoreError;
use domain::push_token::Platform;
use kernel::ids::ProjectId;
use rules::eval::{self, Actual, Facts, Stats};
use rules::sql::{self, Membership};
use rules::{Behaviour, Condition, Rule, Source, slide};

/// Whether a user is in a segment, and when that can change with time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evaluation {
    pub is_member: bool,
    pub due_at: Option<Timestamp>,
}

/// A segment and a user.
pub type Pair = (Uuid, Uuid);

/// The result of an evaluation.
#[derive(Debug, Default)]
pub struct Evaluations {
    pub by_pair: BTreeMap<Pair, Evaluation>,
    /// The users who exist, by ID.
    pub users: HashMap<Uuid, User>,
    /// Segments without results, because their evaluation took too long.
    pub timed_out: BTreeSet<Uuid>,
}

/// Time limits for counting behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeLimits {
    /// For each statement; the transaction's statement timeout is already set to it.
    pub statement: Duration,
    /// For all statements together.
    pub whole: Duration,
}

/// Configures the planner of a transaction for index look-ups of single users, whatever it estimates the tables to
/// contain.
pub async fn for_lookups(tx: &Transaction<'_>) -> Result<(), StoreError> {
    let sql = "SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off";
    Ok(tx.batch_execute(sql).await?)
}

/// Evaluates each segment for the users given for it, none of whom may be merged into another user.
///
/// `definitions` holds these segments and all that they depend on. Segments whose behaviours are not counted within the
/// limits are returned in [`Evaluations::timed_out`].
pub async fn evaluate(
    tx: &mut Transaction<'_>,
    project: ProjectId,
    requested: &BTreeMap<Uuid, BTreeSet<Uuid>>,
    definitions: &Definitions,
    (now, limits): (Timestamp, TimeLimits),
) -> Result<Evaluations, StoreError> {
    let deadline = Instant::now() + limits.whole;
    let order = in_order(definitions);
    let closures: BTreeMap<Uuid, BTreeSet<Uuid>> =
        requested.keys().map(|id| (*id, closure(*id, definitions))).collect();
    let needed: BTreeSet<Uuid> = closures.values().flatten().copied().collect();
    let all_users: BTreeSet<Uuid> = requested.values().flatten().copied().collect();
    let all_users: Vec<Uuid> = all_users.into_iter().collect();

    let memberships = needed.iter().filter_map(|id| definitions.get(id));
    let mut batch = UserBatch::load(tx, project, &all_users, memberships).await?;
    let (mut evaluations, mut is_lowered) = (Evaluations::default(), false);
    for BehaviourQuery { behaviour, same, segments } in behaviour_queries(&closures, definitions) {
        if segments.is_subset(&evaluations.timed_out) {
            continue;
        }
        let users: BTreeSet<Uuid> = segments.iter().filter_map(|id| requested.get(id)).flatten().copied().collect();
        let left = deadline.saturating_duration_since(Instant::now());
        if left < limits.statement && !left.is_zero() {
            set_timeout(tx, left).await?;
            is_lowered = true;
        }
        if left.is_zero() || !batch.count(tx, project, (behaviour, same), &users, now).await? {
            evaluations.timed_out.extend(segments);
        }
    }
    if is_lowered {
        set_timeout(tx, limits.statement).await?;
    }
    for user in batch.users.values() {
        let is_requested =
            |segment: &&Uuid| requested[*segment].contains(&user.id) && !evaluations.timed_out.contains(*segment);
        let segments: Vec<Uuid> = requested.keys().filter(is_requested).copied().collect();
        let needed: BTreeSet<Uuid> = segments.iter().filter_map(|id| closures.get(id)).flatten().copied().collect();
        let mut batch_user = BatchUser::new(&batch, user);
        let mut due: HashMap<Uuid, Option<Timestamp>> = HashMap::new();
        for (id, rules) in order.iter().filter(|(id, _)| needed.contains(id)) {
            if eval::holds(rules, &batch_user, now) {
                batch_user.segments.insert(*id);
            }
            due.insert(*id, slide::next_change(rules, &batch_user, |b| batch_user.edge(b), now));
        }
        for segment in segments {
            let due_at = closures[&segment].iter().filter_map(|id| due.get(id).copied().flatten()).min();
            let is_member = batch_user.segments.contains(&segment);
            evaluations.by_pair.insert((segment, user.id), Evaluation { is_member, due_at });
        }
    }
    evaluations.users = batch.users;
    Ok(evaluations)
}

/// A behaviour, the addresses of all its occurrences, and the segments that ask about it directly or through others.
struct BehaviourQuery<'d> {
    behaviour: &'d Behaviour,
    same: Vec<usize>,
    segments: BTreeSet<Uuid>,
}

fn behaviour_queries<'d>(
    closures: &BTreeMap<Uuid, BTreeSet<Uuid>>,
    definitions: &'d Definitions,
) -> Vec<BehaviourQuery<'d>> {
    let mut found: Vec<BehaviourQuery<'d>> = Vec::new();
    for (id, membership) in definitions {
        let Membership::Rules(rules) = membership else { continue };
        let dependents = || closures.iter().filter(|(_, all)| all.contains(id)).map(|(segment, _)| *segment);
        for behaviour in rules::behaviours(rules).into_iter().filter(|_| dependents().next().is_some()) {
            match found.iter_mut().find(|query| query.behaviour == behaviour) {
                Some(query) => {
                    query.same.push(address(behaviour));
                    query.segments.extend(dependents());
                }
                None => {
                    found.push(BehaviourQuery {
                        behaviour,
                        same: vec![address(behaviour)],
                        segments: dependents().collect(),
                    });
                }
            }
        }
    }
    found
}

/// What was counted for a user, with the time of the behaviour's [`slide::Edge`].
type Counted = (Stats, Option<Timestamp>);

struct UserBatch {
    users: HashMap<Uuid, User>,
    lists: HashMap<Uuid, HashSet<Uuid>>,
    platforms: HashMap<Uuid, BTreeSet<Platform>>,
    counted: Vec<HashMap<Uuid, Counted>>,
    /// Index into `counted` by the behaviour's address, which is stable as long as the definitions are borrowed.
    index_by_address: HashMap<usize, usize>,
    /// All IDs of each user.
    ids: HashMap<Uuid, Vec<Uuid>>,
    /// Properties of a user who has none.
    no_properties: Map<String, Value>,
    no_platforms: BTreeSet<Platform>,
}

fn address(behaviour: &Behaviour) -> usize {
    std::ptr::from_ref(behaviour) as usize
}

impl UserBatch {
    async fn load<'d>(
        tx: &Transaction<'_>,
        project: ProjectId,
        users: &[Uuid],
        memberships: impl Iterator<Item = &'d Membership> + Clone,
    ) -> Result<Self, StoreError> {
        let found = read::get_all(tx, project, users).await?;
        let conditions =
            || memberships.clone().filter_map(rules_of).flat_map(rules::leaves).map(|leaf| &leaf.condition);
        let asks = |of: fn(&Condition) -> bool| conditions().any(of);
        let by_devices = asks(|condition| matches!(condition, Condition::Platform(_)));
        let by_behaviour = asks(|condition| matches!(condition, Condition::Behaviour(_)));
        let by_lists = memberships.clone().any(|membership| *membership == Membership::List);
        let mut batch = Self {
            users: found.into_iter().map(|user| (user.id, user)).collect(),
            lists: HashMap::new(),
            platforms: HashMap::new(),
            counted: Vec::new(),
            index_by_address: HashMap::new(),
            ids: HashMap::new(),
            no_properties: Map::new(),
            no_platforms: BTreeSet::new(),
        };
        if !(by_devices || by_behaviour || by_lists) {
            return Ok(batch);
        }
        let OwnedIds { ids, owners } = read::all_ids_of(tx, project, users).await?;
        let owner: HashMap<Uuid, Uuid> = ids.iter().copied().zip(owners).collect();
        if by_lists {
            for (segment, id) in members::lists_of(tx, project, &ids).await? {
                let Some(user) = owner.get(&id) else { continue };
                batch.lists.entry(*user).or_default().insert(segment);
            }
        }
        if by_devices {
            for (platform, id) in push_tokens::platforms_of(tx, project, &ids).await? {
                let Some(user) = owner.get(&id) else { continue };
                batch.platforms.entry(*user).or_default().insert(platform);
            }
        }
        for (id, user) in owner {
            batch.ids.entry(user).or_default().push(id);
        }
        Ok(batch)
    }

    /// Counts a behaviour of users; returns false if the statement timed out.
    async fn count(
        &mut self,
        tx: &mut Transaction<'_>,
        project: ProjectId,
        (behaviour, same): (&Behaviour, Vec<usize>),
        users: &BTreeSet<Uuid>,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let all = users.iter().flat_map(|user| {
            let ids = self.ids.get(user).map_or(&[][..], Vec::as_slice);
            ids.iter().map(|id| (*id, *user))
        });
        let (ids, owners): (Vec<Uuid>, Vec<Uuid>) = all.unzip();
        if ids.is_empty() {
            return Ok(true);
        }
        let query = sql::bulk_stats(project, &ids, &owners, behaviour, now);
        let params: Vec<&(dyn ToSql + Sync)> = query.params.iter().map(|p| p as &(dyn ToSql + Sync)).collect();
        let attempt = tx.savepoint("counting").await?;
        let rows = match attempt.query(&query.sql, &params).await.map_err(StoreError::from) {
            Ok(rows) => rows,
            Err(error) if error.is_statement_timeout() => {
                attempt.rollback().await?;
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        attempt.commit().await?;
        let counted = rows.iter().map(counted).collect::<Result<_, _>>()?;
        self.index_by_address.extend(same.into_iter().map(|address| (address, self.counted.len())));
        self.counted.push(counted);
        Ok(true)
    }
}

fn rules_of(membership: &Membership) -> Option<&[Rule]> {
    match membership {
        Membership::Rules(rules) => Some(rules),
        Membership::List => None,
    }
}

fn counted(row: &Row) -> Result<(Uuid, Counted), StoreError> {
    let stats = Stats { count: row.try_get("count")?, totals: numbers(row, "totals")? };
    Ok((row.try_get("person")?, (stats, row.try_get("edge")?)))
}

/// A user as rules see them.
struct BatchUser<'c> {
    batch: &'c UserBatch,
    user: &'c User,
    properties: &'c Map<String, Value>,
    platforms: &'c BTreeSet<Platform>,
    /// The user's lists, and the segments that evaluation has found them in.
    segments: HashSet<Uuid>,
}

impl<'c> BatchUser<'c> {
    fn new(batch: &'c UserBatch, user: &'c User) -> Self {
        Self {
            batch,
            user,
            properties: user.properties.as_object().unwrap_or(&batch.no_properties),
            platforms: batch.platforms.get(&user.id).unwrap_or(&batch.no_platforms),
            segments: batch.lists.get(&user.id).cloned().unwrap_or_default(),
        }
    }

    fn counted(&self, behaviour: &Behaviour) -> Option<&'c Counted> {
        let index = self.batch.index_by_address.get(&address(behaviour))?;
        self.batch.counted.get(*index)?.get(&self.user.id)
    }

    fn edge(&self, behaviour: &Behaviour) -> Option<Timestamp> {
        self.counted(behaviour)?.1
    }
}

impl Facts for BatchUser<'_> {
    fn value(&self, source: &Source) -> Actual<'_> {
        match source {
            Source::Email => maybe(self.user.email.as_deref()),
            Source::Name => maybe(self.user.name.as_deref()),
            Source::ExternalId => maybe(self.user.external_id.as_deref()),
            Source::CreatedAt => Actual::Time(self.user.created_at),
            Source::LastSeenAt => Actual::Time(self.user.last_seen_at),
            Source::Property(keys) => eval::property(self.properties, keys),
        }
    }

    fn is_member(&self, segment: Uuid) -> bool {
        self.segments.contains(&segment)
    }

    fn platforms(&self) -> &BTreeSet<Platform> {
        self.platforms
    }

    fn stats(&self, behaviour: &Behaviour) -> Stats {
        let none = || Stats { count: 0, totals: vec![None; behaviour.totals.len()] };
        self.counted(behaviour).map_or_else(none, |(stats, _)| stats.clone())
    }
}
