//! Users as recipients of messages.

use std::collections::HashMap;

use deadpool_postgres::GenericClient;
use uuid::Uuid;

use database::StoreError;
use domain::recipient::Recipient;
use kernel::ids::ProjectId;

/// Rows read for each ID: its own and, if it was merged, the rows it leads to. A user is merged only once and never
/// into a merged user; the limit is a safeguard.
const MAX_HOPS: usize = 4;

/// Returns the users that these IDs currently resolve to, by the requested ID. IDs that resolve to no user are omitted.
pub async fn load(
    db: &impl GenericClient,
    project: ProjectId,
    ids: &[Uuid],
) -> Result<HashMap<Uuid, Recipient>, StoreError> {
    let sql = "SELECT id, merged_into, external_id, anonymous_id, email, name, properties, created_at FROM users \
               WHERE project_id = $1 AND id = ANY($2)";
    let statement = db.prepare_cached(sql).await?;
    let mut found = HashMap::with_capacity(ids.len());
    let mut requested: HashMap<Uuid, Vec<Uuid>> = HashMap::new();
    for id in ids {
        let by = requested.entry(*id).or_default();
        if by.is_empty() {
            by.push(*id);
        }
    }
    for _ in 0..MAX_HOPS {
        if requested.is_empty() {
            break;
        }
        let wanted: Vec<Uuid> = requested.keys().copied().collect();
        let mut further: HashMap<Uuid, Vec<Uuid>> = HashMap::new();
        for row in db.query(&statement, &[&project, &wanted]).await? {
            let id: Uuid = row.try_get("id")?;
            let by = requested.remove(&id).unwrap_or_default();
            match row.try_get::<_, Option<Uuid>>("merged_into")? {
                Some(into) => further.entry(into).or_default().extend(by),
                None => {
                    let recipient = Recipient {
                        id,
                        external_id: row.try_get("external_id")?,
                        anonymous_id: row.try_get("anonymous_id")?,
                        email: row.try_get("email")?,
                        name: row.try_get("name")?,
                        properties: row.try_get("properties")?,
                        created_at: row.try_get("created_at")?,
                    };
                    found.extend(by.into_iter().map(|requested| (requested, recipient.clone())));
                }
            }
        }
        requested = further;
    }
    Ok(found)
}
