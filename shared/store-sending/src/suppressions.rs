//! The suppression list: addresses to which nothing is sent, and the soft bounces of others.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, Statement};
use uuid::Uuid;

use database::by_project::{self, ByProject};
use database::filter::{Filter, PageQuery, PageStart, Total};
use database::months;
use database::{StoreError, channel};
use domain::message::Channel;
use domain::recipient;
use kernel::ids::ProjectId;

use domain::suppression::{ADDRESS_CHANNELS, Address, Reason, SOFT_BOUNCES};
use store_profiles::users::record::ProjectUserId;

/// An entry of the list.
#[derive(Clone, Debug, PartialEq)]
pub struct Suppression {
    pub id: Uuid,
    pub address: Address,
    pub reason: Reason,
    /// The message that caused it.
    pub message_id: Option<Uuid>,
    pub note: String,
    pub created_at: Timestamp,
}

impl Suppression {
    pub fn new(project: ProjectId, address: Address, reason: Reason, now: Timestamp) -> Self {
        let id = address.id(project, reason);
        Self { id, address, reason, message_id: None, note: String::new(), created_at: now }
    }
}

fn from_row(row: &Row) -> Result<Suppression, StoreError> {
    Ok(Suppression {
        id: row.try_get("id")?,
        address: Address { channel: channel(row.try_get("channel")?)?, text: row.try_get("address")? },
        reason: reason(row.try_get("reason")?)?,
        message_id: row.try_get("message_id")?,
        note: row.try_get("note")?,
        created_at: row.try_get("created_at")?,
    })
}

fn reason(text: &str) -> Result<Reason, StoreError> {
    Reason::parse(text).ok_or_else(|| StoreError::Corrupt(format!("a suppression's reason {text:?}")))
}

/// Returns the channels and texts under which these addresses may be stored, each with its addresses.
fn by_spelling(addresses: &[Address]) -> BTreeMap<(Channel, String), BTreeSet<&Address>> {
    let mut by_spelling: BTreeMap<_, BTreeSet<&Address>> = BTreeMap::new();
    for address in addresses {
        for text in address.spellings() {
            by_spelling.entry((address.channel, text)).or_default().insert(address);
        }
    }
    by_spelling
}

/// Returns the keys of [`by_spelling`] as two columns.
fn columns<'a>(by_spelling: &'a BTreeMap<(Channel, String), BTreeSet<&Address>>) -> (Vec<&'static str>, Vec<&'a str>) {
    by_spelling.keys().map(|(channel, text)| (channel.as_str(), text.as_str())).unzip()
}

/// Returns the reasons for which these addresses are suppressed. Omits addresses that are not on the list.
pub async fn reasons(
    db: &impl GenericClient,
    project: ProjectId,
    addresses: &[Address],
) -> Result<HashMap<Address, Vec<Reason>>, StoreError> {
    let mut found: HashMap<Address, Vec<Reason>> = HashMap::new();
    if addresses.is_empty() {
        return Ok(found);
    }
    let by_spelling = by_spelling(addresses);
    let (channels, texts) = columns(&by_spelling);
    let sql = "SELECT s.channel, s.address, s.reason FROM unnest($2::text[], $3::text[]) AS v (c, a) \
               JOIN suppression s ON s.project_id = $1 AND s.channel = v.c AND s.address = v.a";
    for row in db.query(&db.prepare_cached(sql).await?, &[&project, &channels, &texts]).await? {
        let (key, reason) =
            ((channel(row.try_get("channel")?)?, row.try_get("address")?), reason(row.try_get("reason")?)?);
        for address in by_spelling.get(&key).into_iter().flatten() {
            found.entry((*address).clone()).or_default().push(reason);
        }
    }
    Ok(found)
}

/// Adds addresses to the list. An existing entry with the same reason is unchanged. Returns how many are new.
pub async fn put(db: &impl GenericClient, project: ProjectId, new: &[Suppression]) -> Result<u64, StoreError> {
    if new.is_empty() {
        return Ok(0);
    }
    let mut new: Vec<&Suppression> = new.iter().collect();
    new.sort_by_key(|s| (&s.address, s.reason));
    let column = |of: fn(&Suppression) -> &str| new.iter().map(|s| of(s)).collect::<Vec<_>>();
    let ids: Vec<Uuid> = new.iter().map(|s| s.id).collect();
    let messages: Vec<Option<Uuid>> = new.iter().map(|s| s.message_id).collect();
    let times: Vec<Timestamp> = new.iter().map(|s| s.created_at).collect();
    let sql = "INSERT INTO suppression (project_id, channel, address, reason, id, message_id, note, created_at) \
               SELECT $1, c, a, r, i, m, n, t \
               FROM unnest($2::text[], $3::text[], $4::text[], $5::uuid[], $6::uuid[], $7::text[], $8::timestamptz[]) \
               AS v (c, a, r, i, m, n, t) ON CONFLICT (project_id, channel, address, reason) DO NOTHING";
    let statement = db.prepare_cached(sql).await?;
    let channels = column(|s| s.address.channel.as_str());
    let (texts, reasons) = (column(|s| &s.address.text), column(|s| s.reason.as_str()));
    let notes = column(|s| &s.note);
    Ok(db.execute(&statement, &[&project, &channels, &texts, &reasons, &ids, &messages, &notes, &times]).await?)
}

