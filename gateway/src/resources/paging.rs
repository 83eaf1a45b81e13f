//! Pagination: the start of a page, its rows, and the cursor of the next page.
//!
//! A handler reads [`NumberedPage::of`] or [`CursorPage::of`] from the query, reads `rows()` rows from the store (one
//! more than the page holds), trims them with `cut`, and returns `reply`.

use database::filter::{PageStart, Total};
use jiff::Timestamp;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use uuid::Uuid;

use crate::http::error::ApiError;
use crate::http::query::Query;
use crate::http::respond::{Reply, ok};

/// Default number of items per page.
const DEFAULT_LIMIT: i64 = 20;
/// Number of rows that numbered pages can reach; clients use cursors beyond it.
const MAX_NUMBERED_ROWS: i64 = 10_000;

/// The sort key of a list. A row's key is the cursor to the rows after it.
pub trait Cursor: Sized {
    fn parse(text: &str) -> Option<Self>;
    fn text(&self) -> String;
}

impl Cursor for Uuid {
    fn parse(text: &str) -> Option<Self> {
        Self::try_parse(text).ok()
    }

    fn text(&self) -> String {
        self.to_string()
    }
}

/// Cursor of a list ordered by time and ID, in microseconds as stored by the database.
impl Cursor for (Timestamp, Uuid) {
    fn parse(text: &str) -> Option<Self> {
        let (micros, id) = text.split_once('_')?;
        // No row is older than 1970, and PostgreSQL rejects times long before that.
        let micros = micros.parse::<i64>().ok().filter(|micros| *micros >= 0)?;
        Some((Timestamp::from_microsecond(micros).ok()?, Uuid::try_parse(id).ok()?))
    }

    fn text(&self) -> String {
        format!("{}_{}", self.0.as_microsecond(), self.1)
    }
}

fn limit(query: &Query) -> Result<i64, ApiError> {
    Ok(query.integer("limit", 1..=100)?.unwrap_or(DEFAULT_LIMIT))
}

fn cursor<C: Cursor>(query: &Query) -> Result<Option<C>, ApiError> {
    let Some(text) = query.get("cursor") else { return Ok(None) };
    let invalid_cursor = || ApiError::invalid("cursor", "must be the `nextCursor` of an earlier response");
    C::parse(text).map(Some).ok_or_else(invalid_cursor)
}

/// Trims rows to the page, if one more than `limit` was found; returns the cursor of the next page, if any.
fn cut<T, C: Cursor>(rows: &mut Vec<T>, limit: i64, cursor: impl Fn(&T) -> C) -> Option<String> {
    let limit = usize::try_from(limit).unwrap_or(0);
    if rows.len() <= limit {
        return None;
    }
    rows.truncate(limit);
    rows.last().map(|row| cursor(row).text())
}

/// A requested page of a list with a total: after `cursor` if given, otherwise by number.
#[derive(Debug, PartialEq, Eq)]
pub struct NumberedPage<C> {
    pub start: PageStart<C>,
    /// Starts at 1.
    number: i64,
    limit: i64,
}

impl<C: Cursor> NumberedPage<C> {
    /// Reads `page`, `limit` and `cursor`.
    pub fn of(query: &Query) -> Result<Self, ApiError> {
        let limit = limit(query)?;
        let number = query.integer("page", 1..=i64::MAX)?.unwrap_or(1);
        if number.saturating_mul(limit) > MAX_NUMBERED_ROWS {
            let message = format!("page × limit must be at most {MAX_NUMBERED_ROWS}; use `cursor` for later pages");
            return Err(ApiError::invalid("page", message));
        }
        let start = cursor(query)?.map_or(PageStart::Offset((number - 1) * limit), PageStart::After);
        Ok(Self { start, number, limit })
    }

    /// Returns the number of rows to read.
    pub fn rows(&self) -> i64 {
        self.limit + 1
    }

    pub fn cut<T>(self, rows: &mut Vec<T>, cursor: impl Fn(&T) -> C) -> NumberedEnd {
        NumberedEnd { number: self.number, limit: self.limit, next_cursor: cut(rows, self.limit, cursor) }
    }
}

/// A requested page of a list without a total: the first page, or the one after `cursor`.
#[derive(Debug, PartialEq, Eq)]
pub struct CursorPage<C> {
    pub after: Option<C>,
    limit: i64,
}

impl<C: Cursor> CursorPage<C> {
    /// Reads `cursor`; the page size is fixed at `limit` items.
    pub fn of(query: &Query, limit: i64) -> Result<Self, ApiError> {
        Ok(Self { after: cursor(query)?, limit })
    }

    /// Reads `limit` and `cursor`.
    pub fn limited(query: &Query) -> Result<Self, ApiError> {
        Self::of(query, limit(query)?)
    }

    /// Returns the number of rows to read.
    pub fn rows(&self) -> i64 {
        self.limit + 1
    }

    pub fn cut<T>(self, rows: &mut Vec<T>, cursor: impl Fn(&T) -> C) -> CursorEnd {
        CursorEnd { next_cursor: cut(rows, self.limit, cursor) }
    }
}

/// For lists that accept `page` but have no total. Ignores the page number.
impl<C> From<NumberedPage<C>> for CursorPage<C> {
    fn from(page: NumberedPage<C>) -> Self {
        let after = match page.start {
            PageStart::After(cursor) => Some(cursor),
            PageStart::Offset(_) => None,
        };
        Self { after, limit: page.limit }
    }
}

