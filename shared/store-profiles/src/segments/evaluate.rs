//! Who is in a segment now, found from the rules.
//!
//! Each statement is prepared anew and never cached: a generic plan, which knows neither the names nor the bounds, would
//! be chosen after a few runs and read whole tables for a page.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::{SegmentType, parsed, segment_type};
use crate::users::read::{self, User};
use database::StoreError;
use database::filter::{MOST_COUNTED, Start, Total};
use kernel::ids::ProjectId;
use rules::Rule;
use rules::sql::{self, Membership, Param, People};

/// Segments by id, as far as rules need them.
pub type Definitions = HashMap<Uuid, Membership>;

/// The first page.
pub const FIRST: Start<(Timestamp, Uuid)> = Start::Offset(0);

/// Bounds the statements of a transaction in time.
pub async fn limit(tx: &Transaction<'_>, at_most: Duration) -> Result<(), StoreError> {
    Ok(tx.batch_execute(&format!("SET LOCAL statement_timeout = {}", at_most.as_millis().max(1))).await?)
}

/// Bounds the statements of a transaction that finds people, and fits it to that.
pub async fn bound(tx: &Transaction<'_>, at_most: Duration) -> Result<(), StoreError> {
    limit(tx, at_most).await?;
    // How many people satisfy a rule cannot be guessed, and a set that was taken for small would be gone through once for each
    // person. Sets should also find room in memory.
    Ok(tx.batch_execute("SET LOCAL enable_nestloop = off; SET LOCAL work_mem = '64MB'").await?)
}

/// Configures the planner of a transaction for queries of one range of user ids, or resets it. Without sequential scans, because a
/// scan of a whole table for each range makes the cost of all ranges quadratic.
pub async fn for_ranges(tx: &Transaction<'_>, on: bool) -> Result<(), StoreError> {
    let sql = if on {
        "SET LOCAL enable_nestloop = off; SET LOCAL work_mem = '64MB'; SET LOCAL enable_seqscan = off"
    } else {
        "SET LOCAL enable_nestloop = on; SET LOCAL enable_seqscan = on"
    };
    Ok(tx.batch_execute(sql).await?)
}

/// These segments, and all that their rules name in turn. One that is not there is left out.
pub async fn definitions(
    db: &impl GenericClient,
    project: ProjectId,
    roots: &BTreeSet<Uuid>,
) -> Result<Definitions, StoreError> {
    if roots.is_empty() {
        return Ok(Definitions::new());
    }
    let roots: Vec<Uuid> = roots.iter().copied().collect();
    let sql = "WITH RECURSIVE needed AS (SELECT unnest($2::uuid[]) AS id \
               UNION SELECT unnest(s.rests_on) FROM needed n JOIN segment s ON s.project_id = $1 AND s.id = n.id) \
               SELECT s.id, s.type, s.rules FROM needed n JOIN segment s ON s.project_id = $1 AND s.id = n.id";
    let rows = db.query(&db.prepare_cached(sql).await?, &[&project, &roots]).await?;
    rows.iter().map(definition).collect()
}

fn definition(row: &Row) -> Result<(Uuid, Membership), StoreError> {
    let id: Uuid = row.try_get("id")?;
    let membership = match segment_type(row.try_get("type")?)? {
        SegmentType::Manual => Membership::List,
        SegmentType::Rules => Membership::Rules(parsed(id, &row.try_get("rules")?)?),
    };
    Ok((id, membership))
}

/// A segment and all that it rests on.
pub fn closure(of: Uuid, definitions: &Definitions) -> BTreeSet<Uuid> {
    let (mut found, mut left) = (BTreeSet::from([of]), vec![of]);
    while let Some(id) = left.pop() {
        if let Some(Membership::Rules(rules)) = definitions.get(&id) {
            left.extend(rules::segments(rules).into_iter().filter(|id| found.insert(*id)));
        }
    }
    found
}

/// Whoever satisfies rules.
pub async fn satisfying(
    db: &impl GenericClient,
    project: ProjectId,
    rules: &[Rule],
    now: Timestamp,
) -> Result<People, StoreError> {
    let segments = definitions(db, project, &rules::segments(rules)).await?;
    Ok(sql::people(project, rules, &segments, now))
}