/// Updates the entries of addresses that unsubscribe again to the later time, so that an earlier resubscription no
/// longer counts, even if it is applied afterwards.
pub async fn renew_unsubscriptions(
    tx: &Transaction<'_>,
    project: ProjectId,
    unsubscribed: &[Suppression],
) -> Result<(), StoreError> {
    let unsubscribed: Vec<&Suppression> = unsubscribed.iter().filter(|s| s.reason == Reason::Unsubscribed).collect();
    if unsubscribed.is_empty() {
        return Ok(());
    }
    let channels: Vec<&str> = unsubscribed.iter().map(|s| s.address.channel.as_str()).collect();
    let texts: Vec<&str> = unsubscribed.iter().map(|s| s.address.text.as_str()).collect();
    let times: Vec<Timestamp> = unsubscribed.iter().map(|s| s.created_at).collect();
    let sql = "WITH v AS (SELECT c, a, max(t) AS t FROM unnest($2::text[], $3::text[], $4::timestamptz[]) AS v (c, a, t) GROUP BY c, a), \
               early AS (SELECT s.channel, s.address, v.t FROM v JOIN suppression s ON s.project_id = $1 AND s.channel = v.c \
               AND s.address = v.a AND s.reason = $5 AND s.created_at < v.t ORDER BY s.channel, s.address FOR UPDATE OF s) \
               UPDATE suppression s SET created_at = e.t FROM early e \
               WHERE s.project_id = $1 AND s.channel = e.channel AND s.address = e.address AND s.reason = $5";
    let reason = Reason::Unsubscribed.as_str();
    tx.execute(&tx.prepare_cached(sql).await?, &[&project, &channels, &texts, &times, &reason]).await?;
    Ok(())
}

/// Moves the entries of merged users to the users they were merged into.
pub async fn reassign(tx: &Transaction<'_>, merges: &[(ProjectUserId, Uuid)]) -> Result<(), StoreError> {
    let channels = Channel::ALL.map(Channel::as_str);
    let sql = ByProject::new(
        "DELETE FROM suppression s USING unnest($1::uuid[], $2::text[]) AS v (p, f) WHERE s.project_id = v.p \
         AND s.channel = ANY($3) AND s.address = v.f RETURNING id, channel, address, reason, message_id, note, \
         created_at, project_id",
        &["v.p"],
    );
    let remove = async |statement: Statement, part: &[(ProjectUserId, Uuid)]| {
        let (projects, from, _) = by_project::merge_columns(part);
        let from: Vec<String> = from.iter().map(Uuid::to_string).collect();
        Ok(tx.query(&statement, &[&projects, &from, &channels.as_slice()]).await?)
    };
    let removed = by_project::each(tx, merges, |merge| merge.0.0, sql, remove).await?;
    let mut moved: BTreeMap<ProjectId, Vec<Suppression>> = BTreeMap::new();
    for row in removed.iter().flatten() {
        let (old, project): (Suppression, ProjectId) = (from_row(row)?, row.try_get("project_id")?);
        let is_old = |((of, user), _): &&(ProjectUserId, Uuid)| *of == project && user.to_string() == old.address.text;
        let Some((_, into)) = merges.iter().find(is_old) else { continue };
        let new = Suppression::new(project, Address::for_user(old.address.channel, *into), old.reason, old.created_at);
        moved.entry(project).or_default().push(Suppression { message_id: old.message_id, note: old.note, ..new });
    }
    for (project, entries) in moved {
        put(tx, project, &entries).await?;
    }
    Ok(())
}

