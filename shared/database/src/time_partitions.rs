//! The partitions of the big tables: ranges of ids, which are ranges of time.

pub mod expired;

use deadpool_postgres::{GenericClient, Transaction};
use tokio_postgres::error::SqlState;

use crate::months::Month;
use crate::{Connection, StoreError};
use kernel::clock::{from_ms, rfc3339};
use kernel::ids;

const DAY_MS: i64 = 86_400_000;
/// Days for which partitions are made ahead, so that a scheduler away for days is not missed.
const AHEAD: i64 = 14;
/// What must be there ahead before the rest may wait for another time.
const NEEDED_MS: i64 = 2 * DAY_MS;
/// Days back for which there is one partition: no event's id lies further back.
const BACK: i64 = 31;
/// A key of Postgres's advisory locks: "rkparts" in ASCII.
const LOCK: i64 = 0x72_6b70_6172_7473;
const TABLES: [&str; 2] = ["events", "message"];
/// Percentage of a page that inserted messages fill. Settling writes a new version of each row to the same page (HOT), and a row that
/// is settled takes up to twice the space.
const MESSAGE_FILLFACTOR: u8 = 33;
/// 1970-01-01 was a Thursday, the first Monday four days later.
const FIRST_MONDAY_MS: i64 = 4 * DAY_MS;

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Range {
    name: String,
    from_ms: i64,
    to_ms: i64,
}

/// Returns the bounds, in Unix milliseconds, of the partition for a time: a week from Monday for events, a calendar month for
/// messages.
///
/// Longer partitions mean fewer relations to lock. Shorter ones have smaller indexes to insert into, which matters for events.
fn period(table: &str, ms: i64) -> std::ops::Range<i64> {
    if table == "message" {
        let month = Month::at(ms);
        return month.start_ms()..month.next().start_ms();
    }
    let monday = ms - (ms - FIRST_MONDAY_MS).rem_euclid(7 * DAY_MS);
    monday..monday + 7 * DAY_MS
}

/// What is missing at `now_ms`, given the end of the newest partition (Unix milliseconds), if there is one. An earlier release
/// made daily partitions, so it may be in the middle of a week or month.
fn missing(table: &str, now_ms: i64, newest_end: Option<i64>) -> Vec<Range> {
    let today = now_ms - now_ms.rem_euclid(DAY_MS);
    let mut ranges = Vec::new();
    let mut from = newest_end.unwrap_or_else(|| {
        let (start, first) = (today - BACK * DAY_MS, period(table, today).start);
        ranges.push(Range { name: format!("{table}_before_{}", date(first)), from_ms: start, to_ms: first });
        first
    });
    while from < today + AHEAD * DAY_MS {
        let to = period(table, from).end;
        ranges.push(Range { name: format!("{table}_{}", date(from)), from_ms: from, to_ms: to });
        from = to;
    }
    ranges
}

fn date(ms: i64) -> String {
    rfc3339(from_ms(ms))[..10].replace('-', "")
}

/// What [`ensure`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ensured {
    pub made: usize,
    /// Others held locks for too long, so that some are still to be made. What is there suffices for two days at
    /// least: some other time is soon enough.
    pub put_off: bool,
}

