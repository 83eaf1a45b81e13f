//! Messages of one sending to users who were merged since their messages were stored: a user gets one of them.

use std::collections::{HashMap, HashSet};

use deadpool_postgres::Transaction;
use tokio_postgres::Row;
use uuid::Uuid;

use super::by_id::{self, Lock};
use super::claim::{Claimed, Sending};
use crate::ids::ProjectId;
use crate::store::StoreError;
use crate::store::months;
use crate::store::users::read;

/// Why a campaign's message that was claimed is not sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Other {
    /// The user was sent another message of the same sending, or may have been.
    Sent,
    /// Another transaction holds another message of the same sending to the user. What comes of that one decides.
    Locked,
}

/// The conditions of a message that was sent, or may have been: it is claimed, or the outcome of a call was never learned.
const MAY_BE_SENT: &str = "(m.claimed OR m.ambiguous > m.forgiven OR m.sent_at IS NOT NULL \
     OR m.status NOT IN ('queued', 'failed', 'suppressed', 'cancelled'))";

/// A claimed message, and another of the same sending to the same user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Pair {
    claimed: Uuid,
    other: Uuid,
}

/// Finds the claimed messages that are not to be sent because their user gets another message of the same sending. `user` is
/// whom a message leads to now, as read after it was claimed.
///
/// The messages that this transaction claimed are locked by it. Another message of the user is either locked by a transaction that
/// claims it too, and is left to that one ([`Other::Locked`]), or is locked here until this claim is committed. So of two
/// transactions that claim for the same user, the later one sees the earlier one's claim. Nothing is waited for, because two
/// such transactions would wait for each other.
pub async fn others(
    tx: &Transaction<'_>,
    project: ProjectId,
    claimed: &[Claimed],
    user: impl Fn(&Claimed) -> Option<Uuid>,
) -> Result<HashMap<Uuid, Other>, StoreError> {
    let of_campaigns: Vec<(&Claimed, Sending, Uuid)> =
        claimed.iter().filter_map(|message| Some((message, message.sending?, user(message)?))).collect();
    let mut found = of_one_claim(&of_campaigns);
    let left: Vec<_> = of_campaigns.into_iter().filter(|(message, ..)| !found.contains_key(&message.id)).collect();
    if left.is_empty() {
        return Ok(found);
    }
    let own: HashSet<Uuid> = claimed.iter().map(|message| message.id).collect();
    let mut pairs = pairs(tx, project, &left).await?;
    pairs.retain(|pair| !own.contains(&pair.other));
    let sent = read(tx, project, &pairs, Lock::None).await?;
    found.extend(sent.iter().filter(|(_, may_be_sent)| **may_be_sent).map(|(pair, _)| (pair.claimed, Other::Sent)));
    // What is not sent as far as can be seen may be claimed by a transaction that has not committed.
    let unsent: Vec<Pair> = sent.into_keys().filter(|pair| !found.contains_key(&pair.claimed)).collect();
    let locked = read(tx, project, &unsent, Lock::Skip).await?;
    for pair in unsent {
        match locked.get(&pair) {
            Some(false) => {}
            Some(true) => drop(found.insert(pair.claimed, Other::Sent)),
            None => drop(found.entry(pair.claimed).or_insert(Other::Locked)),
        }
    }
    Ok(found)
}

/// Of several messages that were claimed together for one user, one is sent: one that may have been sent before, or else the
/// user's own.
fn of_one_claim(claimed: &[(&Claimed, Sending, Uuid)]) -> HashMap<Uuid, Other> {
    let rank = |message: &Claimed, user: Uuid| (message.ambiguous == 0, message.user_id != user, message.id);
    let mut first: HashMap<(Sending, Uuid), &Claimed> = HashMap::new();
    for (message, sending, user) in claimed {
        let best = first.entry((*sending, *user)).or_insert(message);
        if rank(message, *user) < rank(best, *user) {
            *best = message;
        }
    }
    let is_first = |(message, sending, user): &&(&Claimed, Sending, Uuid)| first[&(*sending, *user)].id == message.id;
    claimed.iter().filter(|one| !is_first(one)).map(|(message, ..)| (message.id, Other::Sent)).collect()
}

/// The other messages that may exist: one for each further id of the user.
async fn pairs(
    tx: &Transaction<'_>,
    project: ProjectId,
    claimed: &[(&Claimed, Sending, Uuid)],
) -> Result<Vec<Pair>, StoreError> {
    let mut users: Vec<Uuid> = claimed.iter().map(|(.., user)| *user).collect();
    users.sort_unstable();
    users.dedup();
    let (ids, whose) = read::all_ids_of(tx, project, &users).await?;
    if ids.len() == users.len() {
        // No one was merged with anyone.
        return Ok(Vec::new());
    }
    let mut ids_of: HashMap<Uuid, Vec<Uuid>> = HashMap::new();
    ids.into_iter().zip(whose).for_each(|(id, user)| ids_of.entry(user).or_default().push(id));
    let (mut of, mut started_ms, mut hashed) = (Vec::new(), Vec::new(), Vec::new());
    for (message, sending, user) in claimed {
        // By every id of theirs: the row may have been stored for one of them and noted for another since.
        for id in ids_of.get(user).into_iter().flatten() {
            of.push(message.id);
            started_ms.push(sending.started_ms);
            hashed.push(format!("{}{id}", sending.key()));
        }
    }
    let sql = format!(
        "SELECT v.claimed, {id} FROM unnest($1::uuid[], $2::bigint[], $3::text[]) AS v (claimed, ms, hashed)",
        id = by_id::of_sending("v.ms", "md5(v.hashed)")
    );
    let rows = tx.query(&tx.prepare_cached(&sql).await?, &[&of, &started_ms, &hashed]).await?;
    let pair = |row: &Row| Ok(Pair { claimed: row.try_get(0)?, other: row.try_get(1)? });
    let pairs: Vec<Pair> = rows.iter().map(pair).collect::<Result<_, StoreError>>()?;
    Ok(pairs.into_iter().filter(|pair| pair.other != pair.claimed).collect())
}

/// Those of the other messages that exist and, if they are to be locked, that no other transaction holds; and whether they were sent,
/// or may have been.
async fn read(
    tx: &Transaction<'_>,
    project: ProjectId,
    pairs: &[Pair],
    lock: Lock,
) -> Result<HashMap<Pair, bool>, StoreError> {
    let ids: Vec<Uuid> = pairs.iter().map(|pair| pair.other).collect();
    let mut found: HashMap<Uuid, bool> = HashMap::with_capacity(ids.len());
    for (month, ids) in months::split(&ids, |id| *id) {
        let (first, last) = (ids.iter().min(), ids.iter().max());
        let columns = format!("m.id, {MAY_BE_SENT} AS may_be_sent");
        let rows = by_id::look_up(month, &by_id::wanted("$2"), &columns, "m.id BETWEEN $3 AND $4", lock);
        let statement = month.prepare(tx, &format!("SELECT m.id, m.may_be_sent FROM {rows}")).await?;
        for row in tx.query(&statement, &[&project, &ids, &first, &last]).await? {
            found.insert(row.try_get(0)?, row.try_get(1)?);
        }
    }
    Ok(pairs.iter().filter_map(|pair| Some((*pair, *found.get(&pair.other)?))).collect())
}