/// The end of a numbered page.
pub struct NumberedEnd {
    number: i64,
    pub limit: i64,
    pub next_cursor: Option<String>,
}

impl NumberedEnd {
    /// Returns the pagination fields of the response.
    pub fn view(self, total: Total) -> PageView {
        PageView { total: total.into(), page: self.number, limit: self.limit, next_cursor: self.next_cursor }
    }

    /// Replies 200 with the items as the field `name`.
    pub fn reply<V: Serialize>(
        self,
        name: &'static str,
        items: impl IntoIterator<Item = V>,
        total: Total,
    ) -> Result<Reply, ApiError> {
        ok(&ListView { items: NamedItems { name, items: items.into_iter().collect() }, end: self.view(total) })
    }
}

/// The end of a page of a list without a total.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CursorEnd {
    next_cursor: Option<String>,
}

impl CursorEnd {
    /// Replies 200 with the items as the field `name`.
    pub fn reply<V: Serialize>(
        self,
        name: &'static str,
        items: impl IntoIterator<Item = V>,
    ) -> Result<Reply, ApiError> {
        ok(&ListView { items: NamedItems { name, items: items.into_iter().collect() }, end: self })
    }
}

#[derive(Serialize)]
struct ListView<V: Serialize, E> {
    #[serde(flatten)]
    items: NamedItems<V>,
    #[serde(flatten)]
    end: E,
}

struct NamedItems<V> {
    name: &'static str,
    items: Vec<V>,
}

impl<V: Serialize> Serialize for NamedItems<V> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let mut map = out.serialize_map(Some(1))?;
        map.serialize_entry(self.name, &self.items)?;
        map.end()
    }
}

/// `total`, and `totalIsCapped` if counting stopped at the limit.
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

/// The pagination fields of a numbered list.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PageView {
    #[serde(flatten)]
    total: TotalView,
    page: i64,
    limit: i64,
    next_cursor: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    type ByTime = (Timestamp, Uuid);

    fn query(text: &str) -> Query {
        Query::parse(text).unwrap()
    }

    fn by_id(text: &str) -> Result<NumberedPage<Uuid>, ApiError> {
        NumberedPage::of(&query(text))
    }

    #[test]
    fn cursor_takes_precedence_over_page() {
        let id = Uuid::from_u128(5);
        assert_eq!(by_id("page=3&limit=10").unwrap().start, PageStart::Offset(20));
        assert_eq!(by_id(&format!("page=3&cursor={id}")).unwrap().start, PageStart::After(id));
        let position = (Timestamp::from_microsecond(1_700_000_000_000_001).unwrap(), id);
        let page = NumberedPage::<ByTime>::of(&query(&format!("cursor={}", position.text()))).unwrap();
        assert_eq!(page.start, PageStart::After(position));
        assert_eq!(CursorPage::from(page), CursorPage { after: Some(position), limit: 20 });
    }

    #[test]
    fn invalid_cursor_is_rejected() {
        for text in ["cursor=7", "cursor=_", "cursor=5_x", "cursor=99999999999999999999_x"] {
            assert!(by_id(text).is_err(), "{text}");
            assert!(NumberedPage::<ByTime>::of(&query(text)).is_err(), "{text}");
            assert!(CursorPage::<Uuid>::of(&query(text), 9).is_err(), "{text}");
        }
    }

    #[test]
    fn page_parameters_are_validated() {
        let read = |text| by_id(text).map_err(|e| e.status().as_u16());
        assert_eq!(read(""), Ok(NumberedPage { start: PageStart::Offset(0), number: 1, limit: 20 }));
        assert_eq!(read("page=3&limit=50").unwrap().start, PageStart::Offset(100));
        for wrong in
            ["page=", "page=0", "limit=0", "limit=101", "page=x", "page=101&limit=100", "page=9223372036854775807"]
        {
            assert_eq!(read(wrong), Err(422), "{wrong}");
        }
    }

    #[test]
    fn next_cursor_is_set_only_if_more_rows_follow() {
        let ids = |n: u128| (1..=n).map(Uuid::from_u128).collect::<Vec<_>>();
        let page = || CursorPage::<Uuid>::of(&query(""), 2).unwrap();
        assert_eq!(page().rows(), 3);
        let mut rows = ids(3);
        assert_eq!(page().cut(&mut rows, |id| *id).next_cursor, Some(Uuid::from_u128(2).to_string()));
        assert_eq!(rows, ids(2));
        assert_eq!(page().cut(&mut rows, |id| *id).next_cursor, None);
        assert_eq!(page().cut(&mut Vec::new(), |id: &Uuid| *id).next_cursor, None);
    }

    #[test]
    fn items_are_serialized_under_their_name() {
        let mut rows = vec![Uuid::nil()];
        let end = by_id("").unwrap().cut(&mut rows, |id| *id);
        let reply = end.reply("things", rows.iter().map(|_| 7), Total::exact(1)).unwrap();
        assert_eq!(reply.body, r#"{"things":[7],"total":1,"page":1,"limit":20,"nextCursor":null}"#);
        let end = CursorPage::of(&query(""), 9).unwrap().cut(&mut rows, |id| *id);
        assert_eq!(end.reply("things", [7]).unwrap().body, r#"{"things":[7],"nextCursor":null}"#);
    }
}
