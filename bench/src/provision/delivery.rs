//! Prepares delivery: channels, templates, users with addresses and devices, and queued messages.

use std::ops::Range;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bus::wake;
use database::Store;
use database::config::DatabaseConfig;
use domain::message::{Channel, Lane, Queue};
use domain::push_token::{self, Platform};
use jiff::Timestamp;
use kernel::clock::Clock;
use kernel::ids;
use secrets::MasterKeys;
use secrets::vapid::VapidKeys;
use serde_json::{Value, json};
use store_profiles::push_tokens::{self, Device, TokenChange};
use store_projects::channels::{self, ChannelSettings};
use store_projects::vapid_keys;
use store_sending::send_chunks::{self, NewChunk};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::MASTER_KEY;
use crate::copy;
use crate::dice::Dice;
use crate::system::System;
use crate::tenants;

/// Rows or members per statement.
const PER_STATEMENT: usize = 10_000;
/// An Apple device token, in the vendor's format.
pub const DEVICE: &str = "aa00bb11cc22dd33ee44ff5566778899aabbccddeeff00112233445566778899";

/// Builds channel settings from public and secret fields.
pub fn settings(shown: Value, secrets: &[(&str, String)]) -> ChannelSettings {
    ChannelSettings {
        settings: shown.as_object().cloned().unwrap_or_default(),
        secrets: secrets.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
        ..ChannelSettings::default()
    }
}

/// Builds APNs settings with a newly generated key.
pub fn apns() -> Result<ChannelSettings> {
    let key = STANDARD.encode(VapidKeys::generate()?.private);
    let key = format!("-----BEGIN PRIVATE KEY-----\n{key}\n-----END PRIVATE KEY-----\n");
    let shown =
        json!({ "iosPushKeyId": "ABC123DEFG", "iosPushTeamId": "DEF123GHIJ", "iosPushBundleId": "com.example.app" });
    Ok(settings(shown, &[("iosPushPrivateKey", key)]))
}

/// Builds the settings of a mail server without TLS or login.
pub fn smtp(port: u16) -> ChannelSettings {
    let shown = json!({ "emailProvider": "SMTP", "smtpHost": "127.0.0.1", "smtpPort": port, "smtpSecurity": "none",
                        "mailproviderFromEmail": "shop@example.com", "emailFromName": "The Shop" });
    settings(shown, &[])
}

/// Builds the settings of the mail service at `MAIL_BASE_URL`.
pub fn mail_service() -> ChannelSettings {
    let shown = json!({ "emailProvider": "MAILPROVIDER", "mailproviderFromEmail": "shop@example.com" });
    settings(shown, &[("mailproviderApiKey", "bench".to_owned())])
}

/// Builds a browser's push subscription.
pub fn subscription(endpoint: &str) -> Result<String> {
    // Any public key on the curve works: nothing decrypts the message.
    let p256dh = URL_SAFE_NO_PAD.encode(VapidKeys::generate()?.public);
    let keys = json!({ "p256dh": p256dh, "auth": URL_SAFE_NO_PAD.encode([7; 16]) });
    Ok(json!({ "endpoint": endpoint, "keys": keys }).to_string())
}

pub fn store(system: &System) -> Result<Store> {
    Store::new(&DatabaseConfig { url: system.database_url().to_owned(), pool_size: 1 }, "bench")
}

/// Configures one channel of a project.
pub async fn channel(system: &System, project: u32, channel: Channel, settings: &ChannelSettings) -> Result<()> {
    channels(system, project..project + 1, channel, settings).await
}

/// Configures a channel of each of these projects with the same settings.
pub async fn channels(
    system: &System,
    projects: Range<u32>,
    channel: Channel,
    settings: &ChannelSettings,
) -> Result<()> {
    let keys = MasterKeys::parse(MASTER_KEY).context("the benchmark's master key is malformed")?;
    let store = store(system)?;
    let mut db = store.connection().await?;
    let tx = db.transaction().await?;
    for project in projects {
        channels::put(&tx, &keys, tenants::project(project), channel, settings, Clock::system().now()).await?;
    }
    tx.commit().await?;
    Ok(())
}

/// Gives the first users of each of these projects one device each. Its token derives from the user's number.
pub async fn devices(
    system: &System,
    projects: Range<u32>,
    users: u32,
    platform: Platform,
    token: impl Fn(u32) -> Result<String>,
) -> Result<()> {
    let now = Clock::system().now();
    let tokens = (0..users).map(token).collect::<Result<Vec<String>>>()?;
    let store = store(system)?;
    let mut db = store.connection().await?;
    let tx = db.transaction().await?;
    for project in projects.map(tenants::project) {
        let of = |(user, token)| TokenChange {
            project,
            id: push_token::id(project, token),
            device: Some(Device { user_id: tenants::user_id(project, user), platform, token }),
            at: now,
            seq: 0,
        };
        let mut all: Vec<TokenChange<'_>> = (0..).zip(tokens.iter().map(String::as_str)).map(of).collect();
        all.sort_by_key(|said| said.id);
        tx.execute("DELETE FROM push_token WHERE project_id = $1", &[&project]).await?;
        for part in all.chunks(PER_STATEMENT) {
            push_tokens::store(&tx, part).await?;
        }
    }
    tx.commit().await?;
    Ok(())
}

