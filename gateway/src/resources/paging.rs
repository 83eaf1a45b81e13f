//! Pages of lists: where they begin, and the cursor to the next one.

use database::filter::{Start, Total};
use jiff::Timestamp;
use serde::Serialize;
use uuid::Uuid;

use crate::http::error::ApiError;
use crate::http::query::{Page, Query};

/// A search's characters at most.
const SEARCH_MAX: usize = 200;

/// Where a list by id begins: behind `cursor` if there is one, or else at `page`.
pub fn start_by_id(query: &Query, page: Page) -> Result<Start<Uuid>, ApiError> {
    match cursor_id(query)? {
        Some(id) => Ok(Start::After(id)),
        None => Ok(Start::Offset(page.offset())),
    }
}

/// The `cursor` of a list by id.
pub fn cursor_id(query: &Query) -> Result<Option<Uuid>, ApiError> {
    let Some(text) = query.get("cursor") else { return Ok(None) };
    Uuid::try_parse(text).map(Some).map_err(|_| no_cursor())
}

/// Where a list by time and id begins.
pub fn start_by_time(query: &Query, page: Page) -> Result<Start<(Timestamp, Uuid)>, ApiError> {
    Ok(cursor_time(query)?.map_or(Start::Offset(page.offset()), Start::After))
}

/// The `cursor` of a list by time and id.
pub fn cursor_time(query: &Query) -> Result<Option<(Timestamp, Uuid)>, ApiError> {
    let Some(text) = query.get("cursor") else { return Ok(None) };
    parse_time_cursor(text).map(Some).ok_or_else(no_cursor)
}

/// Reads a cursor made by [`time_cursor`].
pub fn parse_time_cursor(text: &str) -> Option<(Timestamp, Uuid)> {
    let (micros, id) = text.split_once('_')?;
    Some((Timestamp::from_microsecond(micros.parse().ok()?).ok()?, Uuid::try_parse(id).ok()?))
}

/// The cursor behind a row of a list by time and id. The database keeps microseconds.
pub fn time_cursor(at: Timestamp, id: Uuid) -> String {
    format!("{}_{id}", at.as_microsecond())
}

fn no_cursor() -> ApiError {
    ApiError::invalid("cursor", "must be the `nextCursor` of an earlier answer")
}

/// Cuts rows, of which one more than `limit` was asked for, down to the page; returns the cursor to the next one.
pub fn cut<T>(rows: &mut Vec<T>, limit: i64, cursor: impl Fn(&T) -> String) -> Option<String> {
    let limit = usize::try_from(limit).unwrap_or(0);
    if rows.len() <= limit {
        return None;
    }
    rows.truncate(limit);
    rows.last().map(cursor)
}

/// `search` in lower case.
pub fn search(query: &Query) -> Result<Option<String>, ApiError> {
    match query.get("search").map(str::trim).filter(|text| !text.is_empty()) {
        Some(text) if text.chars().count() > SEARCH_MAX => {
            Err(ApiError::invalid("search", format!("must have at most {SEARCH_MAX} characters")))
        }
        text => Ok(text.map(str::to_lowercase)),
    }
}

/// `total` and, where there are more rows than were counted, `totalIsCapped`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TotalView {
    total: i64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    total_is_capped: bool,
}

impl From<Total> for TotalView {
    fn from(total: Total) -> Self {
        Self { total: total.count, total_is_capped: total.capped }
    }
}

/// What every paged list says beside its items.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PageView {
    #[serde(flatten)]
    total: TotalView,
    page: i64,
    limit: i64,
    next_cursor: Option<String>,
}

impl PageView {
    pub fn new(total: Total, page: Page, next_cursor: Option<String>) -> Self {
        Self { total: total.into(), page: page.page, limit: page.limit, next_cursor }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: Page = Page { page: 3, limit: 10 };

    fn query(text: &str) -> Query {
        Query::parse(text).unwrap()
    }

    #[test]
    fn a_cursor_wins_over_a_page() {
        let id = Uuid::from_u128(5);
        assert_eq!(start_by_id(&query("page=3&limit=10"), PAGE).unwrap(), Start::Offset(20));
        assert_eq!(start_by_id(&query(&format!("cursor={id}")), PAGE).unwrap(), Start::After(id));
        let at = Timestamp::from_microsecond(1_700_000_000_000_001).unwrap();
        let cursor = format!("cursor={}", time_cursor(at, id));
        assert_eq!(start_by_time(&query(&cursor), PAGE).unwrap(), Start::After((at, id)));
    }

    #[test]
    fn a_made_up_cursor_is_refused() {
        for text in ["cursor=7", "cursor=_", "cursor=5_x", "cursor=99999999999999999999_x"] {
            assert!(start_by_id(&query(text), PAGE).is_err(), "{text}");
            assert!(start_by_time(&query(text), PAGE).is_err(), "{text}");
        }
    }

    #[test]
    fn only_a_full_page_with_more_behind_it_has_a_next_one() {
        let cursor = |n: &i32| n.to_string();
        let mut rows = vec![1, 2, 3];
        assert_eq!(cut(&mut rows, 2, cursor), Some("2".to_owned()));
        assert_eq!(rows, [1, 2]);
        assert_eq!(cut(&mut rows, 2, cursor), None);
        assert_eq!(cut(&mut Vec::new(), 2, cursor), None);
    }

    #[test]
    fn searches_are_bounded_and_in_lower_case() {
        assert_eq!(search(&query("search=+%C3%84b+")).unwrap(), Some("äb".to_owned()));
        assert_eq!(search(&query("search=+")).unwrap(), None);
        assert!(search(&query(&format!("search={}", "a".repeat(201)))).is_err());
    }
}
