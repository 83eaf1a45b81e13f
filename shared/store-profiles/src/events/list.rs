//! Lists of events, newest first.

use deadpool_postgres::GenericClient;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::counters;
use super::read::{COLUMNS, Event, from_row};
use database::StoreError;
use database::filter::{MOST_COUNTED, Pin, Start, Total};
use database::months::{self, Month};
use kernel::ids::ProjectId;

/// Names that are read each by itself; of more, all events are read where the names make up one in so many of them.
pub(super) const FEW_NAMES: usize = 20;
const DENSE: i64 = 20;

/// What a list of events is narrowed to.
#[derive(Clone, Debug, Default)]
pub struct EventFilter {
    /// Any of these names, each once; `Some` of none finds nothing.
    pub names: Option<Vec<String>>,
    /// Of these people, under all their internal ids, each once.
    pub user_ids: Option<Vec<Uuid>>,
}

/// The order of the list is an index's for each name and for each id, but not for several of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    InOrder,
    ByName,
    ByUser,
}

impl EventFilter {
    pub(super) fn finds_nothing(&self) -> bool {
        self.names.as_ref().is_some_and(Vec::is_empty) || self.user_ids.as_ref().is_some_and(Vec::is_empty)
    }

    /// The conditions beside the project's: `$2` are the names and `$3` the ids. `each` stands for one of them.
    fn conditions(&self, each: Way) -> String {
        let name = match self.names.as_deref() {
            _ if each == Way::ByName => "name = each.one",
            None => "$2::text[] IS NULL",
            Some([_]) => "name = ($2::text[])[1]",
            Some(_) => "name = ANY($2::text[])",
        };
        let user = match self.user_ids.as_deref() {
            _ if each == Way::ByUser => "user_id = each.one",
            None => "$3::uuid[] IS NULL",
            Some([_]) => "user_id = ($3::uuid[])[1]",
            Some(_) => "user_id = ANY($3::uuid[])",
        };
        format!("{name} AND {user}")
    }

    /// Behind `$4`, from `$5` on, at most `$6`.
    fn page_sql(&self, way: Way, month: Month) -> String {
        let place = format!("id < $4 AND {}", month.condition("id"));
        self.newest_sql(way, &place, ("$5::bigint + $6::bigint", "OFFSET $5 LIMIT $6"))
    }

    /// Counts those of a month behind `$4`, at most `$5`.
    fn count_sql(&self, month: Month) -> String {
        format!(
            "SELECT count(*) AS total FROM (SELECT 1 FROM events WHERE project_id = $1 AND {} AND id < $4 AND {} \
             LIMIT $5) AS found",
            self.conditions(Way::InOrder),
            month.condition("id")
        )
    }

    /// Behind `$4`, down to `$5`, at most `$6`.
    pub(super) fn stretch_sql(&self, way: Way, month: Month) -> String {
        let place = format!("id < $4 AND id >= $5::uuid AND {}", month.condition("id"));
        self.newest_sql(way, &place, ("$6::bigint", "LIMIT $6"))
    }

    /// `most` is how many of each name or person may be needed for the `part` that is wanted.
    fn newest_sql(&self, way: Way, place: &str, (most, part): (&str, &str)) -> String {
        let conditions = format!("project_id = $1 AND {} AND {place}", self.conditions(way));
        let from = match way {
            Way::InOrder => return format!("SELECT {COLUMNS} FROM events WHERE {conditions} ORDER BY id DESC {part}"),
            Way::ByName => "unnest($2::text[])",
            Way::ByUser => "unnest($3::uuid[])",
        };
        format!(
            "SELECT e.* FROM {from} AS each(one) CROSS JOIN LATERAL (SELECT {COLUMNS} FROM events WHERE {conditions} \
             ORDER BY id DESC LIMIT {most}) e ORDER BY e.id DESC {part}"
        )
    }
}

/// Returns one page and the total: exact from the counters, or capped when filtered by user.
pub async fn list(
    db: &mut impl GenericClient,
    project: ProjectId,
    wanted: &EventFilter,
    start: &Start<Uuid>,
    limit: i64,
) -> Result<(Vec<Event>, Total), StoreError> {
    if wanted.finds_nothing() {
        return Ok((Vec::new(), Total::exact(0)));
    }
    let months = months::of_table(db, "events").await?;
    let total = match wanted.user_ids {
        None => Total::exact(counters::total(db, project, wanted.names.as_deref()).await?),
        Some(_) => {
            let mut found = 0;
            for month in &months {
                found += count(db, project, wanted, *month, Uuid::max(), MOST_COUNTED + 1 - found).await?;
                if found > MOST_COUNTED {
                    break;
                }
            }
            Total::counted(found)
        }
    };
    let way = match (wanted.names.as_deref(), wanted.user_ids.as_deref()) {
        (_, Some([_, _, ..])) => Way::ByUser,
        (Some(names @ [_, _, ..]), None) => {
            let many = names.len() > FEW_NAMES && total.count * DENSE >= counters::total(db, project, None).await?;
            if many { Way::InOrder } else { Way::ByName }
        }
        _ => Way::InOrder,
    };
    let (behind, mut offset) = match start {
        Start::After(id) => (*id, 0),
        Start::Offset(rows) => (Uuid::max(), *rows),
    };
    let mut page: Vec<Event> = Vec::new();
    for month in months.into_iter().filter(|month| *month <= Month::of(behind)) {
        let skipped = offset;
        if skipped > 0 {
            // Skip this month's rows; the remaining offset applies to older months.
            offset -= count(db, project, wanted, month, behind, skipped).await?;
            if offset > 0 {
                continue;
            }
        }
        let left = limit - page.len() as i64;
        let tx = Pin::Indexed.begin(db).await?;
        let params: [&(dyn ToSql + Sync); 6] = [&project, &wanted.names, &wanted.user_ids, &behind, &skipped, &left];
        let rows = tx.query(&month.prepare(&tx, &wanted.page_sql(way, month)).await?, &params).await?;
        tx.commit().await?;
        for row in &rows {
            page.push(from_row(row)?);
        }
        if page.len() as i64 >= limit {
            break;
        }
    }
    Ok((page, total))
}

/// Counts the events of a month behind a row's id, up to `most`.
async fn count(
    db: &mut impl GenericClient,
    project: ProjectId,
    wanted: &EventFilter,
    month: Month,
    behind: Uuid,
    most: i64,
) -> Result<i64, StoreError> {
    let tx = Pin::Indexed.begin(db).await?;
    let statement = month.prepare(&tx, &wanted.count_sql(month)).await?;
    let row = tx.query_one(&statement, &[&project, &wanted.names, &wanted.user_ids, &behind, &most]).await?;
    tx.commit().await?;
    Ok(row.try_get("total")?)
}
