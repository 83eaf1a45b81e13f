//! Exports lists of any length as streamed responses, reading and writing one batch at a time.
//!
//! No connection or database snapshot is held between batches, so a client may read as slowly as it likes; the
//! connection's own timeout closes one that reads nothing for a minute. Rows that exist throughout the export are
//! returned exactly once; rows added or removed meanwhile may be missing.

mod encoding;

use std::time::Duration;

use database::{Connection, Store, StoreError};
use serde::Serialize;

use crate::auth::Authorization;
use crate::context::Context;
use crate::http::error::ApiError;
use crate::http::respond::Reply;
use crate::http::stream::{BodyWriter, StreamedBody};
use crate::limits::slots::{NoSlot, Slot};
use encoding::Encoding;

/// Maximum number of concurrent exports per gateway.
pub const MAX_CONCURRENT: usize = 8;
/// Maximum number of concurrent exports per owner, over all of the owner's projects.
pub const MAX_CONCURRENT_PER_OWNER: usize = 2;
/// Rows in the first batch, and maximum rows in any batch.
const FIRST_BATCH_ROWS: i64 = 20;
const MAX_BATCH_ROWS: i64 = 1_000;
/// Target size of a batch in bytes, from which the next row limit is estimated.
const BATCH_BYTES: usize = 256 * 1024;
/// Maximum number of retries while the database is unavailable, and the delay between them.
const MAX_RETRIES: u32 = 60;
const RETRY_DELAY: Duration = Duration::from_millis(500);

/// Result of reading a batch.
pub struct ExportBatch {
    pub rows: usize,
    /// Whether more rows follow.
    pub more: bool,
}

/// A list that can be read in batches from beginning to end.
pub trait ExportSource: Send + 'static {
    /// Reads at most `limit` rows after those already read and appends them to `out` as lines. An error leaves the
    /// position unchanged.
    fn read(
        &mut self,
        db: &mut Connection,
        limit: i64,
        out: &mut Vec<u8>,
    ) -> impl Future<Output = Result<ExportBatch, StoreError>> + Send;
}

/// Appends a row as one line of JSON.
pub fn write_line(row: &impl Serialize, out: &mut Vec<u8>) -> Result<(), StoreError> {
    serde_json::to_writer(&mut *out, row).map_err(|e| StoreError::Corrupt(e.to_string()))?;
    out.push(b'\n');
    Ok(())
}

/// A running export.
struct Export<L> {
    source: L,
    store: Store,
    limit: i64,
    encoding: Encoding,
    authorization: Option<Authorization>,
    _slot: Slot,
}

/// Replies with a list as NDJSON. Reads the first batch before replying, so that a failure can still be returned as an
/// error.
pub async fn reply(cx: &Context<'_>, file_name: &str, source: impl ExportSource) -> Result<Reply, ApiError> {
    let slot = cx.app.exports.take(cx.owner).map_err(|full| match full {
        NoSlot::Owner => ApiError::TooMany("this project and its creator's other projects have reached their limit of running exports; wait until one is complete"),
        NoSlot::Gateway => ApiError::Unavailable("this gateway has reached its limit of concurrent exports"),
    })?;
    let encoding = Encoding::negotiated(cx.headers);
    let gzip = encoding.is_gzip();
    let (store, authorization) = (cx.app.store.clone(), cx.authorization());
    let mut export = Export { source, store, limit: FIRST_BATCH_ROWS, encoding, authorization, _slot: slot };
    let first = export.read(&mut cx.database().await?).await?;
    let (writer, stream) = StreamedBody::new();
    tokio::spawn(async move {
        if let Err(error) = export.write(writer, first).await {
            tracing::warn!(%error, "export aborted");
        }
    });
    let reply = Reply::streamed(stream, "application/x-ndjson")
        .with("vary", "accept-encoding")
        .with("content-disposition", format!("attachment; filename=\"{file_name}\""));
    Ok(if gzip { reply.with("content-encoding", "gzip") } else { reply })
}

impl<L: ExportSource> Export<L> {
    /// Writes all batches.
    ///
    /// Returns `Ok` if the client disconnects. If the caller's key or session is revoked, closes the connection
    /// without a proper end, so that the client does not mistake the export for complete.
    async fn write(mut self, writer: BodyWriter, first: (Vec<u8>, bool)) -> Result<(), StoreError> {
        let (mut lines, mut more) = first;
        loop {
            let piece = self.encoding.encode(lines, !more).await;
            if writer.send(piece).await.is_err() || writer.is_disconnected() {
                return Ok(());
            }
            if !more {
                writer.finish().await;
                return Ok(());
            }
            if let Some(authorization) = &self.authorization
                && !authorization.is_valid().await
            {
                return Ok(());
            }
            (lines, more) = self.read_with_retries().await?;
        }
    }

    /// Reads the next batch, with retries while the database is unavailable.
    async fn read_with_retries(&mut self) -> Result<(Vec<u8>, bool), StoreError> {
        let mut retries = 0;
        loop {
            let read = match self.store.connection().await {
                Ok(mut db) => self.read(&mut db).await,
                Err(error) => Err(error),
            };
            match read {
                Err(error) if error.is_unavailable() && retries < MAX_RETRIES => {
                    retries += 1;
                    tokio::time::sleep(RETRY_DELAY).await;
                }
                read => return read,
            }
        }
    }

    async fn read(&mut self, db: &mut Connection) -> Result<(Vec<u8>, bool), StoreError> {
        let mut lines = Vec::new();
        let read = self.source.read(db, self.limit, &mut lines).await?;
        self.limit = next_limit(self.limit, read.rows, lines.len());
        Ok((lines, read.more))
    }
}

/// Returns the row limit of the next batch, aiming at [`BATCH_BYTES`] bytes. The limit may shrink at once but at most
/// doubles.
fn next_limit(limit: i64, rows: usize, bytes: usize) -> i64 {
    if rows == 0 {
        return limit;
    }
    let fit = (BATCH_BYTES * rows / bytes.max(1)) as i64;
    fit.clamp(1, (limit * 2).min(MAX_BATCH_ROWS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batch_size_adapts_to_row_size() {
        assert_eq!(next_limit(100, 100, 10_000), 200);
        assert_eq!(next_limit(900, 900, 90_000), 1_000);
        assert_eq!(next_limit(1_000, 1_000, 32_000_000), 8);
        assert_eq!(next_limit(8, 8, 8 * 10_000_000), 1);
        assert_eq!(next_limit(100, 0, 0), 100);
    }
}
