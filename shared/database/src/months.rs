//! Calendar months, which statements about partitioned tables are limited to.
//!
//! PostgreSQL locks every partition that a plan holds, and while it makes the plan every index of it. A plan of a prepared
//! statement that does not bound the ids references all partitions: hundreds of them fill the lock table of the whole server. So
//! statements carry the bounds of one month as literals: whatever kind of plan PostgreSQL makes, it holds the partitions of
//! that month and no others.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use tokio_postgres::Statement;
use uuid::Uuid;

use crate::StoreError;
use kernel::clock::from_ms;
use kernel::ids;

/// January of year 0 is month 0.
const MONTHS_PER_YEAR: i32 = 12;
/// Months whose statements are cached. An id that a caller made up can name any month; without this bound each of them
/// would leave a plan in every connection.
const CACHED: Range<i32> = 2_025 * MONTHS_PER_YEAR..2_045 * MONTHS_PER_YEAR;
/// January 9999, the last month; what is later counts as part of it.
const LAST: i32 = 9_999 * MONTHS_PER_YEAR;
const LAST_START_MS: i64 = 253_370_764_800_000;
/// Months that were found to have partitions, which spares reading the catalog again. An absent month is read each time, so
/// that a new partition is found at once; one that was dropped since costs an empty result.
static FOUND: Mutex<BTreeSet<(&str, Month)>> = Mutex::new(BTreeSet::new());

/// A month of UTC. Every id lies in one, by the time that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Month(i32);

impl Month {
    /// The month that an id lies in.
    pub fn of(id: Uuid) -> Self {
        Self::at(ids::time_ms(id))
    }

    /// The month of a time in Unix milliseconds.
    pub fn at(ms: i64) -> Self {
        let date = from_ms(ms.clamp(0, LAST_START_MS)).to_zoned(TimeZone::UTC).date();
        Self(i32::from(date.year()) * MONTHS_PER_YEAR + i32::from(date.month()) - 1)
    }

    #[must_use]
    pub fn next(self) -> Self {
        Self((self.0 + 1).min(LAST))
    }

    /// The first millisecond.
    pub fn start_ms(self) -> i64 {
        let (year, month) = (self.0.div_euclid(MONTHS_PER_YEAR), self.0.rem_euclid(MONTHS_PER_YEAR) + 1);
        let first = Date::new(year as i16, month as i8, 1).and_then(|date| date.to_zoned(TimeZone::UTC));
        first.map_or(0, |first| first.timestamp().as_millisecond())
    }

    /// The smallest id.
    pub fn first_id(self) -> Uuid {
        ids::lower_bound(self.start_ms())
    }

    /// The smallest id that lies behind the month.
    pub fn end_id(self) -> Uuid {
        if self.0 == LAST { Uuid::max() } else { self.next().first_id() }
    }

    /// The condition that an id column lies in the month, as SQL without parameters.
    pub fn condition(self, column: &str) -> String {
        format!("{column} >= '{}'::uuid AND {column} < '{}'::uuid", self.first_id(), self.end_id())
    }

    /// Prepares a statement that holds the month's bounds.
    pub async fn prepare(self, db: &impl GenericClient, sql: &str) -> Result<Statement, StoreError> {
        Ok(if CACHED.contains(&self.0) { db.prepare_cached(sql).await? } else { db.prepare(sql).await? })
    }
}

/// Rows by the month of their ids, the oldest month first; within a month they keep their order.
pub fn split<T: Clone>(rows: &[T], id: impl Fn(&T) -> Uuid) -> Vec<(Month, Vec<T>)> {
    let mut months: BTreeMap<Month, Vec<T>> = BTreeMap::new();
    for row in rows {
        months.entry(Month::of(id(row))).or_default().push(row.clone());
    }
    months.into_iter().collect()
}

/// As [`split`], for ids that come from outside. Leaves out the rows of months for which the table has no partition: a caller
/// can make up an id of any month, and each month costs a statement.
pub async fn split_existing<T: Clone>(
    db: &impl GenericClient,
    table: &'static str,
    rows: &[T],
    id: impl Fn(&T) -> Uuid,
) -> Result<Vec<(Month, Vec<T>)>, StoreError> {
    let found = || FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    let mut months = split(rows, id);
    let all_found = {
        let found = found();
        months.iter().all(|(month, _)| found.contains(&(table, *month)))
    };
    if !all_found {
        let existing = of_table(db, table).await?;
        months.retain(|(month, _)| existing.contains(month));
        found().extend(existing.into_iter().map(|month| (table, month)));
    }
    Ok(months)
}