/// Makes the partitions that are missing. Safe to run in several processes at once; neither waits for those who read and
/// write, nor makes them wait. Fails with a conflict where locks were not to be had and partitions are needed soon.
pub async fn ensure(db: &mut Connection, now_ms: i64) -> Result<Ensured, StoreError> {
    let mut ensured = Ensured { made: 0, put_off: false };
    for table in TABLES {
        let end = newest_end(db, table).await?;
        for range in missing(table, now_ms, end) {
            match make(db, table, &range).await {
                Ok(made) => ensured.made += usize::from(made),
                Err(error) if error.is_conflict() && range.from_ms >= now_ms + NEEDED_MS => {
                    ensured.put_off = true;
                    // In order: the next look begins at the newest one's end, and must not leave a gap.
                    break;
                }
                Err(error) if is_taken(&error) => {
                    tracing::error!(table, name = range.name, %error, "a time partition cannot be made");
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(ensured)
}

/// Bytes from which on a partition is worth a look.
const WORTH_A_LOOK: i64 = 512 * 1024;

/// Analyzes the partitions that hold something and never were, or only when they were empty; returns how many. Postgres does so
/// by itself within a minute or two, and until then takes what lies between two ids for next to nothing, so that statements that
/// read a stretch of ids may take the wrong way to it. Those that name the ids do without (`store_sending::messages`), but not of
/// a partition that is known to be empty. One that is locked is left for later.
pub async fn analyze_new(db: &impl GenericClient) -> Result<usize, StoreError> {
    let sql = "SELECT c.oid::regclass::text AS name FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid \
               WHERE i.inhparent IN (SELECT t::regclass FROM unnest($1::text[]) t) AND c.relpages = 0 AND pg_relation_size(c.oid) >= $2";
    let found = db.query(&db.prepare_cached(sql).await?, &[&TABLES.as_slice(), &WORTH_A_LOOK]).await?;
    for row in &found {
        // Of names that Postgres has quoted itself.
        let name: String = row.try_get("name")?;
        db.batch_execute(&format!("ANALYZE (SKIP_LOCKED) {name}")).await?;
    }
    Ok(found.len())
}

/// Makes one partition, unless it is there already.
///
/// It is made on its own and then attached, because that locks the table against other changes of its shape only;
/// `PARTITION OF` would wait for everyone who reads it, a backup for example, with everyone else waiting behind.
/// Attaching reads the new table, which is empty, so it needs no `CHECK` that would spare that.
async fn make(db: &mut Connection, table: &str, range: &Range) -> Result<bool, StoreError> {
    // The names and bounds are made here, of digits and letters only: DDL takes no parameters.
    let bounds = format!("FROM ('{}') TO ('{}')", ids::lower_bound(range.from_ms), ids::lower_bound(range.to_ms));
    let tx = db.transaction().await?;
    tx.batch_execute(&format!("SET LOCAL lock_timeout = '1s'; SELECT pg_advisory_xact_lock({LOCK})")).await?;
    if is_there(&tx, table, &bounds).await? {
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

/// Whether there is a partition of just these bounds: another process made it meanwhile.
async fn is_there(tx: &Transaction<'_>, table: &str, bounds: &str) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid \
               WHERE i.inhparent = $1::text::regclass \
               AND pg_get_expr(c.relpartbound, c.oid) = 'FOR VALUES ' || $2) AS is_there";
    Ok(tx.query_one(sql, &[&table, &bounds]).await?.try_get("is_there")?)
}

/// Another partition covers a part of the range, or another table has the name: nothing that passes by itself.
fn is_taken(error: &StoreError) -> bool {
    let taken = [SqlState::INVALID_OBJECT_DEFINITION, SqlState::DUPLICATE_TABLE];
    matches!(error, StoreError::Query(e) if e.code().is_some_and(|code| taken.contains(code)))
}

/// How many days ahead of `now_ms` each of the tables has partitions; negative where not even this moment has one.
pub async fn days_ahead(db: &impl GenericClient, now_ms: i64) -> Result<Vec<(&'static str, i64)>, StoreError> {
    let mut days = Vec::with_capacity(TABLES.len());
    for table in TABLES {
        let end = newest_end(db, table).await?;
        days.push((table, end.map_or(-1, |end| (end - now_ms).div_euclid(DAY_MS))));
    }
    Ok(days)
}

/// The end of the newest partition, in Unix milliseconds. All partitions that are still to be made begin there or later.
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
    fn the_first_partitions_reach_back_and_ahead_without_gaps() {
        for now in (0..500).map(|day| 1_790_000_000_000 + day * DAY_MS) {
            for table in TABLES {
                let ranges = missing(table, now, None);
                assert!(ranges.windows(2).all(|w| w[0].to_ms == w[1].from_ms));
                assert!(ranges[0].from_ms <= now - ids::CLIENT_ID_PAST_MS);
                assert!(ranges.last().unwrap().to_ms > now + ids::CLIENT_ID_FUTURE_MS);
                assert!(ranges.last().unwrap().to_ms >= now + (AHEAD - 1) * DAY_MS);
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
    fn partitions_of_another_length_are_continued_without_a_gap() {
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
    fn later_only_what_is_missing_is_made() {
        let now = 1_790_000_000_000;
        let end = missing("events", now, None).last().unwrap().to_ms;
        assert_eq!(missing("events", now, Some(end)), []);
        let next_week = missing("events", now + 7 * DAY_MS, Some(end));
        assert_eq!(next_week.len(), 1);
        assert_eq!(next_week[0].from_ms, end);
    }
}