/// Counts a soft bounce of a message to `user`. Returns true if there have been [`SOFT_BOUNCES`] in a row, which count
/// like a hard bounce. Erasing the user removes the count.
pub async fn record_soft_bounce(
    tx: &Transaction<'_>,
    (project, user): ProjectUserId,
    address: &Address,
) -> Result<bool, StoreError> {
    let sql = "INSERT INTO bounce_streak AS s (project_id, channel, address, count, user_id) VALUES ($1, $2, $3, 1, $4) \
               ON CONFLICT (project_id, channel, address) DO UPDATE SET count = s.count + 1, user_id = excluded.user_id \
               RETURNING count";
    let statement = tx.prepare_cached(sql).await?;
    let values: [&(dyn ToSql + Sync); 4] = [&project, &address.channel.as_str(), &address.text, &user];
    let count: i32 = tx.query_one(&statement, &values).await?.try_get("count")?;
    Ok(count >= SOFT_BOUNCES)
}

/// Resets the soft bounces of these addresses, because a message arrived.
pub async fn reset_soft_bounces(
    tx: &Transaction<'_>,
    project: ProjectId,
    addresses: &[Address],
) -> Result<(), StoreError> {
    if addresses.is_empty() {
        return Ok(());
    }
    let by_spelling = by_spelling(addresses);
    let (channels, texts) = columns(&by_spelling);
    let sql = "DELETE FROM bounce_streak s USING unnest($2::text[], $3::text[]) AS v (c, a) \
               WHERE s.project_id = $1 AND s.channel = v.c AND s.address = v.a";
    tx.execute(&tx.prepare_cached(sql).await?, &[&project, &channels, &texts]).await?;
    Ok(())
}

/// The user and address of a message.
#[derive(Clone, Debug, PartialEq)]
pub struct MessageRecipient {
    pub user_id: Uuid,
    pub channel: Channel,
    /// `None` if it was not sent yet.
    pub address: Option<String>,
}

/// Returns the recipients of messages, by message ID.
pub async fn recipients(
    db: &impl GenericClient,
    project: ProjectId,
    messages: &[Uuid],
) -> Result<HashMap<Uuid, MessageRecipient>, StoreError> {
    let mut recipients = HashMap::with_capacity(messages.len());
    for (month, ids) in months::split_existing(db, "message", messages, |id| *id).await? {
        let (first, last) = (ids.iter().min(), ids.iter().max());
        let within = month.condition("m.id");
        let sql = format!(
            "SELECT m.* FROM (SELECT DISTINCT unnest($2::uuid[]) AS id ORDER BY 1) AS w CROSS JOIN LATERAL \
             (SELECT m.id, m.user_id, m.channel, m.address FROM message m WHERE m.project_id = $1 AND m.id = w.id \
             AND {within} AND m.id BETWEEN $3 AND $4 OFFSET 0) AS m"
        );
        let statement = month.prepare(db, &sql).await?;
        for row in db.query(&statement, &[&project, &ids, &first, &last]).await? {
            let (user_id, address) = (row.try_get("user_id")?, row.try_get("address")?);
            recipients.insert(
                row.try_get("id")?,
                MessageRecipient { user_id, channel: channel(row.try_get("channel")?)?, address },
            );
        }
    }
    Ok(recipients)
}

/// Returns a user's current addresses that were unsubscribed by the link in a message. For a message whose row is gone:
/// no other address in a profile is known to be the user's.
pub async fn unsubscribed_by(
    db: &impl GenericClient,
    project: ProjectId,
    message: Uuid,
    user: &recipient::Recipient,
) -> Result<Vec<Address>, StoreError> {
    let current: Vec<Address> = ADDRESS_CHANNELS.into_iter().filter_map(|channel| user.address(channel)).collect();
    let by_spelling = by_spelling(&current);
    let (channels, texts) = columns(&by_spelling);
    let sql = "SELECT s.channel, s.address FROM unnest($2::text[], $3::text[]) AS v (c, a) \
               JOIN suppression s ON s.project_id = $1 AND s.channel = v.c AND s.address = v.a \
               WHERE s.reason = $4 AND s.message_id = $5";
    let reason = Reason::Unsubscribed.as_str();
    let rows = db.query(&db.prepare_cached(sql).await?, &[&project, &channels, &texts, &reason, &message]).await?;
    rows.iter()
        .map(|row| Ok(Address { channel: channel(row.try_get("channel")?)?, text: row.try_get("address")? }))
        .collect()
}

/// Filters the list.
#[derive(Clone, Debug, Default)]
pub struct SuppressionFilter {
    pub channel: Option<Channel>,
    pub reason: Option<Reason>,
    /// The complete spellings of one address.
    pub spellings: Option<Vec<String>>,
}

