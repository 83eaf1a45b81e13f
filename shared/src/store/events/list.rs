//! Lists of events, newest first.

use deadpool_postgres::GenericClient;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::counters;
use super::read::{COLUMNS, Event, from_row};
use crate::ids::ProjectId;
use crate::store::StoreError;
use crate::store::filter::{MOST_COUNTED, Pin, Start, Total};

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
    fn page_sql(&self, way: Way) -> String {
        self.newest_sql(way, "id < $4", ("$5::bigint + $6::bigint", "OFFSET $5 LIMIT $6"))
    }

    /// Behind `$4`, down to `$5`, at most `$6`.
    pub(super) fn stretch_sql(&self, way: Way) -> String {
        self.newest_sql(way, "id < $4 AND id >= $5::uuid", ("$6::bigint", "LIMIT $6"))
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

/// One page, by the rows' ids, and how many there are in all: exact from the counters unless the list is narrowed to
/// people. A page may begin behind a row's id.
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
    let tx = Pin::Indexed.begin(db).await?;
    let total = match wanted.user_ids {
        None => Total::exact(counters::total(&tx, project, wanted.names.as_deref()).await?),
        Some(_) => found(&tx, project, wanted).await?,
    };
    let way = match (wanted.names.as_deref(), wanted.user_ids.as_deref()) {
        (_, Some([_, _, ..])) => Way::ByUser,
        (Some(names @ [_, _, ..]), None) => {
            let many = names.len() > FEW_NAMES && total.count * DENSE >= counters::total(&tx, project, None).await?;
            if many { Way::InOrder } else { Way::ByName }
        }
        _ => Way::InOrder,
    };
    let (behind, offset) = match start {
        Start::After(id) => (*id, 0),
        Start::Offset(rows) => (Uuid::max(), *rows),
    };
    let params: [&(dyn ToSql + Sync); 6] = [&project, &wanted.names, &wanted.user_ids, &behind, &offset, &limit];
    let rows = tx.query(&tx.prepare_cached(&wanted.page_sql(way)).await?, &params).await?;
    tx.commit().await?;
    Ok((rows.iter().map(from_row).collect::<Result<_, _>>()?, total))
}

/// Counts as far as totals go.
async fn found(db: &impl GenericClient, project: ProjectId, wanted: &EventFilter) -> Result<Total, StoreError> {
    let sql = format!(
        "SELECT count(*) FROM (SELECT 1 FROM events WHERE project_id = $1 AND {} LIMIT {}) AS found",
        wanted.conditions(Way::InOrder),
        MOST_COUNTED + 1
    );
    let row = db.query_one(&db.prepare_cached(&sql).await?, &[&project, &wanted.names, &wanted.user_ids]).await?;
    Ok(Total::counted(row.try_get(0)?))
}
