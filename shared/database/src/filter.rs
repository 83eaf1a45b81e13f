//! The conditions of a list query. The statement contains only the conditions in use, so that each combination has its
//! own plan.

use std::fmt::Write as _;

use deadpool_postgres::{GenericClient, Transaction};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::StoreError;
use kernel::ids::ProjectId;

/// The limit to which totals of filtered lists are counted.
pub const MAX_COUNTED: i64 = 10_000;

/// The total number of rows of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Total {
    pub count: i64,
    /// Whether there are more rows than were counted.
    pub capped: bool,
}

impl Total {
    pub fn exact(count: i64) -> Self {
        Self { count, capped: false }
    }

    /// Returns a total above the limit.
    pub fn above_limit() -> Self {
        Self::from_count(MAX_COUNTED + 1)
    }

    /// Converts a count that was limited to [`MAX_COUNTED`] + 1.
    pub fn from_count(found: i64) -> Self {
        Self { count: found.min(MAX_COUNTED), capped: found > MAX_COUNTED }
    }
}

/// Where a page starts: after a number of rows, or after a given row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageStart<T> {
    Offset(i64),
    After(T),
}

impl<T> PageStart<T> {
    pub fn offset(&self) -> i64 {
        match self {
            Self::Offset(rows) => *rows,
            Self::After(_) => 0,
        }
    }
}

/// Forces a kind of plan, whatever the planner estimates. The matches of a text search cannot be estimated, and a plan
/// that suits one text reads the whole table for another.
#[derive(Clone, Copy, Debug)]
pub enum ForcedPlan {
    /// An index scan in the requested order.
    Ordered,
    /// An index scan, row by row, so that it can end early.
    Indexed,
    /// A bitmap scan.
    Bitmap,
}

impl ForcedPlan {
    /// Begins a transaction for such statements.
    pub async fn begin(self, db: &mut impl GenericClient) -> Result<Transaction<'_>, StoreError> {
        let (index, bitmap, sort) = match self {
            Self::Ordered => ("on", "off", "off"),
            Self::Indexed => ("on", "off", "on"),
            Self::Bitmap => ("off", "on", "on"),
        };
        let tx = db.transaction().await?;
        // Sets all of them each time: in an outer transaction, the settings of one plan would still apply to the next.
        let settings = format!(
            "SET LOCAL enable_seqscan = off; SET LOCAL enable_indexscan = {index}; SET LOCAL enable_indexonlyscan = {index}; \
             SET LOCAL enable_bitmapscan = {bitmap}; SET LOCAL enable_sort = {sort}"
        );
        tx.batch_execute(&settings).await?;
        Ok(tx)
    }
}

/// Returns the `LIKE` pattern that matches `text` at any position.
pub fn like_pattern(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len() + 2);
    pattern.push('%');
    for c in text.chars() {
        if matches!(c, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern.push('%');
    pattern
}

/// The columns, table and order of a page.
#[derive(Clone, Copy, Debug)]
pub struct PageQuery {
    pub columns: &'static str,
    pub table: &'static str,
    pub order: &'static str,
}

/// Conditions and their parameters. The first parameter is always the project.
pub struct Filter<'a> {
    conditions: String,
    params: Vec<&'a (dyn ToSql + Sync)>,
}

impl<'a> Filter<'a> {
    pub fn of(project: &'a ProjectId) -> Self {
        Self { conditions: "project_id = $1".to_owned(), params: vec![project] }
    }

    /// Adds a condition, in which `?1`, `?2` are placeholders for the values.
    pub fn and(&mut self, condition: &str, values: &[&'a (dyn ToSql + Sync)]) {
        let mut condition = condition.to_owned();
        for (i, value) in values.iter().enumerate() {
            self.params.push(*value);
            condition = condition.replace(&format!("?{}", i + 1), &format!("${}", self.params.len()));
        }
        let _ = write!(self.conditions, " AND {condition}");
    }

    /// Reads one page.
    pub async fn page(
        mut self,
        db: &impl GenericClient,
        PageQuery { columns, table, order }: PageQuery,
        offset: &'a i64,
        limit: &'a i64,
    ) -> Result<Vec<Row>, StoreError> {
        let at = self.params.len();
        let sql = format!(
            "SELECT {columns} FROM {table} WHERE {} ORDER BY {order} OFFSET ${} LIMIT ${}",
            self.conditions,
            at + 1,
            at + 2
        );
        self.params.extend([offset as &(dyn ToSql + Sync), limit]);
        Ok(db.query(&db.prepare_cached(&sql).await?, &self.params).await?)
    }

    /// Counts up to [`MAX_COUNTED`] rows.
    pub async fn count_capped(&self, db: &impl GenericClient, table: &str) -> Result<Total, StoreError> {
        Ok(Total::from_count(self.count(db, table, MAX_COUNTED + 1).await?))
    }

    /// Counts up to `max` rows.
    pub async fn count(&self, db: &impl GenericClient, table: &str, max: i64) -> Result<i64, StoreError> {
        let limit = self.params.len() + 1;
        let conditions = &self.conditions;
        let sql =
            format!("SELECT count(*) AS count FROM (SELECT 1 FROM {table} WHERE {conditions} LIMIT ${limit}) AS found");
        let mut params = self.params.clone();
        params.push(&max);
        Ok(db.query_one(&db.prepare_cached(&sql).await?, &params).await?.try_get("count")?)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn each_condition_gets_its_own_parameter() {
        let (project, name, ids) = (ProjectId(Uuid::nil()), "n", vec![Uuid::nil()]);
        let mut filter = Filter::of(&project);
        filter.and("(name, x) = (?1, ?2) OR name = ?1", &[&name, &name]);
        filter.and("merged_into IS NULL", &[]);
        filter.and("user_id = ANY(?1)", &[&ids]);
        let expected =
            "project_id = $1 AND (name, x) = ($2, $3) OR name = $2 AND merged_into IS NULL AND user_id = ANY($4)";
        assert_eq!((filter.conditions.as_str(), filter.params.len()), (expected, 4));
    }

    #[test]
    fn like_pattern_escapes_wildcards() {
        assert_eq!(like_pattern(r"100%_\"), r"%100\%\_\\%");
    }
}
