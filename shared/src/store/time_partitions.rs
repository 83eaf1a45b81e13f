//! The partitions of the big tables: ranges of ids, which are ranges of time.

use deadpool_postgres::GenericClient;

use super::StoreError;
use crate::clock::{from_ms, rfc3339};
use crate::ids;

const DAY_MS: i64 = 86_400_000;
/// Days made ahead, so that a scheduler away for days is not missed.
const AHEAD: i64 = 14;
/// Days back for which there is one partition: no event's id lies further back.
const BACK: i64 = 31;
const TABLES: [&str; 2] = ["events", "message"];

/// One partition to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Range {
    name: String,
    from_ms: i64,
    to_ms: i64,
}

/// What is missing at `now_ms`, given the end of the newest partition (Unix milliseconds), if there is one.
fn missing(table: &str, now_ms: i64, newest_end: Option<i64>) -> Vec<Range> {
    let today = now_ms - now_ms.rem_euclid(DAY_MS);
    let mut ranges = Vec::new();
    let mut from = newest_end.unwrap_or_else(|| {
        let start = today - BACK * DAY_MS;
        ranges.push(Range { name: format!("{table}_before_{}", date(today)), from_ms: start, to_ms: today });
        today
    });
    while from < today + AHEAD * DAY_MS {
        let to = from + DAY_MS;
        ranges.push(Range { name: format!("{table}_{}", date(from)), from_ms: from, to_ms: to });
        from = to;
    }
    ranges
}

fn date(ms: i64) -> String {
    rfc3339(from_ms(ms))[..10].replace('-', "")
}

/// Makes the partitions that are missing; returns how many. Safe to run in several processes at once.
pub async fn ensure(db: &impl GenericClient, now_ms: i64) -> Result<usize, StoreError> {
    let mut made = 0;
    for table in TABLES {
        let end = newest_end(db, table).await?;
        for range in missing(table, now_ms, end) {
            let (from, to) = (ids::lower_bound(range.from_ms), ids::lower_bound(range.to_ms));
            // The names and bounds are made here, of digits and letters only: DDL takes no parameters.
            let sql = format!(
                "CREATE TABLE IF NOT EXISTS {} PARTITION OF {table} FOR VALUES FROM ('{from}') TO ('{to}')",
                range.name
            );
            match db.batch_execute(&sql).await {
                Ok(()) => made += 1,
                Err(error) if was_made_meanwhile(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(made)
}

/// Another process made the same one: seen as an overlap, or as a name taken.
fn was_made_meanwhile(error: &tokio_postgres::Error) -> bool {
    error.code().is_some_and(|c| ["42P07", "42P17", "23505"].contains(&c.code()))
}

/// The end of the newest partition, in Unix milliseconds.
async fn newest_end(db: &impl GenericClient, table: &str) -> Result<Option<i64>, StoreError> {
    let sql = "SELECT max(substring(pg_get_expr(c.relpartbound, c.oid) FROM 'TO \\(''([0-9a-f-]{36})''\\)')) \
               FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = $1::text::regclass";
    let bound: Option<String> = db.query_one(sql, &[&table]).await?.try_get(0)?;
    Ok(bound.and_then(|b| uuid::Uuid::try_parse(&b).ok()).map(ids::time_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_partitions_reach_back_and_ahead_without_gaps() {
        let now = 1_790_000_000_000;
        let ranges = missing("events", now, None);
        assert_eq!(ranges[0].name, "events_before_20260921");
        assert_eq!(ranges[1].name, "events_20260921");
        assert_eq!(ranges.len() as i64, AHEAD + 1);
        assert!(ranges.windows(2).all(|w| w[0].to_ms == w[1].from_ms));
        assert!(ranges[0].from_ms <= now - ids::CLIENT_ID_PAST_MS);
        assert!(ranges.last().unwrap().to_ms > now + ids::CLIENT_ID_FUTURE_MS);
    }

    #[test]
    fn later_only_what_is_missing_is_made() {
        let now = 1_790_000_000_000;
        let end = missing("events", now, None).last().unwrap().to_ms;
        assert_eq!(missing("events", now, Some(end)), []);
        let tomorrow = missing("events", now + DAY_MS, Some(end));
        assert_eq!(tomorrow.len(), 1);
        assert_eq!(tomorrow[0].from_ms, end);
    }
}
