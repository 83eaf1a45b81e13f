//! The partitions of the big tables: ranges of IDs, which are ranges of time.

pub mod expired;

use deadpool_postgres::{GenericClient, Transaction};
use tokio_postgres::error::SqlState;

use crate::months::Month;
use crate::{Connection, StoreError};
use kernel::clock::{from_ms, rfc3339};
use kernel::ids;

const DAY_MS: i64 = 86_400_000;
/// Days for which partitions are created ahead, so that a scheduler may be down for days.
const DAYS_AHEAD: i64 = 14;
/// Partitions that start within this time must be created now; later ones may be deferred.
const REQUIRED_AHEAD_MS: i64 = 2 * DAY_MS;
/// Days before today that the first partition covers: no event's ID is older.
const DAYS_BACK: i64 = 31;
/// Key of the advisory lock: "rkparts" in ASCII.
const LOCK: i64 = 0x72_6b70_6172_7473;
const TABLES: [&str; 2] = ["events", "message"];
/// Percentage of a page that inserted messages fill. Settling a message writes a new row version to the same page
/// (HOT), and a settled row takes up to twice the space.
const MESSAGE_FILLFACTOR: u8 = 33;
/// 1970-01-01 was a Thursday, the first Monday four days later.
const FIRST_MONDAY_MS: i64 = 4 * DAY_MS;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Range {
    name: String,
    from_ms: i64,
    to_ms: i64,
}

/// Returns the bounds, in Unix milliseconds, of the partition for a time: a week from Monday for events, a calendar
/// month for messages.
///
/// Longer partitions mean fewer relations to lock. Shorter ones have smaller indexes to insert into, which matters for
/// events.
fn period(table: &str, ms: i64) -> std::ops::Range<i64> {
    if table == "message" {
        let month = Month::at(ms);
        return month.start_ms()..month.next().start_ms();
    }
    let monday = ms - (ms - FIRST_MONDAY_MS).rem_euclid(7 * DAY_MS);
    monday..monday + 7 * DAY_MS
}

/// Returns the partitions missing at `now_ms`, given the end of the newest partition (Unix milliseconds), if there is
/// one. An earlier release created daily partitions, so that end may be in the middle of a week or month.
fn missing(table: &str, now_ms: i64, newest_end: Option<i64>) -> Vec<Range> {
    let today = now_ms - now_ms.rem_euclid(DAY_MS);
    let mut ranges = Vec::new();
    let mut from = newest_end.unwrap_or_else(|| {
        let (start, first) = (today - DAYS_BACK * DAY_MS, period(table, today).start);
        ranges.push(Range { name: format!("{table}_before_{}", date(first)), from_ms: start, to_ms: first });
        first
    });
    while from < today + DAYS_AHEAD * DAY_MS {
        let to = period(table, from).end;
        ranges.push(Range { name: format!("{table}_{}", date(from)), from_ms: from, to_ms: to });
        from = to;
    }
    ranges
}

fn date(ms: i64) -> String {
    rfc3339(from_ms(ms))[..10].replace('-', "")
}

/// The result of [`ensure`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ensured {
    pub created: usize,
    /// Some partitions were not created because other sessions held locks for too long. Existing ones suffice for at
    /// least two days, so the next run can create the rest.
    pub deferred: bool,
}

