//! Removes users while others are recorded.
//!
//! Workers cache which users exist, and a transaction that uses the cache reads no row of its users. An erasure must
//! therefore reach these transactions by other means, and it must stop no other user's recording:
//!
//! 1. Every transaction that relies on the existence of users calls [`generation`] first, and holds a
//!    shared advisory lock from then on. No transaction ever takes that lock exclusively.
//! 2. The erasure is announced in a transaction of its own ([`announce`]): its rows in `erasure`
//!    are pending, and the generation advances. Then it waits until the transactions that had begun
//!    before have ended ([`wait_for_recorders`]). Later ones see a new generation, read what changed
//!    ([`changed_since`]), and drop the announced users from their caches.
//! 3. A transaction that names a user with a pending erasure shares a lock on that user with others like it, and the
//!    erasure locks the user exclusively ([`lock`]): one of them waits for the other. This also covers users without a
//!    row.
//! 4. [`finish`] ends the erasure in its transaction and advances the generation once more.

use std::collections::BTreeMap;
use std::time::Duration;

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use tokio_postgres::{Row, Statement};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::record::ProjectUserId;
use database::StoreError;
use database::by_project::{self, ByProject};
use kernel::ids::ProjectId;

/// Key of the advisory lock that transactions share: "rkpeopl" in ASCII.
const RECORDING_LOCK: i64 = 0x72_6b70_656f_706c;
/// First key of the advisory locks on users: "rker" in ASCII. The second is one of [`BUCKETS`], so that a batch of
/// erasures does not fill the server's lock table.
const USER_LOCKS: i32 = 0x726b_6572;
const BUCKETS: u64 = 256;
/// Interval between two checks whether a transaction has ended.
const POLL: Duration = Duration::from_millis(5);

/// Version of the set of existing users, as workers cache it. It changes when an erasure is announced or finished, and
/// when the server is replaced or restarted, because it may then be a copy that lacks the last commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generation {
    pub seq: i64,
    pub server_started: Timestamp,
}

/// Returns the current generation. An erasure that is announced later waits for the end of the transaction.
pub async fn generation(tx: &Transaction<'_>) -> Result<Generation, StoreError> {
    let (lock, sql) = (
        "SELECT pg_advisory_xact_lock_shared($1)",
        "SELECT seq, pg_postmaster_start_time() AS server_started FROM change WHERE topic = 'person'",
    );
    let (lock, statement) = (tx.prepare_cached(lock).await?, tx.prepare_cached(sql).await?);
    // Two statements: an erasure is either announced after the lock was taken, and waits, or is seen by the second.
    tx.execute(&lock, &[&RECORDING_LOCK]).await?;
    let row = tx.query_one(&statement, &[]).await?;
    Ok(Generation { seq: row.try_get("seq")?, server_started: row.try_get("server_started")? })
}

/// Waits until the transactions that have called [`generation`] so far have ended. It keeps no new one from starting.
pub async fn wait_for_recorders(db: &impl GenericClient) -> Result<(), StoreError> {
    let held = "SELECT virtualtransaction FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted \
                AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
                AND (classid::bigint << 32) | objid::bigint = $1 AND pid <> pg_backend_pid()";
    let rows = db.query(&db.prepare_cached(held).await?, &[&RECORDING_LOCK]).await?;
    let mut left: Vec<String> = rows.iter().map(|row| row.try_get("virtualtransaction")).collect::<Result<_, _>>()?;
    let ended = "SELECT virtualtransaction FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted \
                 AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
                 AND (classid::bigint << 32) | objid::bigint = $1 AND pid <> pg_backend_pid() \
                 AND virtualtransaction = ANY($2)";
    while !left.is_empty() {
        tokio::time::sleep(POLL).await;
        let rows = db.query(&db.prepare_cached(ended).await?, &[&RECORDING_LOCK, &left]).await?;
        left = rows.iter().map(|row| row.try_get("virtualtransaction")).collect::<Result<_, _>>()?;
    }
    Ok(())
}

/// Announces that these users are to be erased, and waits for the end of the transactions that called [`generation`]
/// before. `users` must be sorted.
pub async fn announce(db: &mut impl GenericClient, users: &[ProjectUserId]) -> Result<(), StoreError> {
    let tx = db.transaction().await?;
    // Another erasure of the same users holds their rows, and is going to lock the generation's.
    lock(&tx, users, &[]).await?;
    let seq = next_generation(&tx).await?;
    let (projects, ids): (Vec<ProjectId>, Vec<_>) = users.iter().copied().unzip();
    // Nothing has been erased yet: `record` sets the times.
    let sql = "INSERT INTO erasure (project_id, user_id, erased_at, applied_at, has_left, seq, is_pending) \
               SELECT p, i, 'epoch', 'epoch', false, $3, true FROM unnest($1::uuid[], $2::uuid[]) AS v (p, i) \
               ON CONFLICT (project_id, user_id) DO UPDATE SET seq = excluded.seq, is_pending = true";
    tx.execute(&tx.prepare_cached(sql).await?, &[&projects, &ids, &seq]).await?;
    tx.commit().await?;
    wait_for_recorders(db).await
}

