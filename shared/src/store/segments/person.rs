//! What rules may ask about one person, for evaluating them in memory.

pub mod crowd;

use std::collections::{BTreeSet, HashMap, HashSet};

use deadpool_postgres::GenericClient;
use jiff::Timestamp;
use serde_json::{Map, Value};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::evaluate::Definitions;
use crate::ids::ProjectId;
use crate::journey;
use crate::push_token::Platform;
use crate::rule::eval::{self, Actual, Facts, Stats};
use crate::rule::sql::{self, Membership};
use crate::rule::{self, Behaviour, Rule, Source};
use crate::store::StoreError;
use crate::store::users::read::{self, User};

/// A person, and what they did as far as the rules ask.
#[derive(Debug)]
pub struct Person {
    pub user: User,
    properties: Map<String, Value>,
    platforms: BTreeSet<Platform>,
    stats: Vec<(Behaviour, Stats)>,
    segments: HashSet<Uuid>,
}

impl Facts for Person {
    fn value(&self, source: &Source) -> Actual<'_> {
        match source {
            Source::Email => maybe(self.user.email.as_deref()),
            Source::Name => maybe(self.user.name.as_deref()),
            Source::ExternalId => maybe(self.user.external_id.as_deref()),
            Source::CreatedAt => Actual::Time(self.user.created_at),
            Source::LastSeenAt => Actual::Time(self.user.last_seen_at),
            Source::Property(keys) => eval::property(&self.properties, keys),
        }
    }

    fn is_member(&self, segment: Uuid) -> bool {
        self.segments.contains(&segment)
    }

    fn platforms(&self) -> &BTreeSet<Platform> {
        &self.platforms
    }

    fn stats(&self, behaviour: &Behaviour) -> Stats {
        let found = self.stats.iter().find(|(known, _)| known == behaviour);
        found.map(|(_, stats)| stats.clone()).unwrap_or_default()
    }
}

impl From<Person> for journey::Person {
    fn from(person: Person) -> Self {
        let Person { user, properties, platforms, stats, segments } = person;
        Self {
            id: user.id,
            external_id: user.external_id,
            anonymous_id: user.anonymous_id,
            email: user.email,
            name: user.name,
            properties,
            created_at: user.created_at,
            last_seen_at: user.last_seen_at,
            platforms,
            stats,
            segments,
        }
    }
}

fn maybe(text: Option<&str>) -> Actual<'_> {
    text.map_or(Actual::Missing, Actual::Text)
}

/// Reads what rules, and the segments that they rest on, ask about a person.
pub async fn load(
    db: &impl GenericClient,
    project: ProjectId,
    user: User,
    (rules, segments): (&[Rule], &Definitions),
    now: Timestamp,
) -> Result<Person, StoreError> {
    let ids = read::all_ids(db, project, user.id).await?;
    let mut person = Person {
        properties: user.properties.as_object().cloned().unwrap_or_default(),
        platforms: platforms(db, project, &ids).await?,
        stats: Vec::new(),
        segments: lists(db, project, &ids).await?,
        user,
    };
    let nested = segments.values().filter_map(|membership| match membership {
        Membership::Rules(rules) => Some(rules.as_slice()),
        Membership::List => None,
    });
    for behaviour in std::iter::once(rules).chain(nested).flat_map(rule::behaviours) {
        if person.stats.iter().all(|(known, _)| known != behaviour) {
            let stats = stats(db, project, &ids, behaviour, now).await?;
            person.stats.push((behaviour.clone(), stats));
        }
    }
    for id in in_order(segments) {
        if let Some(Membership::Rules(rules)) = segments.get(&id)
            && eval::holds(rules, &person, now)
        {
            person.segments.insert(id);
        }
    }
    Ok(person)
}

/// Segments, each behind those that it rests on.
fn in_order(segments: &Definitions) -> Vec<Uuid> {
    let mut ordered = Vec::new();
    let mut missing: HashMap<Uuid, BTreeSet<Uuid>> = HashMap::new();
    for (id, membership) in segments {
        if let Membership::Rules(rules) = membership {
            missing.insert(*id, rule::segments(rules));
        }
    }
    while let Some(id) = ready(&missing) {
        missing.remove(&id);
        ordered.push(id);
    }
    ordered
}

/// One that rests on none of those left. Segments that rest on each other never are; no such ones can be saved.
fn ready(missing: &HashMap<Uuid, BTreeSet<Uuid>>) -> Option<Uuid> {
    missing.iter().find(|(_, needs)| needs.iter().all(|need| !missing.contains_key(need))).map(|(id, _)| *id)
}

async fn lists(db: &impl GenericClient, project: ProjectId, ids: &[Uuid]) -> Result<HashSet<Uuid>, StoreError> {
    let sql = "SELECT DISTINCT segment_id FROM segment_member WHERE project_id = $1 AND user_id = ANY($2)";
    let rows = db.query(&db.prepare_cached(sql).await?, &[&project, &ids]).await?;
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

async fn platforms(
    db: &impl GenericClient,
    project: ProjectId,
    ids: &[Uuid],
) -> Result<BTreeSet<Platform>, StoreError> {
    let sql = "SELECT DISTINCT platform FROM push_token WHERE project_id = $1 AND user_id = ANY($2)";
    let rows = db.query(&db.prepare_cached(sql).await?, &[&project, &ids]).await?;
    let texts: Vec<String> = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    Ok(texts.iter().filter_map(|text| Platform::parse(text)).collect())
}

async fn stats(
    db: &impl GenericClient,
    project: ProjectId,
    ids: &[Uuid],
    behaviour: &Behaviour,
    now: Timestamp,
) -> Result<Stats, StoreError> {
    let query = sql::person_stats(project, ids, behaviour, now);
    let params: Vec<&(dyn ToSql + Sync)> = query.params.iter().map(|p| p as &(dyn ToSql + Sync)).collect();
    let row = db.query_one(&query.sql, &params).await?;
    let totals = (0..behaviour.totals.len()).map(|i| Ok(row.try_get(i + 1)?));
    Ok(Stats { count: row.try_get(0)?, totals: totals.collect::<Result<_, StoreError>>()? })
}