/// Creates the missing partitions. Several processes may run it at once. It neither waits for readers and writers nor
/// blocks them. Fails with a conflict if it gets no locks and partitions are needed soon.
pub async fn ensure(db: &mut Connection, now_ms: i64) -> Result<Ensured, StoreError> {
    let mut ensured = Ensured { created: 0, deferred: false };
    for table in TABLES {
        let end = newest_end(db, table).await?;
        for range in missing(table, now_ms, end) {
            match create(db, table, &range).await {
                Ok(created) => ensured.created += usize::from(created),
                Err(error) if error.is_conflict() && range.from_ms >= now_ms + REQUIRED_AHEAD_MS => {
                    ensured.deferred = true;
                    // In order: the next run starts at the newest partition's end and must not leave a gap.
                    break;
                }
                Err(error) if is_range_conflict(&error) => {
                    tracing::error!(table, name = range.name, %error, "cannot create a time partition");
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(ensured)
}

/// Minimum size, in bytes, of a partition to analyze.
const MIN_ANALYZE_BYTES: i64 = 512 * 1024;

/// Analyzes the partitions that have rows but no statistics, or statistics from when they were empty. Returns how many.
///
/// Autovacuum does so within a minute or two. Until then the planner estimates almost no rows between two IDs, so a
/// statement that reads a range of IDs may get a bad plan. Statements that list the IDs are unaffected
/// (`store_sending::messages`), except on a partition that is recorded as empty. A locked partition is left for the
/// next run.
pub async fn analyze_new(db: &impl GenericClient) -> Result<usize, StoreError> {
    let sql = "SELECT c.oid::regclass::text AS name FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid \
               WHERE i.inhparent IN (SELECT t::regclass FROM unnest($1::text[]) t) AND c.relpages = 0 AND pg_relation_size(c.oid) >= $2";
    let found = db.query(&db.prepare_cached(sql).await?, &[&TABLES.as_slice(), &MIN_ANALYZE_BYTES]).await?;
    for row in &found {
        // PostgreSQL has quoted the names.
        let name: String = row.try_get("name")?;
        db.batch_execute(&format!("ANALYZE (SKIP_LOCKED) {name}")).await?;
    }
    Ok(found.len())
}

/// Creates one partition. Returns false if it exists.
///
/// The table is created on its own and then attached, because attaching only conflicts with other schema changes.
/// `PARTITION OF` would wait for every reader, such as a backup, and block all later sessions. Attaching scans the new
/// table, which is empty, so that it needs no `CHECK` to avoid the scan.
async fn create(db: &mut Connection, table: &str, range: &Range) -> Result<bool, StoreError> {
    // The names and bounds are built here from digits and letters only: DDL takes no parameters.
    let bounds = format!("FROM ('{}') TO ('{}')", ids::lower_bound(range.from_ms), ids::lower_bound(range.to_ms));
    let tx = db.transaction().await?;
    tx.batch_execute(&format!("SET LOCAL lock_timeout = '1s'; SELECT pg_advisory_xact_lock({LOCK})")).await?;
    if exists(&tx, table, &bounds).await? {
        return Ok(false);
    }
    let (name, fillfactor) = (&range.name, if table == "message" { MESSAGE_FILLFACTOR } else { 100 });
    let sql = format!(
        "CREATE TABLE {name} (LIKE {table} INCLUDING ALL) WITH (fillfactor = {fillfactor}); \
         ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES {bounds}"
    );
    tx.batch_execute(&sql).await?;
    tx.commit().await?;
    Ok(true)
}

/// Returns whether a partition with exactly these bounds exists, because another process created it.
async fn exists(tx: &Transaction<'_>, table: &str, bounds: &str) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid \
               WHERE i.inhparent = $1::text::regclass \
               AND pg_get_expr(c.relpartbound, c.oid) = 'FOR VALUES ' || $2) AS is_there";
    Ok(tx.query_one(sql, &[&table, &bounds]).await?.try_get("is_there")?)
}

/// Returns whether another partition overlaps the range, or another table has the name: a permanent error.
fn is_range_conflict(error: &StoreError) -> bool {
    let taken = [SqlState::INVALID_OBJECT_DEFINITION, SqlState::DUPLICATE_TABLE];
    matches!(error, StoreError::Query(e) if e.code().is_some_and(|code| taken.contains(code)))
}

/// Returns how many days ahead of `now_ms` each table has partitions; negative if there is none for `now_ms` itself.
pub async fn days_ahead(db: &impl GenericClient, now_ms: i64) -> Result<Vec<(&'static str, i64)>, StoreError> {
    let mut days = Vec::with_capacity(TABLES.len());
    for table in TABLES {
        let end = newest_end(db, table).await?;
        days.push((table, end.map_or(-1, |end| (end - now_ms).div_euclid(DAY_MS))));
    }
    Ok(days)
}

/// Returns the end of the newest partition, in Unix milliseconds. All partitions created later begin there or after it.
pub async fn newest_end(db: &impl GenericClient, table: &str) -> Result<Option<i64>, StoreError> {
    let sql = "SELECT max(substring(pg_get_expr(c.relpartbound, c.oid) FROM 'TO \\(''([0-9a-f-]{36})''\\)')) AS bound \
               FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = $1::text::regclass";
    let bound: Option<String> = db.query_one(sql, &[&table]).await?.try_get("bound")?;
    Ok(bound.and_then(|b| uuid::Uuid::try_parse(&b).ok()).map(ids::time_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_partitions_cover_the_required_days_without_gaps() {
        for now in (0..500).map(|day| 1_790_000_000_000 + day * DAY_MS) {
            for table in TABLES {
                let ranges = missing(table, now, None);
                assert!(ranges.windows(2).all(|w| w[0].to_ms == w[1].from_ms));
                assert!(ranges[0].from_ms <= now - ids::CLIENT_ID_PAST_MS);
                assert!(ranges.last().unwrap().to_ms > now + ids::CLIENT_ID_FUTURE_MS);
                assert!(ranges.last().unwrap().to_ms >= now + (DAYS_AHEAD - 1) * DAY_MS);
            }
        }
    }

    #[test]
    fn events_are_partitioned_by_week_and_messages_by_month() {
        let names = |table| missing(table, 1_790_000_000_000, None).into_iter().map(|r| r.name).collect::<Vec<_>>();
        assert_eq!(names("events"), ["events_before_20260921", "events_20260921", "events_20260928"]);
        assert_eq!(names("message"), ["message_before_20260901", "message_20260901", "message_20261001"]);
    }

    #[test]
    fn partitions_continue_after_another_length_without_a_gap() {
        let thursday = 1_790_208_000_000;
        let bounds = |table| {
            let ranges = missing(table, thursday - 14 * DAY_MS, Some(thursday)).into_iter();
            let later = missing(table, thursday, Some(thursday)).into_iter();
            (ranges.count(), later.map(|r| (date(r.from_ms), date(r.to_ms))).collect::<Vec<_>>())
        };
        let day = |text: &str| text.to_owned();
        let weeks = [("20260924", "20260928"), ("20260928", "20261005"), ("20261005", "20261012")];
        let months = [("20260924", "20261001"), ("20261001", "20261101")];
        assert_eq!(bounds("events"), (0, weeks.map(|(a, b)| (day(a), day(b))).to_vec()));
        assert_eq!(bounds("message"), (0, months.map(|(a, b)| (day(a), day(b))).to_vec()));
    }

    #[test]
    fn only_missing_partitions_are_planned() {
        let now = 1_790_000_000_000;
        let end = missing("events", now, None).last().unwrap().to_ms;
        assert_eq!(missing("events", now, Some(end)), []);
        let next_week = missing("events", now + 7 * DAY_MS, Some(end));
        assert_eq!(next_week.len(), 1);
        assert_eq!(next_week[0].from_ms, end);
    }
}
