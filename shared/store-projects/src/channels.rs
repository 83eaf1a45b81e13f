//! Channel settings. Secrets are sealed, all other settings are in plain text.

use std::collections::BTreeMap;

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use serde_json::{Map, Value};
use tokio_postgres::Row;

use crate::sealed::Sealed;
use database::StoreError;
use database::changes::{self, Topic};
use domain::message::Channel;
use kernel::ids::ProjectId;
use rules::sending_rules::FrequencyCap;
use secrets::MasterKeys;

/// A channel's settings, under the field names of the API (`emailProvider`, `smtpHost`, ...).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChannelSettings {
    pub settings: Map<String, Value>,
    /// Decrypted; never shown.
    pub secrets: BTreeMap<String, String>,
    /// The provider's latest error about the configuration.
    pub error: Option<String>,
    pub error_at: Option<Timestamp>,
    /// Changes with every write, so that cached connections can be matched to their configuration.
    pub version: i64,
}

impl ChannelSettings {
    pub fn text(&self, field: &str) -> Option<&str> {
        self.settings.get(field).and_then(Value::as_str)
    }

    pub fn secret(&self, field: &str) -> Option<&str> {
        self.secrets.get(field).map(String::as_str)
    }
}

/// Returns the context that a channel's secrets are sealed for.
fn channel_context(channel: Channel) -> String {
    seal_context(channel.slug())
}

fn seal_context(slug: &str) -> String {
    format!("channel:{slug}")
}

pub(super) const SEALED: Sealed = Sealed { table: "channel", column: "secrets", key: "channel", context: seal_context };

pub(super) async fn insert_empty(tx: &Transaction<'_>, project: ProjectId, now: Timestamp) -> Result<(), StoreError> {
    let seq = changes::next(tx, Topic::Channel).await?;
    let slugs: Vec<&str> = Channel::ALL.iter().map(|c| c.slug()).collect();
    tx.execute(
        "INSERT INTO channel (project_id, channel, updated_at, changed_seq) SELECT $1, c, $3, $4 FROM unnest($2::text[]) c",
        &[&project, &slugs, &now, &seq],
    )
    .await?;
    Ok(())
}

pub async fn get(
    db: &impl GenericClient,
    keys: &MasterKeys,
    project: ProjectId,
    channel: Channel,
) -> Result<Option<ChannelSettings>, StoreError> {
    let sql =
        "SELECT settings, secrets, error, error_at, changed_seq FROM channel WHERE project_id = $1 AND channel = $2";
    let statement = db.prepare_cached(sql).await?;
    let row = db.query_opt(&statement, &[&project, &channel.slug()]).await?;
    row.map(|row| from_row(&row, keys, project, channel)).transpose()
}

/// Returns the frequency cap, which is the same for all channels of a project.
pub async fn frequency_cap(db: &impl GenericClient, project: ProjectId) -> Result<Option<FrequencyCap>, StoreError> {
    let sql = "SELECT settings->'frequencyCap' AS frequency_cap FROM channel WHERE project_id = $1 AND channel = $2";
    let statement = db.prepare_cached(sql).await?;
    let row = db.query_opt(&statement, &[&project, &Channel::Email.slug()]).await?;
    let value: Option<Value> = row.map(|row| row.try_get("frequency_cap")).transpose()?.flatten();
    Ok(value.as_ref().and_then(FrequencyCap::from_value))
}

/// As [`get`], and locks the row until the end of the transaction, for a read-modify-write.
pub async fn get_for_update(
    tx: &Transaction<'_>,
    keys: &MasterKeys,
    project: ProjectId,
    channel: Channel,
) -> Result<Option<ChannelSettings>, StoreError> {
    let sql = "SELECT settings, secrets, error, error_at, changed_seq FROM channel WHERE project_id = $1 AND channel = $2 FOR UPDATE";
    let row = tx.query_opt(sql, &[&project, &channel.slug()]).await?;
    row.map(|row| from_row(&row, keys, project, channel)).transpose()
}