impl SuppressionFilter {
    fn conditions<'a>(&'a self, project: &'a ProjectId, texts: &'a [&'a str; 2]) -> Filter<'a> {
        let mut filter = Filter::of(project);
        if let Some(spellings) = &self.spellings {
            filter.and("address = ANY(?1)", &[spellings]);
        }
        let given = [self.channel.is_some(), self.reason.is_some()];
        for ((column, text), given) in ["channel", "reason"].into_iter().zip(texts).zip(given) {
            if given {
                filter.and(&format!("{column} = ?1"), &[text]);
            }
        }
        filter
    }

    fn texts(&self) -> [&'static str; 2] {
        [self.channel.map_or("", Channel::as_str), self.reason.map_or("", Reason::as_str)]
    }
}

/// Returns a page of the list, newest first.
pub async fn list(
    db: &impl GenericClient,
    project: ProjectId,
    of: &SuppressionFilter,
    start: &PageStart<(Timestamp, Uuid)>,
    limit: i64,
) -> Result<Vec<Suppression>, StoreError> {
    let texts = of.texts();
    let mut filter = of.conditions(&project, &texts);
    if let PageStart::After((at, id)) = start {
        filter.and("(created_at, id) < (?1, ?2)", &[at, id]);
    }
    let rows = PageQuery {
        columns: "id, channel, address, reason, message_id, note, created_at",
        table: "suppression",
        order: "created_at DESC, id DESC",
    };
    filter.page(db, rows, &start.offset(), &limit).await?.iter().map(from_row).collect()
}

pub async fn total(db: &impl GenericClient, project: ProjectId, of: &SuppressionFilter) -> Result<Total, StoreError> {
    let texts = of.texts();
    of.conditions(&project, &texts).count_capped(db, "suppression").await
}

/// Removes an address from the list, for one reason or for all, and resets its soft bounces. Returns the number of
/// removed entries.
pub async fn remove(
    tx: &Transaction<'_>,
    project: ProjectId,
    address: &Address,
    reason: Option<Reason>,
) -> Result<u64, StoreError> {
    let sql = "DELETE FROM suppression WHERE project_id = $1 AND channel = $2 AND address = ANY($3) \
               AND ($4::text IS NULL OR reason = $4)";
    let reason = reason.map(Reason::as_str);
    let statement = tx.prepare_cached(sql).await?;
    let removed = tx.execute(&statement, &[&project, &address.channel.as_str(), &address.spellings(), &reason]).await?;
    reset_soft_bounces(tx, project, std::slice::from_ref(address)).await?;
    Ok(removed)
}

/// Removes addresses whose owners unsubscribed up to `until` and now resubscribe.
pub async fn resubscribe(
    tx: &Transaction<'_>,
    project: ProjectId,
    addresses: &[Address],
    until: Timestamp,
) -> Result<(), StoreError> {
    let by_spelling = by_spelling(addresses);
    let (channels, texts) = columns(&by_spelling);
    let sql = "DELETE FROM suppression s USING unnest($2::text[], $3::text[]) AS v (c, a) \
               WHERE s.project_id = $1 AND s.channel = v.c AND s.address = v.a AND s.reason = $4 AND s.created_at <= $5";
    let reason = Reason::Unsubscribed.as_str();
    tx.execute(&tx.prepare_cached(sql).await?, &[&project, &channels, &texts, &reason, &until]).await?;
    Ok(())
}

/// Returns the entry with an ID.
pub async fn get(db: &impl GenericClient, project: ProjectId, id: Uuid) -> Result<Option<Suppression>, StoreError> {
    let sql = "SELECT id, channel, address, reason, message_id, note, created_at FROM suppression \
               WHERE project_id = $1 AND id = $2 LIMIT 1";
    db.query_opt(&db.prepare_cached(sql).await?, &[&project, &id]).await?.as_ref().map(from_row).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_by_each_spelling() {
        let (unicode, ascii) = ("ann@bücher.example", "ann@xn--bcher-kva.example");
        let stored = Address { channel: Channel::Email, text: ascii.to_owned() };
        let addresses = [Address::email(unicode), stored, Address::number("+15005550006"), Address::email(unicode)];
        let by_spelling = by_spelling(&addresses);
        let (channels, texts) = columns(&by_spelling);
        assert_eq!(texts.iter().collect::<BTreeSet<_>>(), BTreeSet::from([&unicode, &ascii, &"+15005550006"]));
        assert_eq!(channels.iter().filter(|channel| **channel == "EMAIL").count(), 2);
        for text in [unicode, ascii] {
            let found = &by_spelling[&(Channel::Email, text.to_owned())];
            assert_eq!(*found, BTreeSet::from([&addresses[0], &addresses[1]]));
        }
        assert!(!by_spelling.contains_key(&(Channel::Email, "+15005550006".to_owned())));
    }
}
