//! Takes members of due chunks, to be sent.

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::{Bits, Share};
use database::StoreError;
use database::jumps::DueBy;
use database::months::Month;
use domain::campaign::CampaignStatus;
use domain::message::Queue;
use kernel::ids::ProjectId;

/// Chunks read per query. A few are enough if they are full; many are needed if they hold single messages.
const READ_SIZES: [i64; 3] = [2, 16, 110];

/// Parameters of [`take`].
#[derive(Clone, Copy, Debug)]
pub struct TakeRequest<'a> {
    pub queue: Queue,
    /// Maximum members.
    pub max: usize,
    /// Skips chunks due before this time. They are assumed deleted; a long transaction keeps their index entries alive.
    pub from: Option<Timestamp>,
    /// Takes over begun chunks whose lease has ended, except these. `None`: takes over none.
    pub take_over: Option<&'a [Uuid]>,
}

/// Members that were taken, all of one month, and of one campaign's occurrence or of no campaign.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TakenMembers {
    /// Messages of chunks that were not begun.
    pub messages: Vec<Uuid>,
    /// Messages of begun chunks: their last call was never settled.
    pub in_doubt: Vec<Uuid>,
    pub audience: Vec<Recipients>,
    /// The campaign and the occurrence.
    pub campaign: Option<(Uuid, i32)>,
    /// `None` without a campaign, or if the campaign has begun another occurrence since.
    pub sending: Option<SendingRow>,
    /// When the first chunk that was read was due.
    pub first_due: Option<Timestamp>,
    /// Whether the queue may have more due members.
    pub has_more: bool,
}

/// Users of a campaign's audience who are sent the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Recipients {
    pub share: Share,
    pub users: Vec<Uuid>,
    /// When the users were found to belong to the audience.
    pub found_at: Timestamp,
}

/// The campaign's occurrence that members belong to.
#[derive(Clone, Debug, PartialEq)]
pub struct SendingRow {
    pub campaign: Uuid,
    pub occurrence: i32,
    pub started_at: Timestamp,
    pub name: String,
    pub template_id: Option<Uuid>,
    pub subscription_group_id: Option<Uuid>,
}

impl TakenMembers {
    fn count(&self) -> usize {
        self.messages.len() + self.in_doubt.len() + self.audience.iter().map(|part| part.users.len()).sum::<usize>()
    }
}

/// A due chunk, locked.
struct Chunk {
    id: Uuid,
    members: Vec<Uuid>,
    done: Bits,
    is_audience: bool,
    is_begun: bool,
    campaign: Option<(Uuid, i32)>,
    share: Share,
    due_at: Timestamp,
    created_at: Timestamp,
    /// Whether its campaign is being sent. `None`: no campaign.
    may_be_sent: Option<bool>,
    sending: Option<SendingRow>,
}

/// Campaign and month. All members of a batch have the same.
type BatchKey = (Option<(Uuid, i32)>, Option<Month>);

impl Chunk {
    fn batch_key(&self) -> BatchKey {
        let month = match &self.sending {
            Some(sending) if self.is_audience => Some(Month::at(sending.started_at.as_millisecond())),
            _ => self.members.first().map(|id| Month::of(*id)),
        };
        (self.campaign, month)
    }
}

/// Removes up to `max` members from a queue's due chunks, in the order of their due times. The caller inserts the
/// members that it sends as a begun chunk in the same transaction. Parks chunks of campaigns that are not being sent.
/// Skips chunks that another transaction has locked, and chunks of deleted projects.
pub async fn take(
    tx: &Transaction<'_>,
    want: TakeRequest<'_>,
    due: impl Into<DueBy>,
) -> Result<TakenMembers, StoreError> {
    let (due, mut taken, mut changes) = (due.into(), TakenMembers::default(), Changes::default());
    let (mut seen, mut first): (Vec<Uuid>, Option<BatchKey>) = (want.take_over.unwrap_or_default().to_vec(), None);
    'read: for size in READ_SIZES {
        let chunks = read(tx, want, &seen, size, due).await?;
        let is_all = (chunks.len() as i64) < size;
        for chunk in chunks {
            seen.push(chunk.id);
            taken.first_due = taken.first_due.or(Some(chunk.due_at));
            if chunk.may_be_sent == Some(false) {
                changes.park(&chunk);
                continue;
            }
            if taken.count() >= want.max || *first.get_or_insert(chunk.batch_key()) != chunk.batch_key() {
                taken.has_more = true;
                break 'read;
            }
            let left = want.max - taken.count();
            let is_whole = changes.take(&chunk, left, &mut taken);
            if !is_whole {
                taken.has_more = true;
                break 'read;
            }
        }
        if is_all {
            break;
        }
        taken.has_more = taken.count() >= want.max || size == READ_SIZES[READ_SIZES.len() - 1];
        if taken.has_more {
            break;
        }
    }
    changes.write(tx, want.queue.project).await?;
    Ok(taken)
}

