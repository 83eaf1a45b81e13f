//! Calendar months, which statements about partitioned tables are limited to.
//!
//! PostgreSQL locks every partition that a plan contains, and, while it plans, every index of that partition. The plan
//! of a prepared statement that does not bound the IDs references all partitions: hundreds of them fill the lock table
//! of the whole server. Statements therefore carry the bounds of one month as literals: every kind of plan then
//! contains the partitions of that month only.

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
/// Months whose statements are cached. A caller can make up an ID of any month; without this bound, each would leave a
/// plan in every connection.
const CACHED_MONTHS: Range<i32> = 2_025 * MONTHS_PER_YEAR..2_045 * MONTHS_PER_YEAR;
/// January 9999, the last month; later times count as part of it.
const LAST_MONTH: i32 = 9_999 * MONTHS_PER_YEAR;
const LAST_START_MS: i64 = 253_370_764_800_000;
/// Months known to have partitions, which avoids reading the catalog again. An absent month is read each time, so that
/// a new partition is found at once. A month whose partition was dropped costs an empty result.
static KNOWN_MONTHS: Mutex<BTreeSet<(&str, Month)>> = Mutex::new(BTreeSet::new());

/// A calendar month of UTC. Every ID lies in one, by its timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Month(i32);

impl Month {
    /// Returns the month that an ID lies in.
    pub fn of(id: Uuid) -> Self {
        Self::at(ids::time_ms(id))
    }

    /// Returns the month of a time in Unix milliseconds.
    pub fn at(ms: i64) -> Self {
        let date = from_ms(ms.clamp(0, LAST_START_MS)).to_zoned(TimeZone::UTC).date();
        Self(i32::from(date.year()) * MONTHS_PER_YEAR + i32::from(date.month()) - 1)
    }

    #[must_use]
    pub fn next(self) -> Self {
        Self((self.0 + 1).min(LAST_MONTH))
    }

    /// Returns the first millisecond.
    pub fn start_ms(self) -> i64 {
        let (year, month) = (self.0.div_euclid(MONTHS_PER_YEAR), self.0.rem_euclid(MONTHS_PER_YEAR) + 1);
        let first = Date::new(year as i16, month as i8, 1).and_then(|date| date.to_zoned(TimeZone::UTC));
        first.map_or(0, |first| first.timestamp().as_millisecond())
    }

    /// Returns the smallest ID of the month.
    pub fn first_id(self) -> Uuid {
        ids::lower_bound(self.start_ms())
    }

    /// Returns the smallest ID after the month.
    pub fn end_id(self) -> Uuid {
        if self.0 == LAST_MONTH { Uuid::max() } else { self.next().first_id() }
    }

    /// Returns the SQL condition, without parameters, that an ID column lies in the month.
    pub fn condition(self, column: &str) -> String {
        format!("{column} >= '{}'::uuid AND {column} < '{}'::uuid", self.first_id(), self.end_id())
    }

    /// Prepares a statement that contains the month's bounds.
    pub async fn prepare(self, db: &impl GenericClient, sql: &str) -> Result<Statement, StoreError> {
        Ok(if CACHED_MONTHS.contains(&self.0) { db.prepare_cached(sql).await? } else { db.prepare(sql).await? })
    }
}

/// Splits rows by the month of their IDs, oldest month first. Rows of a month keep their order.
pub fn split<T: Clone>(rows: &[T], id: impl Fn(&T) -> Uuid) -> Vec<(Month, Vec<T>)> {
    let mut months: BTreeMap<Month, Vec<T>> = BTreeMap::new();
    for row in rows {
        months.entry(Month::of(id(row))).or_default().push(row.clone());
    }
    months.into_iter().collect()
}

/// Like [`split`], for IDs from outside. Omits rows of months for which the table has no partition: a caller can make
/// up an ID of any month, and each month costs a statement.
pub async fn split_existing<T: Clone>(
    db: &impl GenericClient,
    table: &'static str,
    rows: &[T],
    id: impl Fn(&T) -> Uuid,
) -> Result<Vec<(Month, Vec<T>)>, StoreError> {
    let found = || KNOWN_MONTHS.lock().unwrap_or_else(PoisonError::into_inner);
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

/// Returns the months in which a table has partitions, newest first.
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

/// Returns the months of a table up to the month of `before`, oldest first.
pub async fn of_table_before(
    db: &impl GenericClient,
    table: &'static str,
    before: Timestamp,
) -> Result<Vec<Month>, StoreError> {
    let last = Month::at(before.as_millisecond());
    let months = of_table(db, table).await?;
    Ok(months.into_iter().rev().take_while(|month| *month <= last).collect())
}

/// Sets the savepoint to which [`release_locks`] rolls back.
pub async fn set_savepoint(tx: &Transaction<'_>) -> Result<(), StoreError> {
    Ok(tx.batch_execute("SAVEPOINT before_month").await?)
}

/// Releases the partition locks taken since [`set_savepoint`] and undoes all changes since. For a transaction that
/// reads one month after another until it finds something.
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
