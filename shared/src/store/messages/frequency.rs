//! How many messages people have had lately that they had not asked for.

use std::collections::HashMap;

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::ids::{self, ProjectId};
use crate::store::StoreError;

/// Sets these of Postgres's advisory locks apart from others: "rkfreq" in ASCII.
const LOCKS: u64 = 0x726b_6672_6571;
/// How long a message may have waited before it was sent, to be counted: every further day is one more of the table's
/// partitions to look into.
const WAITED_MS: i64 = 14 * 86_400_000;

/// Lets one transaction at a time count for each of these people and claim by it, until its end. In an order of its own,
/// so that two never wait for each other in a circle.
pub async fn lock(tx: &Transaction<'_>, project: ProjectId, people: &[Uuid]) -> Result<(), StoreError> {
    let key = |person: &Uuid| xxh3_64_with_seed(&[project.0.into_bytes(), person.into_bytes()].concat(), LOCKS);
    let mut keys: Vec<i64> = people.iter().map(|person| key(person).cast_signed()).collect();
    keys.sort_unstable();
    keys.dedup();
    let statement = tx.prepare_cached("SELECT pg_advisory_xact_lock(k) FROM unnest($1::bigint[]) AS v (k)").await?;
    tx.query(&statement, &[&keys]).await?;
    Ok(())
}

/// How many messages that they had not asked for went to these internal ids since a time, by id. What others are just
/// sending counts, too: who knows whether it arrives. `own` are the caller's.
pub async fn had_since(
    db: &impl GenericClient,
    project: ProjectId,
    ids: &[Uuid],
    since: Timestamp,
    own: &[Uuid],
    now: Timestamp,
) -> Result<HashMap<Uuid, i64>, StoreError> {
    let first = ids::lower_bound(since.as_millisecond() - WAITED_MS);
    // The first line of conditions is that of the index.
    let sql = "SELECT user_id, count(*) FROM message WHERE lane <> 'direct' AND (claimed OR sent_at IS NOT NULL) \
               AND project_id = $1 AND user_id = ANY($2) AND id >= $3 \
               AND (sent_at >= $4 OR claimed AND due_at > $5 AND id <> ALL($6)) GROUP BY user_id";
    let statement = db.prepare_cached(sql).await?;
    let rows = db.query(&statement, &[&project, &ids, &first, &since, &now, &own]).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}
