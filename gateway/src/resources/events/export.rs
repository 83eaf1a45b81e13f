//! Exports events as NDJSON.

use database::{Connection, StoreError};
use kernel::ids::ProjectId;
use serde_json::json;
use store_profiles::events::export as events;
use store_profiles::events::list::EventFilter;
use store_profiles::events::read;
use store_profiles::users::read as users;
use store_sending::erasures;
use uuid::Uuid;

use super::EventView;
use crate::context::Context;
use crate::http::error::ApiError;
use crate::http::respond::Reply;
use crate::resources::export::{self, ExportBatch, ExportSource};
use crate::resources::{audit_log, search};

struct Events {
    project: ProjectId,
    filter: EventFilter,
    after: Uuid,
}

impl ExportSource for Events {
    async fn read(&mut self, db: &mut Connection, limit: i64, out: &mut Vec<u8>) -> Result<ExportBatch, StoreError> {
        let read = events::page(db, self.project, &self.filter, self.after, limit).await?;
        let mut ids: Vec<Uuid> = read.events.iter().map(|event| event.user_id).collect();
        ids.sort_unstable();
        ids.dedup();
        let erased = erasures::under_way(&*db, self.project, &ids).await?;
        let users = users::summaries(&*db, self.project, &ids).await?;
        let (rows, more) = (read.events.len(), read.next.is_some());
        for event in read.events.into_iter().filter(|event| !super::is_erased(event, &erased)) {
            export::write_line(&EventView::new(event, &users), out)?;
        }
        self.after = read.next.unwrap_or(self.after);
        Ok(ExportBatch { rows, more })
    }
}

/// `GET /events/export`
pub async fn run(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let query = cx.query()?;
    let search = search::text(&query)?;
    let mut db = cx.database().await?;
    let filter = super::filter(cx, &db, &query, search).await?;
    let after = match query.get("after") {
        None => Uuid::max(),
        Some(text) => read::find(&db, cx.project, text).await?.map(|event| event.id).ok_or_else(|| {
            ApiError::invalid(
                "after",
                "must be the `id` of an event of this project, such as that of the last line read",
            )
        })?,
    };
    let tx = db.transaction().await.map_err(StoreError::from)?;
    audit_log::record_for_project(cx, &tx, "events.exported", json!({})).await?;
    tx.commit().await.map_err(StoreError::from)?;
    drop(db);
    export::reply(cx, "events.ndjson", Events { project: cx.project, filter, after }).await
}
