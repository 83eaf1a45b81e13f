//! Reading events.

use deadpool_postgres::GenericClient;
use jiff::Timestamp;
use serde_json::Value;
use tokio_postgres::Row;
use uuid::Uuid;

use database::StoreError;
use database::months::Month;
use kernel::ids::{IdSpace, ProjectId, derived_event_id, is_marked, own_row_id, unmarked_row_id};

/// A recorded event.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The ID of the row.
    pub id: Uuid,
    /// The ID that the API shows, if it differs from the row's.
    pub client_id: Option<Uuid>,
    pub name: String,
    /// The user as identified when the event was recorded; they may have been merged since.
    pub user_id: Uuid,
    /// The anonymous ID that the sender provided.
    pub anonymous_id: Option<String>,
    /// A JSON object.
    pub properties: Value,
    pub timestamp: Timestamp,
    pub received_at: Timestamp,
}

impl Event {
    pub fn public_id(&self) -> Uuid {
        self.client_id.unwrap_or(self.id)
    }
}

pub(super) fn from_row(row: &Row) -> Result<Event, StoreError> {
    Ok(Event {
        id: row.try_get("id")?,
        client_id: row.try_get("client_id")?,
        name: row.try_get("name")?,
        user_id: row.try_get("user_id")?,
        properties: row.try_get("properties")?,
        timestamp: row.try_get("ts")?,
        received_at: row.try_get("received_at")?,
        anonymous_id: row.try_get("anonymous_id")?,
    })
}

/// Returns the first event that exists among these row IDs, which must all contain the same time.
async fn first_existing(
    db: &impl GenericClient,
    project: ProjectId,
    ids: &[Uuid],
) -> Result<Option<Event>, StoreError> {
    let Some(first) = ids.first() else { return Ok(None) };
    let month = Month::of(*first);
    let within = month.condition("id");
    let sql = format!(
        "SELECT id, client_id, name, user_id, properties, ts, received_at, anonymous_id FROM events \
         WHERE project_id = $1 AND id = ANY($2) AND {within} ORDER BY array_position($2::uuid[], id) LIMIT 1"
    );
    db.query_opt(&month.prepare(db, &sql).await?, &[&project, &ids]).await?.as_ref().map(from_row).transpose()
}

/// Returns the row IDs that an ID may refer to: the backend's event with this ID, the event with this row ID, and the
/// event with this ID that was sent with a public key.
fn row_ids(project: ProjectId, id: Uuid) -> Vec<Uuid> {
    let of = |space| own_row_id(project, space, id);
    let public = is_marked(id).then(|| of(IdSpace::PublicKey));
    [of(IdSpace::SecretKey), unmarked_row_id(project, id), id].into_iter().chain(public).collect()
}

/// Finds an event by its row ID, the ID that the API shows, or the ID that the client sent.
///
/// If a backend's event and an event sent with a public key have the same ID, the backend's event is returned.
pub async fn find(db: &impl GenericClient, project: ProjectId, text: &str) -> Result<Option<Event>, StoreError> {
    let id = Uuid::try_parse(text).ok();
    if let Some(id) = id
        && let Some(event) = first_existing(db, project, &row_ids(project, id)).await?
    {
        return Ok(Some(event));
    }
    let spaces = [IdSpace::SecretKey, IdSpace::PublicKey];
    let derived = spaces.map(|space| derived_event_id(project, space, text));
    let derived: Vec<Uuid> = id.into_iter().chain(derived).collect();
    let sql = "SELECT event_id FROM client_id WHERE project_id = $1 AND id = ANY($2) AND event_id IS NOT NULL \
               ORDER BY array_position($2::uuid[], id) LIMIT 1";
    match db.query_opt(&db.prepare_cached(sql).await?, &[&project, &derived]).await? {
        Some(row) => first_existing(db, project, &[row.try_get("event_id")?]).await,
        None => Ok(None),
    }
}

/// Returns the event names that match a search text, which must be in lower case.
pub async fn search_names(db: &impl GenericClient, project: ProjectId, text: &str) -> Result<Vec<String>, StoreError> {
    // One or two characters occur in most names, so they match only at the start.
    let sql = match text.chars().count() {
        0..=2 => "SELECT DISTINCT name FROM event_count WHERE project_id = $1 AND starts_with(lower(name), $2)",
        _ => "SELECT DISTINCT name FROM event_count WHERE project_id = $1 AND strpos(lower(name), $2) > 0",
    };
    let rows = db.query(&db.prepare_cached(sql).await?, &[&project, &text]).await?;
    rows.iter().map(|row| Ok(row.try_get("name")?)).collect()
}