/// Locks users until the end of the transaction: those to be erased exclusively, those only `named` in shared mode.
///
/// Call it before locking rows. All locks are taken in one order, so that transactions cannot deadlock.
pub async fn lock(tx: &Transaction<'_>, erased: &[ProjectUserId], named: &[ProjectUserId]) -> Result<(), StoreError> {
    if erased.is_empty() && named.is_empty() {
        return Ok(());
    }
    let mut buckets: BTreeMap<i32, bool> = named.iter().map(|user| (bucket(user), false)).collect();
    buckets.extend(erased.iter().map(|user| (bucket(user), true)));
    let (buckets, exclusive): (Vec<i32>, Vec<bool>) = buckets.into_iter().unzip();
    let sql = "SELECT CASE WHEN x THEN pg_advisory_xact_lock($1, b)::text ELSE pg_advisory_xact_lock_shared($1, b)::text END \
               FROM unnest($2::int[], $3::bool[]) AS v (b, x)";
    tx.query(&tx.prepare_cached(sql).await?, &[&USER_LOCKS, &buckets, &exclusive]).await?;
    Ok(())
}

fn bucket((project, user): &ProjectUserId) -> i32 {
    let hash = xxh3_64_with_seed(&[project.0.into_bytes(), user.into_bytes()].concat(), 0);
    i32::try_from(hash % BUCKETS).unwrap_or_default()
}

/// Returns those of these users whose erasure is pending.
pub async fn pending(db: &impl GenericClient, users: &[ProjectUserId]) -> Result<Vec<ProjectUserId>, StoreError> {
    let sql = ByProject::new(
        "SELECT e.project_id, e.user_id FROM unnest($1::uuid[], $2::uuid[]) AS v(p, i) JOIN erasure e \
         ON e.project_id = v.p AND e.user_id = v.i AND e.is_pending",
        &["v.p"],
    );
    let read = async |statement: Statement, part: &[ProjectUserId]| {
        let (projects, ids): (Vec<ProjectId>, Vec<_>) = part.iter().copied().unzip();
        Ok(db.query(&statement, &[&projects, &ids]).await?)
    };
    let rows = by_project::each(db, users, |user| user.0, sql, read).await?;
    rows.iter().flatten().map(|row| Ok((row.try_get("project_id")?, row.try_get("user_id")?))).collect()
}

/// Whether a user is being erased or was, as of a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removal {
    pub user: ProjectUserId,
    pub seq: i64,
    pub is_pending: bool,
}

/// Returns the erasures that were announced or finished after a generation; without one, those that are pending.
pub async fn changed_since(db: &impl GenericClient, seq: Option<i64>) -> Result<Vec<Removal>, StoreError> {
    let sql = "SELECT project_id, user_id, seq, is_pending FROM erasure WHERE seq > $1 AND (is_pending OR $2)";
    let statement = db.prepare_cached(sql).await?;
    let rows = db.query(&statement, &[&seq.unwrap_or(0), &seq.is_some()]).await?;
    let removal = |row: &Row| {
        let user = (row.try_get("project_id")?, row.try_get("user_id")?);
        Ok(Removal { user, seq: row.try_get("seq")?, is_pending: row.try_get("is_pending")? })
    };
    rows.iter().map(removal).collect()
}

/// Records that these users have been erased. Call it right before the commit: the next announcement waits for it.
pub async fn finish(tx: &Transaction<'_>, users: &[ProjectUserId]) -> Result<(), StoreError> {
    let seq = next_generation(tx).await?;
    let sql = ByProject::new(
        "UPDATE erasure e SET seq = $3, is_pending = false FROM unnest($1::uuid[], $2::uuid[]) AS v(p, i) \
         WHERE e.project_id = v.p AND e.user_id = v.i",
        &["v.p"],
    );
    let write = async |statement: Statement, part: &[ProjectUserId]| {
        let (projects, ids): (Vec<ProjectId>, Vec<_>) = part.iter().copied().unzip();
        Ok(tx.execute(&statement, &[&projects, &ids, &seq]).await?)
    };
    by_project::each(tx, users, |user| user.0, sql, write).await?;
    Ok(())
}

async fn next_generation(tx: &Transaction<'_>) -> Result<i64, StoreError> {
    // At least the current time, so that a restored database never reuses a number that a worker has seen.
    let sql = "UPDATE change SET seq = greatest(seq + 1, (extract(epoch FROM statement_timestamp()) * 1000)::bigint) \
               WHERE topic = 'person' RETURNING seq";
    Ok(tx.query_one(sql, &[]).await?.try_get("seq")?)
}
