//! People as the recipients of messages.

use std::collections::HashMap;

use deadpool_postgres::GenericClient;
use jiff::Timestamp;
use serde_json::Value;
use uuid::Uuid;

use crate::ids::ProjectId;
use crate::send::Channel;
use crate::store::StoreError;
use crate::suppression::{Address, international};

/// Merges that are followed from one id. A person is merged once, and not into one who is; the rest is caution.
const HOPS: usize = 4;

#[derive(Clone, Debug, PartialEq)]
pub struct Recipient {
    pub id: Uuid,
    pub external_id: Option<String>,
    pub anonymous_id: Option<String>,
    pub email: Option<String>,
    pub name: Option<String>,
    /// A JSON object.
    pub properties: Value,
    pub created_at: Timestamp,
}

impl Recipient {
    /// Somebody of whom nothing is known.
    pub fn nobody(id: Uuid, created_at: Timestamp) -> Self {
        let properties = Value::Object(serde_json::Map::new());
        Self { id, external_id: None, anonymous_id: None, email: None, name: None, properties, created_at }
    }

    /// Returns the user's current address for a channel.
    pub fn address(&self, channel: Channel) -> Option<Address> {
        match channel {
            Channel::Email => self.email.as_deref().map(Address::email),
            Channel::Sms => Some(Address::number(&international(self.properties.get("phone")?.as_str()?)?)),
            Channel::Push | Channel::InApp => None,
        }
    }
}

/// The people that these ids lead to today, by the id asked for. Ids that lead to nobody are missing.
pub async fn load(
    db: &impl GenericClient,
    project: ProjectId,
    ids: &[Uuid],
) -> Result<HashMap<Uuid, Recipient>, StoreError> {
    let sql = "SELECT id, merged_into, external_id, anonymous_id, email, name, properties, created_at FROM users \
               WHERE project_id = $1 AND id = ANY($2)";
    let statement = db.prepare_cached(sql).await?;
    let mut found = HashMap::with_capacity(ids.len());
    let mut asked: HashMap<Uuid, Vec<Uuid>> = HashMap::new();
    for id in ids {
        let by = asked.entry(*id).or_default();
        if by.is_empty() {
            by.push(*id);
        }
    }
    for _ in 0..HOPS {
        if asked.is_empty() {
            break;
        }
        let wanted: Vec<Uuid> = asked.keys().copied().collect();
        let mut further: HashMap<Uuid, Vec<Uuid>> = HashMap::new();
        for row in db.query(&statement, &[&project, &wanted]).await? {
            let id: Uuid = row.try_get(0)?;
            let by = asked.remove(&id).unwrap_or_default();
            match row.try_get::<_, Option<Uuid>>(1)? {
                Some(into) => further.entry(into).or_default().extend(by),
                None => {
                    let person = Recipient {
                        id,
                        external_id: row.try_get(2)?,
                        anonymous_id: row.try_get(3)?,
                        email: row.try_get(4)?,
                        name: row.try_get(5)?,
                        properties: row.try_get(6)?,
                        created_at: row.try_get(7)?,
                    };
                    found.extend(by.into_iter().map(|asked| (asked, person.clone())));
                }
            }
        }
        asked = further;
    }
    Ok(found)
}