/// Locks the configuration of all channels until the end of the transaction, and returns their versions in the order of
/// [`Channel::ALL`].
///
/// Secrets are not decrypted, so that one unreadable secret does not block the other channels.
pub async fn lock_all(tx: &Transaction<'_>, project: ProjectId) -> Result<Vec<i64>, StoreError> {
    let sql = "SELECT channel, changed_seq FROM channel WHERE project_id = $1 ORDER BY channel FOR UPDATE";
    let mut held: BTreeMap<String, i64> = BTreeMap::new();
    for row in tx.query(sql, &[&project]).await? {
        held.insert(row.try_get("channel")?, row.try_get("changed_seq")?);
    }
    Ok(Channel::ALL.iter().map(|channel| held.get(channel.slug()).copied().unwrap_or_default()).collect())
}

fn from_row(row: &Row, keys: &MasterKeys, project: ProjectId, channel: Channel) -> Result<ChannelSettings, StoreError> {
    let settings: Value = row.try_get("settings")?;
    let sealed: Option<&[u8]> = row.try_get("secrets")?;
    let secrets = match sealed {
        None => BTreeMap::new(),
        Some(sealed) => {
            let corrupt = |e: String| {
                StoreError::Corrupt(format!("secrets of channel {} of project {project}: {e}", channel.slug()))
            };
            let plain = keys.open(project, &channel_context(channel), sealed).map_err(|e| corrupt(e.to_string()))?;
            serde_json::from_slice(&plain).map_err(|e| corrupt(e.to_string()))?
        }
    };
    Ok(ChannelSettings {
        settings: settings.as_object().cloned().unwrap_or_default(),
        secrets,
        error: row.try_get("error")?,
        error_at: row.try_get("error_at")?,
        version: row.try_get("changed_seq")?,
    })
}

/// Writes settings and secrets, clears the error of the former configuration, and returns the new version.
pub async fn put(
    tx: &Transaction<'_>,
    keys: &MasterKeys,
    project: ProjectId,
    channel: Channel,
    new: &ChannelSettings,
    now: Timestamp,
) -> Result<i64, StoreError> {
    let seq = changes::next(tx, Topic::Channel).await?;
    let plain = serde_json::to_vec(&new.secrets).map_err(|e| StoreError::Corrupt(e.to_string()))?;
    let sealed = (!new.secrets.is_empty()).then(|| keys.seal(project, &channel_context(channel), &plain));
    let sql = "INSERT INTO channel (project_id, channel, settings, secrets, updated_at, changed_seq) VALUES ($1, $2, $3, $4, $5, $6) \
               ON CONFLICT (project_id, channel) DO UPDATE SET settings = excluded.settings, secrets = excluded.secrets, \
               error = NULL, error_at = NULL, updated_at = excluded.updated_at, changed_seq = excluded.changed_seq";
    let settings = Value::Object(new.settings.clone());
    tx.execute(sql, &[&project, &channel.slug(), &settings, &sealed, &now, &seq]).await?;
    Ok(seq)
}

/// Stores or clears the provider's error, unless the configuration has changed since `version`.
pub async fn set_error(
    db: &impl GenericClient,
    project: ProjectId,
    channel: Channel,
    version: i64,
    error: Option<&str>,
    now: Timestamp,
) -> Result<(), StoreError> {
    let sql = "UPDATE channel SET error = $4, error_at = CASE WHEN $4::text IS NULL THEN NULL ELSE $5::timestamptz END \
               WHERE project_id = $1 AND channel = $2 AND changed_seq = $3 AND error IS DISTINCT FROM $4";
    db.execute(sql, &[&project, &channel.slug(), &version, &error, &now]).await?;
    Ok(())
}

/// Returns the channels that changed after a sequence.
pub async fn changed_after(db: &impl GenericClient, seq: i64) -> Result<Vec<(ProjectId, Channel)>, StoreError> {
    let rows = db.query("SELECT project_id, channel FROM channel WHERE changed_seq > $1", &[&seq]).await?;
    rows.iter()
        .map(|row| {
            let slug: &str = row.try_get("channel")?;
            let channel = Channel::ALL.into_iter().find(|c| c.slug() == slug);
            Ok((row.try_get("project_id")?, channel.ok_or_else(|| StoreError::Corrupt(format!("channel {slug:?}")))?))
        })
        .collect()
}