/// Runs a query for the chunks that [`take`] reads; the conditions of [`count`] and [`read`] are the same.
///
/// A lease must have ended by this process's clock and by the database's, because either may be ahead.
async fn query(
    db: &impl GenericClient,
    sql: &str,
    TakeRequest { queue, from, take_over, .. }: TakeRequest<'_>,
    seen: &[Uuid],
    limit: i64,
    due: DueBy,
) -> Result<Vec<Row>, StoreError> {
    let Queue { project, channel, lane } = queue;
    let (channel, lane, takes_over) = (channel.as_str(), lane.as_str(), take_over.is_some());
    let statement = db.prepare_cached(sql).await?;
    let params: &[&(dyn ToSql + Sync)] =
        &[&project, &channel, &lane, &due.now, &from, &takes_over, &due.held, &seen, &limit];
    Ok(db.query(&statement, params).await?)
}

/// Returns an upper bound, at most `max`, of the members that [`take`] would find.
pub async fn count(db: &impl GenericClient, want: TakeRequest<'_>, due: DueBy) -> Result<usize, StoreError> {
    let sql = "SELECT least(coalesce(sum(size), 0), $9)::bigint AS members FROM (SELECT size FROM send_chunk c \
               WHERE c.project_id = $1 AND c.channel = $2 AND c.lane = $3 AND c.due_at <= $4 \
               AND c.due_at >= coalesce($5::timestamptz, '-infinity') AND CASE WHEN c.is_begun THEN $6 \
               AND c.due_at <= statement_timestamp() ELSE c.due_at <= $7 OR c.due_at <= c.created_at END \
               AND c.id <> ALL($8) AND NOT EXISTS (SELECT FROM project_removal WHERE project_id = $1) ORDER BY due_at \
               LIMIT $9) AS due";
    let max = i64::try_from(want.max).unwrap_or(i64::MAX);
    let rows = query(db, sql, want, want.take_over.unwrap_or_default(), max, due).await?;
    let count: i64 = rows.first().map_or(Ok(0), |row| row.try_get("members"))?;
    Ok(usize::try_from(count).unwrap_or(0))
}

async fn read(
    tx: &Transaction<'_>,
    want: TakeRequest<'_>,
    seen: &[Uuid],
    size: i64,
    due: DueBy,
) -> Result<Vec<Chunk>, StoreError> {
    let sql = "SELECT c.id, c.members, c.done::text AS done, c.is_audience, c.is_begun, c.campaign_id, c.occurrence, \
               c.variant, c.template_id, c.due_at, k.status, \
               CASE WHEN k.occurrence = c.occurrence THEN k.started_at END AS started_at, k.name, \
               k.template_id AS campaign_template_id, k.subscription_group_id, c.created_at FROM send_chunk c \
               LEFT JOIN campaign k ON k.project_id = $1 AND k.id = c.campaign_id WHERE c.project_id = $1 \
               AND c.channel = $2 AND c.lane = $3 AND c.due_at <= $4 \
               AND c.due_at >= coalesce($5::timestamptz, '-infinity') AND CASE WHEN c.is_begun THEN $6 \
               AND c.due_at <= statement_timestamp() ELSE c.due_at <= $7 OR c.due_at <= c.created_at END \
               AND c.id <> ALL($8) AND NOT EXISTS (SELECT FROM project_removal WHERE project_id = $1) \
               ORDER BY c.due_at LIMIT $9 FOR UPDATE OF c SKIP LOCKED";
    query(tx, sql, want, seen, size, due).await?.iter().map(from_row).collect()
}

