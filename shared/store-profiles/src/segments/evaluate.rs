//! Computes the members of a segment from its rules.
//!
//! Each statement is prepared each time and never cached: after a few executions PostgreSQL would choose a generic
//! plan, which knows neither the names nor the bounds, and would read whole tables for one page.

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
use database::filter::{MAX_COUNTED, PageStart, Total};
use kernel::ids::ProjectId;
use rules::Rule;
use rules::sql::{self, Membership, Param, UserQuery};

/// The segments that rules depend on, by ID.
pub type Definitions = HashMap<Uuid, Membership>;

/// The start of the first page.
pub const FIRST_PAGE: PageStart<(Timestamp, Uuid)> = PageStart::Offset(0);

/// Sets the statement timeout of a transaction.
pub async fn set_timeout(tx: &Transaction<'_>, at_most: Duration) -> Result<(), StoreError> {
    Ok(tx.batch_execute(&format!("SET LOCAL statement_timeout = {}", at_most.as_millis().max(1))).await?)
}

/// Sets the statement timeout of a transaction that searches for users, and configures the planner for it.
pub async fn configure_search(tx: &Transaction<'_>, at_most: Duration) -> Result<(), StoreError> {
    set_timeout(tx, at_most).await?;
    // The planner cannot estimate how many users satisfy a rule, and a nested loop over a set that it believes to be
    // small would scan the set once for each user. Sets should also fit into memory.
    Ok(tx.batch_execute("SET LOCAL enable_nestloop = off; SET LOCAL work_mem = '64MB'").await?)
}

/// Configures the planner of a transaction for queries on one range of user IDs, or resets it.
///
/// Sequential scans are off, because a scan of a whole table for each range makes the cost of all ranges quadratic.
pub async fn configure_range_scans(tx: &Transaction<'_>, on: bool) -> Result<(), StoreError> {
    let sql = if on {
        "SET LOCAL enable_nestloop = off; SET LOCAL work_mem = '64MB'; SET LOCAL enable_seqscan = off"
    } else {
        "SET LOCAL enable_nestloop = on; SET LOCAL enable_seqscan = on"
    };
    Ok(tx.batch_execute(sql).await?)
}

/// Returns these segments and all segments that their rules refer to, directly or indirectly. Missing segments are
/// omitted.
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

/// Returns a segment and all segments that it depends on.
pub fn closure(of: Uuid, definitions: &Definitions) -> BTreeSet<Uuid> {
    let (mut found, mut left) = (BTreeSet::from([of]), vec![of]);
    while let Some(id) = left.pop() {
        if let Some(Membership::Rules(rules)) = definitions.get(&id) {
            left.extend(rules::segments(rules).into_iter().filter(|id| found.insert(*id)));
        }
    }
    found
}

/// Returns the query for the users who satisfy the rules.
pub async fn satisfying(
    db: &impl GenericClient,
    project: ProjectId,
    rules: &[Rule],
    now: Timestamp,
) -> Result<UserQuery, StoreError> {
    let segments = definitions(db, project, &rules::segments(rules)).await?;
    Ok(sql::users(project, rules, &segments, now))
}

/// Returns the query for the members of a segment.
pub async fn members(
    db: &impl GenericClient,
    project: ProjectId,
    segment: Uuid,
    now: Timestamp,
) -> Result<UserQuery, StoreError> {
    let segments = definitions(db, project, &BTreeSet::from([segment])).await?;
    Ok(sql::members(project, segment, &segments, now))
}

/// Counts the users of a query.
pub async fn count(db: &impl GenericClient, users: &UserQuery) -> Result<i64, StoreError> {
    let UserQuery { with, from, condition, .. } = users;
    let sql = format!("{with} SELECT count(*) AS total FROM {from} WHERE {condition}");
    Ok(db.query_one(&sql, &params(&users.params)).await?.try_get("total")?)
}

/// Counts the users of a query, up to [`MAX_COUNTED`].
pub async fn count_capped(db: &impl GenericClient, users: &UserQuery) -> Result<Total, StoreError> {
    let UserQuery { with, from, condition, .. } = users;
    let max = MAX_COUNTED + 1;
    let sql =
        format!("{with} SELECT count(*) AS total FROM (SELECT 1 FROM {from} WHERE {condition} LIMIT {max}) AS found");
    let found: i64 = db.query_one(&sql, &params(&users.params)).await?.try_get("total")?;
    Ok(Total::from_count(found))
}

/// Returns a page of a query's users, newest first, optionally after a user's `(created_at, id)`.
pub async fn page(
    db: &impl GenericClient,
    users: &UserQuery,
    start: &PageStart<(Timestamp, Uuid)>,
    limit: i64,
) -> Result<Vec<User>, StoreError> {
    let UserQuery { with, from, condition, .. } = users;
    let mut params = params(&users.params);
    let mut bind = |value| {
        params.push(value);
        params.len()
    };
    let after = match start {
        PageStart::Offset(_) => String::new(),
        PageStart::After((at, id)) => format!(" AND (u.created_at, u.id) < (${}, ${})", bind(at), bind(id)),
    };
    let offset = start.offset();
    let (offset, limit) = (bind(&offset), bind(&limit));
    let sql = format!(
        "{with} SELECT u.id, u.external_id, u.anonymous_id, u.email, u.name, u.properties, u.created_at, u.last_seen_at, \
         u.updated_at FROM {from} WHERE {condition}{after} ORDER BY u.created_at DESC, u.id DESC \
         OFFSET ${offset} LIMIT ${limit}"
    );
    db.query(&sql, &params).await?.iter().map(read::from_row).collect()
}

/// Returns up to `max` users whose stored membership of a followed segment differs from the query.
pub async fn differing(
    db: &impl GenericClient,
    segment: Uuid,
    users: &UserQuery,
    max: i64,
) -> Result<Vec<Uuid>, StoreError> {
    let UserQuery { with, from, condition, .. } = users;
    let mut params = params(&users.params);
    params.push(&segment);
    params.push(&max);
    let (segment, max) = (params.len() - 1, params.len());
    let sql = format!(
        "{with} SELECT coalesce(f.id, m.user_id) AS id FROM (SELECT u.id FROM {from} WHERE {condition}) AS f FULL JOIN \
         (SELECT user_id FROM segment_membership WHERE project_id = $1 AND segment_id = ${segment} AND since IS NOT NULL) \
         AS m ON m.user_id = f.id WHERE f.id IS NULL OR m.user_id IS NULL LIMIT ${max}"
    );
    db.query(&sql, &params).await?.iter().map(|row| Ok(row.try_get("id")?)).collect()
}

/// Returns the IDs of a query's users, in order.
pub async fn ids(db: &impl GenericClient, users: &UserQuery) -> Result<Vec<Uuid>, StoreError> {
    let UserQuery { with, from, condition, .. } = users;
    let sql = format!("{with} SELECT u.id FROM {from} WHERE {condition} ORDER BY u.id");
    db.query(&sql, &params(&users.params)).await?.iter().map(|row| Ok(row.try_get("id")?)).collect()
}

fn params(values: &[Param]) -> Vec<&(dyn ToSql + Sync)> {
    values.iter().map(|value| value as &(dyn ToSql + Sync)).collect()
}