/// Creates a project's VAPID key pair.
pub async fn browsers(system: &System, project: u32) -> Result<()> {
    let keys = MasterKeys::parse(MASTER_KEY).context("the benchmark's master key is malformed")?;
    let db = store(system)?.connection().await?;
    let (project, now) = (tenants::project(project), Clock::system().now());
    vapid_keys::insert(&db, &keys, project, &VapidKeys::generate()?, now).await?;
    Ok(())
}

/// Gives a project's users email addresses.
pub async fn addresses(system: &System, project: u32) -> Result<()> {
    // The properties need them too: the next profile update overwrites the columns from the properties.
    let sql = "UPDATE users SET email = external_id || '@example.com', name = 'Ann Example', \
               properties = properties || jsonb_build_object('email', external_id || '@example.com', 'name', 'Ann Example') \
               WHERE project_id = $1 AND external_id IS NOT NULL";
    system.database.execute(sql, &[&tenants::project(project)]).await?;
    Ok(())
}

/// Creates a template of this channel in each of the first `projects` projects, under one ID, and returns that ID.
pub async fn template(system: &System, projects: u32, channel: Channel, subject: &str, body: &str) -> Result<Uuid> {
    let now = Clock::system().now();
    let id = ids::fresh(now.as_millisecond());
    let all: Vec<Uuid> = (0..projects).map(|number| tenants::project(number).0).collect();
    let sql = "WITH next AS (UPDATE change SET seq = seq + 1 WHERE topic = 'template' RETURNING seq) \
               INSERT INTO template (project_id, id, name, channel, subject, body, created_at, updated_at, changed_seq) \
               SELECT p, $2, 'Bench', $3, $4, $5, $6, $6, seq FROM unnest($1::uuid[]) p, next";
    system.database.execute(sql, &[&all, &id, &channel.as_str(), &subject, &body, &now]).await?;
    Ok(id)
}

/// Messages of one project.
pub struct Messages {
    pub project: u32,
    /// IDs in ascending order.
    pub ids: Vec<Uuid>,
}

const MESSAGE: &str = "project_id uuid, id uuid, user_id uuid, channel text, lane text, status text, template_id uuid, \
                       created_at timestamptz, sent_at timestamptz, updated_at timestamptz";

/// Inserts messages to the first users of these projects into the ledger, evenly across projects. No worker sends them
/// before [`queue`] queues them.
pub async fn messages(
    system: &System,
    projects: Range<u32>,
    users: u32,
    (channel, template): (Channel, Uuid),
    count: u32,
) -> Result<Vec<Messages>> {
    let (now, mut dice, mut all) = (Clock::system().now(), Dice::new(rand::random()), Vec::new());
    let each = count / (projects.end - projects.start).max(1);
    let mut writer = std::pin::pin!(copy::writer(&system.database, "message", MESSAGE).await?);
    for number in projects {
        let project = tenants::project(number);
        let users: Vec<Uuid> = (0..users).map(|user| tenants::user_id(project, user)).collect();
        let mut ids: Vec<Uuid> = (0..each).map(|_| ids::timed(now.as_millisecond(), dice.ten_bytes())).collect();
        ids.sort_unstable();
        let (channel, lane, never) = (channel.as_str(), Lane::Automation.as_str(), None::<Timestamp>);
        for (id, user) in ids.iter().zip(users.iter().cycle()) {
            let row: [&(dyn ToSql + Sync); 10] =
                [&project, id, user, &channel, &lane, &"queued", &template, &now, &never, &now];
            writer.as_mut().write(&row).await?;
        }
        all.push(Messages { project: number, ids });
    }
    writer.finish().await?;
    Ok(all)
}

/// Inserts messages of a project that were sent at the given time.
pub async fn sent(
    system: &System,
    project: u32,
    users: u32,
    (channel, template): (Channel, Uuid),
    (count, at): (u32, Timestamp),
) -> Result<()> {
    let (project, mut dice) = (tenants::project(project), Dice::new(rand::random()));
    let mut writer = std::pin::pin!(copy::writer(&system.database, "message", MESSAGE).await?);
    for nth in 0..count {
        let (id, user) = (ids::timed(at.as_millisecond(), dice.ten_bytes()), tenants::user_id(project, nth % users));
        let (channel, lane) = (channel.as_str(), Lane::Automation.as_str());
        let row: [&(dyn ToSql + Sync); 10] = [&project, &id, &user, &channel, &lane, &"sent", &template, &at, &at, &at];
        writer.as_mut().write(&row).await?;
    }
    writer.finish().await?;
    Ok(())
}

/// Queues messages in chunks of up to `size`, all due immediately, and notifies the workers.
pub async fn queue(system: &System, channel: Channel, messages: &[Messages], size: usize) -> Result<()> {
    let (now, mut queues, mut chunks) = (Clock::system().now(), Vec::new(), Vec::new());
    for Messages { project, ids } in messages {
        let queue = Queue { project: tenants::project(*project), channel, lane: Lane::Automation };
        chunks.extend(ids.chunks(size).map(|part| NewChunk::due(queue, part.to_vec(), now)));
        queues.push(queue);
    }
    let mut db = store(system)?.connection().await?;
    let tx = db.transaction().await?;
    for part in chunks.chunks((PER_STATEMENT / size).max(1)) {
        send_chunks::insert(&tx, part, now).await?;
    }
    tx.commit().await?;
    wake::wake(&system.bus, &queues).await;
    Ok(())
}
