//! Exports users as NDJSON.

use database::{Connection, StoreError};
use kernel::ids::ProjectId;
use serde_json::json;
use store_profiles::users::export::{self as users, FIRST_POSITION, ListPosition};
use store_profiles::users::list::UserFilter;
use uuid::Uuid;

use super::{ACTIVE, UserView};
use crate::context::Context;
use crate::http::error::ApiError;
use crate::http::respond::Reply;
use crate::resources::export::{self, ExportBatch, ExportSource};
use crate::resources::{audit_log, search};

struct Users {
    project: ProjectId,
    filter: UserFilter,
    after: ListPosition,
}

impl ExportSource for Users {
    async fn read(&mut self, db: &mut Connection, limit: i64, out: &mut Vec<u8>) -> Result<ExportBatch, StoreError> {
        let read = users::page(db, self.project, &self.filter, self.after, limit).await?;
        let (rows, more) = (read.users.len(), read.next.is_some());
        for user in read.users {
            export::write_line(&UserView::from(user), out)?;
        }
        self.after = read.next.unwrap_or(self.after);
        Ok(ExportBatch { rows, more })
    }
}

/// `GET /users/export`
pub async fn run(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let query = cx.query()?;
    let active = query.choice("filter", &[("active", true), ("inactive", false)])?;
    let since = cx.app.clock.now() - ACTIVE;
    let filter =
        UserFilter { search: search::text(&query)?, seen_since: active.map(|active| (active, since)), is_many: false };
    let mut db = cx.database().await?;
    let after = match query.get("after") {
        None => FIRST_POSITION,
        Some(text) => match Uuid::try_parse(text) {
            Ok(id) => users::position_of(&db, cx.project, id).await?.ok_or_else(invalid_after)?,
            Err(_) => return Err(invalid_after()),
        },
    };
    let tx = db.transaction().await.map_err(StoreError::from)?;
    audit_log::record_for_project(cx, &tx, "users.exported", json!({})).await?;
    tx.commit().await.map_err(StoreError::from)?;
    drop(db);
    export::reply(cx, "users.ndjson", Users { project: cx.project, filter, after }).await
}

fn invalid_after() -> ApiError {
    ApiError::invalid("after", "must be the `id` of a user of this project, such as that of the last line read")
}