fn from_row(row: &Row) -> Result<Chunk, StoreError> {
    let campaign = row.try_get::<_, Option<Uuid>>("campaign_id")?.zip(row.try_get::<_, Option<i32>>("occurrence")?);
    let status: Option<&str> = row.try_get("status")?;
    let may_be_sent = campaign.map(|_| status.and_then(CampaignStatus::parse).is_some_and(CampaignStatus::delivers));
    let sending = match (campaign, row.try_get::<_, Option<Timestamp>>("started_at")?) {
        (Some((campaign, occurrence)), Some(started_at)) => Some(SendingRow {
            campaign,
            occurrence,
            started_at,
            name: row.try_get("name")?,
            template_id: row.try_get("campaign_template_id")?,
            subscription_group_id: row.try_get("subscription_group_id")?,
        }),
        _ => None,
    };
    Ok(Chunk {
        id: row.try_get("id")?,
        members: row.try_get("members")?,
        done: Bits::parse(row.try_get("done")?),
        is_audience: row.try_get("is_audience")?,
        is_begun: row.try_get("is_begun")?,
        campaign,
        share: Share { variant: row.try_get("variant")?, template_id: row.try_get("template_id")? },
        due_at: row.try_get("due_at")?,
        created_at: row.try_get("created_at")?,
        may_be_sent,
        sending,
    })
}

/// Changes to the chunks that were read.
#[derive(Default)]
struct Changes {
    deleted: Vec<Uuid>,
    parked: Vec<Uuid>,
    shrunk: Vec<(Uuid, String, i32)>,
}

impl Changes {
    /// A begun chunk stays begun, so that its members count as ambiguous when they are taken.
    fn park(&mut self, chunk: &Chunk) {
        self.parked.push(chunk.id);
    }

    /// Takes up to `max` members; returns whether none is left.
    fn take(&mut self, chunk: &Chunk, max: usize, taken: &mut TakenMembers) -> bool {
        let pending: Vec<usize> = chunk.done.unset().collect();
        let now: Vec<usize> = pending.iter().copied().take(max).collect();
        let members: Vec<Uuid> = now.iter().filter_map(|at| chunk.members.get(*at)).copied().collect();
        taken.campaign = chunk.campaign;
        taken.sending = taken.sending.take().or_else(|| chunk.sending.clone());
        if chunk.is_audience {
            let (share, found_at) = (chunk.share.clone(), chunk.created_at);
            taken.audience.push(Recipients { share, users: members, found_at });
        } else if chunk.is_begun {
            taken.in_doubt.extend(members);
        } else {
            taken.messages.extend(members);
        }
        if now.len() == pending.len() {
            self.deleted.push(chunk.id);
            return true;
        }
        let mut done = chunk.done.clone();
        now.iter().for_each(|at| done.set(*at));
        self.shrunk.push((chunk.id, done.text(), i32::try_from(pending.len() - now.len()).unwrap_or(0)));
        false
    }

    async fn write(self, tx: &Transaction<'_>, project: ProjectId) -> Result<(), StoreError> {
        if !self.deleted.is_empty() {
            let sql = "DELETE FROM send_chunk WHERE project_id = $1 AND id = ANY($2)";
            tx.execute(&tx.prepare_cached(sql).await?, &[&project, &self.deleted]).await?;
        }
        if !self.parked.is_empty() {
            let sql = "UPDATE send_chunk SET due_at = NULL WHERE project_id = $1 AND id = ANY($2)";
            tx.execute(&tx.prepare_cached(sql).await?, &[&project, &self.parked]).await?;
        }
        for (id, done, size) in &self.shrunk {
            let sql = "UPDATE send_chunk SET done = $3::text::varbit, size = $4 WHERE project_id = $1 AND id = $2";
            tx.execute(&tx.prepare_cached(sql).await?, &[&project, id, done, size]).await?;
        }
        Ok(())
    }
}