/// Whoever is in a segment.
pub async fn members(
    db: &impl GenericClient,
    project: ProjectId,
    segment: Uuid,
    now: Timestamp,
) -> Result<People, StoreError> {
    let segments = definitions(db, project, &BTreeSet::from([segment])).await?;
    Ok(sql::members(project, segment, &segments, now))
}

/// How many they are.
pub async fn count(db: &impl GenericClient, people: &People) -> Result<i64, StoreError> {
    let People { with, from, condition, .. } = people;
    let sql = format!("{with} SELECT count(*) AS total FROM {from} WHERE {condition}");
    Ok(db.query_one(&sql, &params(&people.params)).await?.try_get("total")?)
}

/// How many they are, counted up to [`MOST_COUNTED`].
pub async fn count_capped(db: &impl GenericClient, people: &People) -> Result<Total, StoreError> {
    let People { with, from, condition, .. } = people;
    let most = MOST_COUNTED + 1;
    let sql =
        format!("{with} SELECT count(*) AS total FROM (SELECT 1 FROM {from} WHERE {condition} LIMIT {most}) AS found");
    let found: i64 = db.query_one(&sql, &params(&people.params)).await?.try_get("total")?;
    Ok(Total::counted(found))
}

/// A page of them, newest first. It may begin behind a person's (created_at, id).
pub async fn page(
    db: &impl GenericClient,
    people: &People,
    start: &Start<(Timestamp, Uuid)>,
    limit: i64,
) -> Result<Vec<User>, StoreError> {
    let People { with, from, condition, .. } = people;
    let mut params = params(&people.params);
    let mut place = |value| {
        params.push(value);
        params.len()
    };
    let behind = match start {
        Start::Offset(_) => String::new(),
        Start::After((at, id)) => format!(" AND (u.created_at, u.id) < (${}, ${})", place(at), place(id)),
    };
    let offset = start.offset();
    let (offset, limit) = (place(&offset), place(&limit));
    let sql = format!(
        "{with} SELECT u.id, u.external_id, u.anonymous_id, u.email, u.name, u.properties, u.created_at, u.last_seen_at, \
         u.updated_at FROM {from} WHERE {condition}{behind} ORDER BY u.created_at DESC, u.id DESC \
         OFFSET ${offset} LIMIT ${limit}"
    );
    db.query(&sql, &params).await?.iter().map(read::from_row).collect()
}

/// Of a followed segment, some of those who are in it and are not noted so, or the other way round.
pub async fn differing(
    db: &impl GenericClient,
    segment: Uuid,
    people: &People,
    most: i64,
) -> Result<Vec<Uuid>, StoreError> {
    let People { with, from, condition, .. } = people;
    let mut params = params(&people.params);
    params.push(&segment);
    params.push(&most);
    let (segment, most) = (params.len() - 1, params.len());
    let sql = format!(
        "{with} SELECT coalesce(f.id, m.user_id) AS id FROM (SELECT u.id FROM {from} WHERE {condition}) AS f FULL JOIN \
         (SELECT user_id FROM segment_membership WHERE project_id = $1 AND segment_id = ${segment} AND since IS NOT NULL) \
         AS m ON m.user_id = f.id WHERE f.id IS NULL OR m.user_id IS NULL LIMIT ${most}"
    );
    db.query(&sql, &params).await?.iter().map(|row| Ok(row.try_get("id")?)).collect()
}

/// All their ids, in order.
pub async fn ids(db: &impl GenericClient, people: &People) -> Result<Vec<Uuid>, StoreError> {
    let People { with, from, condition, .. } = people;
    let sql = format!("{with} SELECT u.id FROM {from} WHERE {condition} ORDER BY u.id");
    db.query(&sql, &params(&people.params)).await?.iter().map(|row| Ok(row.try_get("id")?)).collect()
}

fn params(values: &[Param]) -> Vec<&(dyn ToSql + Sync)> {
    values.iter().map(|value| value as &(dyn ToSql + Sync)).collect()
}
