//! Sends that count against a frequency cap. Delivery writes a row when it claims a capped message, and removes it if
//! the message is not sent. A project without a cap has no rows.

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use database::StoreError;
use kernel::ids::ProjectId;

/// Maximum number of rows removed by one statement, which contains this number.
pub const SLICE: u64 = 5_000;
/// Distinguishes these advisory locks from others: "rkfreq" in ASCII.
const LOCK_SEED: u64 = 0x726b_6672_6571;

/// A send that is in progress, or has been made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CappedSend {
    pub message: Uuid,
    pub user: Uuid,
    /// [`Address::key`](domain::suppression::Address::key) of its address; none for a channel without addresses.
    pub address: Option<Uuid>,
    pub at: Timestamp,
}

/// Locks recipients (users and address keys) until the end of the transaction, so that one transaction at a time counts
/// and claims for each of them. Locks are taken in one order, so that two transactions cannot deadlock.
pub async fn lock(tx: &Transaction<'_>, project: ProjectId, recipients: &[Uuid]) -> Result<(), StoreError> {
    let key =
        |recipient: &Uuid| xxh3_64_with_seed(&[project.0.into_bytes(), recipient.into_bytes()].concat(), LOCK_SEED);
    let mut keys: Vec<i64> = recipients.iter().map(|recipient| key(recipient).cast_signed()).collect();
    keys.sort_unstable();
    keys.dedup();
    let statement = tx.prepare_cached("SELECT pg_advisory_xact_lock(k) FROM unnest($1::bigint[]) AS v (k)").await?;
    tx.query(&statement, &[&keys]).await?;
    Ok(())
}

/// Returns the sends since a time to any of these users (by internal ID) or address keys, in no order.
pub async fn since(
    db: &impl GenericClient,
    project: ProjectId,
    users: &[Uuid],
    addresses: &[Uuid],
    since: Timestamp,
) -> Result<Vec<CappedSend>, StoreError> {
    // Two index scans: under `OR` a plan may read all that the project has.
    let sql = "SELECT message_id, user_id, address, at FROM capped_send WHERE project_id = $1 AND user_id = ANY($2) AND at >= $4 \
               UNION SELECT message_id, user_id, address, at FROM capped_send WHERE project_id = $1 AND address = ANY($3) AND at >= $4";
    let rows = db.query(&db.prepare_cached(sql).await?, &[&project, &users, &addresses, &since]).await?;
    let send = |row: &tokio_postgres::Row| {
        Ok(CappedSend {
            message: row.try_get("message_id")?,
            user: row.try_get("user_id")?,
            address: row.try_get("address")?,
            at: row.try_get("at")?,
        })
    };
    rows.iter().map(send).collect()
}

/// Records sends, each under the number of its claim. A message that was claimed before has its row replaced.
pub async fn record(tx: &Transaction<'_>, project: ProjectId, sends: &[(CappedSend, i32)]) -> Result<(), StoreError> {
    if sends.is_empty() {
        return Ok(());
    }
    let messages: Vec<Uuid> = sends.iter().map(|(send, _)| send.message).collect();
    let attempts: Vec<i32> = sends.iter().map(|(_, attempt)| *attempt).collect();
    let users: Vec<Uuid> = sends.iter().map(|(send, _)| send.user).collect();
    let addresses: Vec<Option<Uuid>> = sends.iter().map(|(send, _)| send.address).collect();
    let times: Vec<Timestamp> = sends.iter().map(|(send, _)| send.at).collect();
    let sql = "INSERT INTO capped_send AS s (project_id, message_id, attempt, user_id, address, at) SELECT $1, v.* \
               FROM unnest($2::uuid[], $3::int[], $4::uuid[], $5::uuid[], $6::timestamptz[]) AS v (m, n, u, a, t) ORDER BY v.m \
               ON CONFLICT (project_id, message_id) DO UPDATE SET attempt = excluded.attempt, user_id = excluded.user_id, \
               address = excluded.address, at = excluded.at";
    let statement = tx.prepare_cached(sql).await?;
    tx.execute(&statement, &[&project, &messages, &attempts, &users, &addresses, &times]).await?;
    Ok(())
}

/// Removes the rows of messages that are not sent under these claims. The row of a later claim stays.
pub async fn release(db: &impl GenericClient, project: ProjectId, claims: &[(Uuid, i32)]) -> Result<(), StoreError> {
    if claims.is_empty() {
        return Ok(());
    }
    let (messages, attempts): (Vec<Uuid>, Vec<i32>) = claims.iter().copied().unzip();
    let sql = "DELETE FROM capped_send s USING unnest($2::uuid[], $3::int[]) AS v (m, n) \
               WHERE s.project_id = $1 AND s.message_id = v.m AND s.attempt = v.n";
    db.execute(&db.prepare_cached(sql).await?, &[&project, &messages, &attempts]).await?;
    Ok(())
}

/// Removes the rows of messages that were erased.
pub(super) async fn erase(tx: &Transaction<'_>, project: ProjectId, messages: &[Uuid]) -> Result<(), StoreError> {
    if messages.is_empty() {
        return Ok(());
    }
    let sql = "DELETE FROM capped_send WHERE project_id = $1 AND message_id = ANY($2)";
    tx.execute(&tx.prepare_cached(sql).await?, &[&project, &messages]).await?;
    Ok(())
}

/// Removes the rows of erased users. Call it after removing their messages: settling locks a message before its row
/// here.
pub async fn remove_of(tx: &Transaction<'_>, project: ProjectId, users: &[Uuid]) -> Result<(), StoreError> {
    let sql = "DELETE FROM capped_send WHERE project_id = $1 AND user_id = ANY($2)";
    tx.execute(&tx.prepare_cached(sql).await?, &[&project, &users]).await?;
    Ok(())
}

/// Removes up to [`SLICE`] of a project's rows from before a time; returns how many.
pub async fn remove_slice(db: &impl GenericClient, project: ProjectId, before: Timestamp) -> Result<u64, StoreError> {
    // A message's ID is no later than its send, so the key bounds what is read.
    let sql = "DELETE FROM capped_send WHERE project_id = $1 AND message_id = ANY(ARRAY(SELECT message_id \
               FROM capped_send WHERE project_id = $1 AND message_id < $3 AND at < $2 ORDER BY message_id LIMIT 5000))";
    let bound = kernel::ids::lower_bound(before.as_millisecond());
    Ok(db.execute(&db.prepare_cached(sql).await?, &[&project, &before, &bound]).await?)
}
