//! Loads what rules need to know about one user, to evaluate them in memory.

pub mod batch;
pub mod past;

use std::collections::{BTreeSet, HashMap, HashSet};

use deadpool_postgres::GenericClient;
use jiff::Timestamp;
use serde_json::{Map, Value};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::evaluate::Definitions;
use crate::users::read::{self, User};
use automation::journey;
use database::StoreError;
use domain::push_token::Platform;
use kernel::ids::ProjectId;
use rules::eval::{self, Actual, Counted, Facts, Stats};
use rules::sql::{self, Membership};
use rules::{Behaviour, Rule, Source, slide};

/// A user, with the behaviour that the rules ask about.
#[derive(Debug)]
pub struct UserFacts {
    pub user: User,
    properties: Map<String, Value>,
    platforms: BTreeSet<Platform>,
    counted: Vec<Counted>,
    segments: HashSet<Uuid>,
    /// When the membership of one of these segments can next change with time.
    segments_change_at: Option<Timestamp>,
}

impl Facts for UserFacts {
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
        Counted::of(&self.counted, behaviour).map(|counted| counted.stats.clone()).unwrap_or_default()
    }
}

impl From<UserFacts> for journey::RunUser {
    fn from(facts: UserFacts) -> Self {
        let UserFacts { user, properties, platforms, counted, segments, segments_change_at } = facts;
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
            counted,
            segments,
            segments_change_at,
        }
    }
}

fn maybe(text: Option<&str>) -> Actual<'_> {
    text.map_or(Actual::Missing, Actual::Text)
}

/// Loads what rules, and the segments that they depend on, ask about a user.
pub async fn load(
    db: &impl GenericClient,
    project: ProjectId,
    user: User,
    (rules, segments): (&[Rule], &Definitions),
    now: Timestamp,
) -> Result<UserFacts, StoreError> {
    let ids = read::all_ids(db, project, user.id).await?;
    let mut facts = UserFacts {
        properties: user.properties.as_object().cloned().unwrap_or_default(),
        platforms: platforms(db, project, &ids).await?,
        counted: Vec::new(),
        segments: lists(db, project, &ids).await?,
        segments_change_at: None,
        user,
    };
    for behaviour in behaviours(rules, segments) {
        facts.counted.push(stats_of(db, project, &ids, behaviour, now).await?);
    }
    for (id, rules) in in_order(segments) {
        if eval::holds(rules, &facts, now) {
            facts.segments.insert(id);
        }
        let edge = |behaviour: &Behaviour| Counted::of(&facts.counted, behaviour)?.edge;
        let changes_at = slide::next_change(rules, &facts, edge, now);
        facts.segments_change_at = facts.segments_change_at.into_iter().chain(changes_at).min();
    }
    Ok(facts)
}

/// Returns the behaviours that rules and the segments they depend on ask about, without duplicates.
fn behaviours<'a>(rules: &'a [Rule], segments: &'a Definitions) -> Vec<&'a Behaviour> {
    let nested = segments.values().filter_map(|membership| match membership {
        Membership::Rules(rules) => Some(rules.as_slice()),
        Membership::List => None,
    });
    let mut behaviours: Vec<&Behaviour> = Vec::new();
    for behaviour in std::iter::once(rules).chain(nested).flat_map(rules::behaviours) {
        if !behaviours.contains(&behaviour) {
            behaviours.push(behaviour);
        }
    }
    behaviours
}

/// Returns the segments that have rules, each after those that it depends on.
fn in_order(segments: &Definitions) -> Vec<(Uuid, &[Rule])> {
    let mut ordered = Vec::new();
    let mut missing: HashMap<Uuid, BTreeSet<Uuid>> = HashMap::new();
    for (id, membership) in segments {
        if let Membership::Rules(rules) = membership {
            missing.insert(*id, rules::segments(rules));
        }
    }
    while let Some(id) = ready(&missing) {
        missing.remove(&id);
        if let Some(Membership::Rules(rules)) = segments.get(&id) {
            ordered.push((id, rules.as_slice()));
        }
    }
    ordered
}

/// Returns a segment that depends on none of the remaining ones. Segments in a cycle never qualify, but validation
/// rejects cycles.
fn ready(missing: &HashMap<Uuid, BTreeSet<Uuid>>) -> Option<Uuid> {
    missing.iter().find(|(_, needs)| needs.iter().all(|need| !missing.contains_key(need))).map(|(id, _)| *id)
}

async fn lists(db: &impl GenericClient, project: ProjectId, ids: &[Uuid]) -> Result<HashSet<Uuid>, StoreError> {
    let sql = "SELECT DISTINCT segment_id FROM segment_member WHERE project_id = $1 AND user_id = ANY($2)";
    let rows = db.query(&db.prepare_cached(sql).await?, &[&project, &ids]).await?;
    rows.iter().map(|row| Ok(row.try_get("segment_id")?)).collect()
}

async fn platforms(
    db: &impl GenericClient,
    project: ProjectId,
    ids: &[Uuid],
) -> Result<BTreeSet<Platform>, StoreError> {
    let sql = "SELECT DISTINCT platform FROM push_token WHERE project_id = $1 AND user_id = ANY($2)";
    let rows = db.query(&db.prepare_cached(sql).await?, &[&project, &ids]).await?;
    let texts: Vec<String> = rows.iter().map(|row| row.try_get("platform")).collect::<Result<_, _>>()?;
    Ok(texts.iter().filter_map(|text| Platform::parse(text)).collect())
}

async fn stats_of(
    db: &impl GenericClient,
    project: ProjectId,
    ids: &[Uuid],
    behaviour: &Behaviour,
    now: Timestamp,
) -> Result<Counted, StoreError> {
    let query = sql::user_stats(project, ids, behaviour, now);
    let params: Vec<&(dyn ToSql + Sync)> = query.params.iter().map(|p| p as &(dyn ToSql + Sync)).collect();
    let row = db.query_one(&query.sql, &params).await?;
    let stats = Stats { count: row.try_get("count")?, totals: numbers(&row, "totals")? };
    Ok(Counted { behaviour: behaviour.clone(), stats, edge: row.try_get("edge")? })
}

/// Reads a column of numbers that are encoded as text.
fn numbers(row: &Row, column: &str) -> Result<Vec<Option<f64>>, StoreError> {
    let texts: Vec<Option<&str>> = row.try_get(column)?;
    texts.into_iter().map(|text| text.map(total_of).transpose()).collect()
}

/// Parses a total from the database. A total outside the range of `f64` becomes the greatest or least finite value, so
/// that comparisons still order it correctly.
fn total_of(text: &str) -> Result<f64, StoreError> {
    let total: f64 = text.parse().map_err(|_| StoreError::Corrupt("a total that is not a number".to_owned()))?;
    Ok(total.clamp(f64::MIN, f64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_of_any_size_are_parsed() {
        let huge = format!("2{}", "0".repeat(400));
        let least = format!("-{huge}");
        let tiny = format!("0.{}1", "0".repeat(400));
        for (text, total) in
            [("12.50", 12.5), ("-3", -3.0), (huge.as_str(), f64::MAX), (least.as_str(), f64::MIN), (tiny.as_str(), 0.0)]
        {
            assert_eq!(total_of(text).unwrap().total_cmp(&total), std::cmp::Ordering::Equal, "{text}");
        }
        assert!(total_of("many").is_err());
    }
}