/// The months in which a table has partitions, newest first.
pub async fn of_table(db: &impl GenericClient, table: &'static str) -> Result<Vec<Month>, StoreError> {
    let sql = "SELECT min(bounds[1]) AS from_id, max(bounds[2]) AS to_id FROM \
               (SELECT regexp_match(pg_get_expr(c.relpartbound, c.oid), \
               'FROM \\(''([0-9a-f-]{36})''\\) TO \\(''([0-9a-f-]{36})''\\)') AS bounds FROM pg_inherits i \
               JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = $1::text::regclass) AS p";
    let row = db.query_one(&db.prepare_cached(sql).await?, &[&table]).await?;
    let ms = |text: Option<&str>| text.and_then(|text| Uuid::try_parse(text).ok()).map(ids::time_ms);
    let (Some(from), Some(to)) = (ms(row.try_get("from_id")?), ms(row.try_get("to_id")?)) else {
        return Ok(Vec::new());
    };
    let (first, last) = (Month::at(from), Month::at(to - 1));
    Ok((first.0..=last.0).rev().map(Month).collect())
}

/// The months of a table that begin before a time, oldest first.
pub async fn of_table_before(
    db: &impl GenericClient,
    table: &'static str,
    before: Timestamp,
) -> Result<Vec<Month>, StoreError> {
    let last = Month::at(before.as_millisecond());
    let months = of_table(db, table).await?;
    Ok(months.into_iter().rev().take_while(|month| *month <= last).collect())
}

/// Sets the savepoint that [`release_locks`] goes back to.
pub async fn set_savepoint(tx: &Transaction<'_>) -> Result<(), StoreError> {
    Ok(tx.batch_execute("SAVEPOINT before_month").await?)
}

/// Releases the locks on partitions that were taken since [`set_savepoint`], and undoes all changes since. For a transaction
/// that reads one month after another until it finds something.
pub async fn release_locks(tx: &Transaction<'_>) -> Result<(), StoreError> {
    Ok(tx.batch_execute("ROLLBACK TO SAVEPOINT before_month; RELEASE SAVEPOINT before_month").await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(time: &str) -> i64 {
        time.parse::<Timestamp>().unwrap().as_millisecond()
    }

    #[test]
    fn month_bounds_match_the_calendar() {
        let month = Month::at(ms("2026-02-28T23:59:59.999Z"));
        assert_eq!(month.start_ms(), ms("2026-02-01T00:00:00Z"));
        assert_eq!(month.next().start_ms(), ms("2026-03-01T00:00:00Z"));
        assert_eq!(Month::at(ms("2026-12-31T23:59:59Z")).next(), Month::at(ms("2027-01-01T00:00:00Z")));
        assert_eq!(Month::of(month.first_id()), month);
        assert_eq!(Month::of(month.end_id()), month.next());
    }

    #[test]
    fn every_id_lies_in_its_month() {
        for id in [
            Uuid::nil(),
            Uuid::from_u128(u128::MAX - 1),
            Uuid::from_u128(0x0199 << 112),
            Uuid::from_u128(u128::MAX / 3),
        ] {
            let month = Month::of(id);
            assert!(month.first_id() <= id && id < month.end_id(), "{id}");
        }
    }

    #[test]
    fn rows_are_split_by_month_and_keep_their_order() {
        let id = |time, n: u8| ids::timed(ms(time), [n; 10]);
        let (march, april) = (id("2026-03-31T23:59:59.999Z", 9), id("2026-04-01T00:00:00Z", 0));
        let rows = [(april, 1), (march, 2), (april, 3)];
        let split = split(&rows, |row| row.0);
        let expected = [(Month::of(march), vec![(march, 2)]), (Month::of(april), vec![(april, 1), (april, 3)])];
        assert_eq!(split, expected);
    }
}
