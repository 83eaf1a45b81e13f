//! Exports users as NDJSON.

use database::{Connection, StoreError};
use kernel::ids::ProjectId;
use serde_json::json;
use store_profiles::users::export::{self as people, Place, TOP};
use store_profiles::users::list::UserFilter;
use uuid::Uuid;

use super::{ACTIVE, UserView};
use crate::context::Context;
use crate::http::error::ApiError;
use crate::http::respond::Reply;
use crate::resources::export::{self, List, Stretch};
use crate::resources::{audit_log, search};

struct Users {
    project: ProjectId,
    wanted: UserFilter,
    behind: Place,
}

impl List for Users {
    async fn read(&mut self, db: &mut Connection, limit: i64, out: &mut Vec<u8>) -> Result<Stretch, StoreError> {
        let read = people::stretch(db, self.project, &self.wanted, self.behind, limit).await?;
        let (rows, more) = (read.people.len(), read.next.is_some());
        for user in read.people {
            export::line(&UserView::from(user), out)?;
        }
        self.behind = read.next.unwrap_or(self.behind);
        Ok(Stretch { rows, more })
    }
}

/// `GET /users/export`
pub async fn run(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let query = cx.query()?;
    let active = query.choice("filter", &[("active", true), ("inactive", false)])?;
    let since = cx.app.clock.now() - ACTIVE;
    let wanted =
        UserFilter { search: search::text(&query)?, seen_since: active.map(|active| (active, since)), is_many: false };
    let mut db = cx.database().await?;
    let behind = match query.get("after") {
        None => TOP,
        Some(text) => match Uuid::try_parse(text) {
            Ok(id) => people::place_of(&db, cx.project, id).await?.ok_or_else(no_such)?,
            Err(_) => return Err(no_such()),
        },
    };
    let tx = db.transaction().await.map_err(StoreError::from)?;
    audit_log::note_of_project(cx, &tx, "users.exported", json!({})).await?;
    tx.commit().await.map_err(StoreError::from)?;
    drop(db);
    export::answer(cx, "users.ndjson", Users { project: cx.project, wanted, behind }).await
}

fn no_such() -> ApiError {
    ApiError::invalid("after", "must be the `id` of a user of this project, such as that of the last line read")
}
