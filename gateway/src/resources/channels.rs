//! Channel configuration. Secrets are write-only.

mod advice;
mod input;
mod plain_login;
mod test_message;

use std::collections::{BTreeMap, BTreeSet};

use database::StoreError;
use database::changes::Topic;
use domain::message::Channel;
use serde_json::{Map, Value, json};
use store_projects::channels::{self, ChannelSettings};

use crate::context::Context;
use crate::http::body;
use crate::http::error::ApiError;
use crate::http::etag::{EntityTag, Precondition};
use crate::http::respond::{Reply, ok};
use crate::resources::{audit_log, change_hint};
use plain_login::PlainLogin;

pub use test_message::{test, unusable_address};

/// `GET /channels`
pub async fn get(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let db = cx.database().await?;
    let mut shown = Map::new();
    let mut versions = Vec::new();
    for channel in Channel::ALL {
        let settings = channels::get(&db, &cx.app.master_keys, cx.project, channel).await?.unwrap_or_default();
        versions.push(settings.version);
        let (name, mut view) = match channel {
            Channel::Email => ("email", email_view(&settings)),
            Channel::Push => ("push", push_view(&settings, cx.app.config.shared_push_app)),
            Channel::Sms => ("sms", sms_view(&settings)),
            Channel::InApp => ("inApp", json!({ "configured": true })),
        };
        if let (Some(error), Some(view)) = (settings.error, view.as_object_mut()) {
            view.insert("error".to_owned(), error.into());
        }
        shown.insert(name.to_owned(), view);
        // These settings are identical in every channel.
        for rule in ["quietHours", "frequencyCap"] {
            shown.insert(rule.to_owned(), settings.settings.get(rule).cloned().unwrap_or_default());
        }
        let known_users_only = settings.settings.get("knownUsersOnly").and_then(Value::as_bool).unwrap_or(false);
        shown.insert("knownUsersOnly".to_owned(), known_users_only.into());
    }
    Ok(ok(&shown)?.with_etag(&tag(&versions)?))
}

/// Returns the entity tag for the versions of [`Channel::ALL`], in that order. Secrets are not shown, but changing
/// them increments the version too.
fn tag(versions: &[i64]) -> Result<EntityTag, ApiError> {
    EntityTag::of(&versions)
}

/// Whether the settings suffice to send email.
fn email_is_configured(of: &ChannelSettings) -> bool {
    let complete = match of.text("emailProvider") {
        // A user name needs a password, which may have been cleared or never set.
        Some("SMTP") => {
            of.text("smtpHost").is_some() && (of.text("smtpUsername").is_none() || of.secret("smtpPassword").is_some())
        }
        Some("MAILPROVIDER") => of.secret("mailproviderApiKey").is_some(),
        _ => false,
    };
    complete && of.text("mailproviderFromEmail").is_some()
}

fn email_view(of: &ChannelSettings) -> Value {
    json!({
        "provider": of.text("emailProvider"),
        "fallback": of.text("emailFallback"),
        "configured": email_is_configured(of),
        "fromEmail": of.text("mailproviderFromEmail"),
        "fromName": of.text("emailFromName"),
        "mailproviderApiKeySet": of.secret("mailproviderApiKey").is_some(),
        "smtpHost": of.text("smtpHost"),
        "smtpPort": of.settings.get("smtpPort"),
        "smtpUsername": of.text("smtpUsername"),
        "smtpPasswordSet": of.secret("smtpPassword").is_some(),
        "smtpSecurity": of.text("smtpSecurity"),
        "smtpRateLimit": of.settings.get("smtpRateLimit"),
        "mailproviderRateLimit": of.settings.get("mailproviderRateLimit"),
    })
}

/// Whether the settings suffice to send push messages. Includes the operator's app that all projects share.
pub(in crate::resources) fn push_is_configured(of: &ChannelSettings, shared_app: bool) -> bool {
    let ios = of.text("iosPushKeyId").is_some()
        && of.text("iosPushTeamId").is_some()
        && of.text("iosPushBundleId").is_some()
        && of.secret("iosPushPrivateKey").is_some();
    let provider = of.text("pushProviderAppId").is_some() && of.secret("pushProviderRestKey").is_some();
    ios || provider || uses_shared_app(of, shared_app) || of.secret("pushGatewayServerKey").is_some()
}

/// Whether push uses the shared app. An incomplete app of the project's own is an error, and does not fall back to it.
fn uses_shared_app(of: &ChannelSettings, shared_app: bool) -> bool {
    shared_app && of.text("pushProviderAppId").is_none() && of.secret("pushProviderRestKey").is_none()
}

fn push_view(of: &ChannelSettings, shared_app: bool) -> Value {
    json!({
        "configured": push_is_configured(of, shared_app),
        "sharedApp": uses_shared_app(of, shared_app),
        "iosPushKeyId": of.text("iosPushKeyId"),
        "iosPushTeamId": of.text("iosPushTeamId"),
        "iosPushBundleId": of.text("iosPushBundleId"),
        "iosPushPrivateKeySet": of.secret("iosPushPrivateKey").is_some(),
        "iosPushEnvironment": of.text("iosPushEnvironment"),
        "pushGatewayServerKeySet": of.secret("pushGatewayServerKey").is_some(),
        "pushProviderAppId": of.text("pushProviderAppId"),
        "pushProviderRestKeySet": of.secret("pushProviderRestKey").is_some(),
        "iosPushRateLimit": of.settings.get("iosPushRateLimit"),
        "pushGatewayRateLimit": of.settings.get("pushGatewayRateLimit"),
        "pushProviderRateLimit": of.settings.get("pushProviderRateLimit"),
    })
}

fn sms_view(of: &ChannelSettings) -> Value {
    let (account, from) = (of.text("smsAccountId"), of.text("smsFromNumber"));
    json!({
        "configured": account.is_some() && from.is_some() && of.secret("smsAuthToken").is_some(),
        "accountId": account,
        "authTokenSet": of.secret("smsAuthToken").is_some(),
        "fromNumber": from,
        "rateLimit": of.settings.get("smsRateLimit"),
    })
}

/// `PUT /channels`
pub async fn update(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let precondition = Precondition::of(cx.headers)?;
    let body = cx.read_json(body::MAX_BYTES).await?;
    let changes = input::changes(&body, &cx.app.config.outbound)?;
    let vetted = if PlainLogin::is_affected_by(&changes) { Some(vetted(cx, &changes).await?) } else { None };
    let mut by_channel: BTreeMap<Channel, Vec<input::Change>> = BTreeMap::new();
    for change in changes {
        by_channel.entry(change.channel).or_default().push(change);
    }
    let named: Vec<&str> = by_channel.keys().map(|channel| channel.as_str()).collect();
    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    let mut versions = channels::lock_all(&tx, cx.project).await?;
    precondition.check("configuration of the channels", || tag(&versions))?;
    // A setting shared by all channels changes in each of them, but is recorded once.
    let (mut changed_fields, mut cleared) = (BTreeSet::new(), BTreeSet::new());
    for (channel, version) in Channel::ALL.into_iter().zip(&mut versions) {
        let Some(changes) = by_channel.remove(&channel) else { continue };
        let mut settings = channels::get(&tx, &cx.app.master_keys, cx.project, channel).await?.unwrap_or_default();
        let applied = input::apply(&mut settings, changes);
        changed_fields.extend(applied.changed);
        cleared.extend(applied.cleared);
        if channel == Channel::Email
            && let Some(vetted) = &vetted
            && PlainLogin::of(&settings).is_some_and(|login| vetted.as_ref() != Some(&login))
        {
            return Err(ApiError::Conflict(
                "the mail server settings were changed concurrently; send the request again".to_owned(),
            ));
        }
        let now = cx.app.clock.now();
        *version = channels::put(&tx, &cx.app.master_keys, cx.project, channel, &settings, now).await?;
    }
    let details = json!({ "channels": named, "fields": changed_fields, "clearedSecrets": cleared });
    audit_log::record_for_project(cx, &tx, "channels.updated", details).await?;
    tx.commit().await.map_err(StoreError::from)?;
    change_hint::announce(&cx.app.bus, Topic::Channel).await;
    let mut response = json!({ "updated": true });
    if !cleared.is_empty() {
        response["clearedSecrets"] = json!(cleared);
    }
    Ok(ok(&response)?.with_etag(&tag(&versions)?))
}

/// Returns the server that the changed settings would send a password to without TLS, after checking that it is
/// exempt. Runs outside the transaction, because DNS resolution may take seconds.
async fn vetted(cx: &Context<'_>, changes: &[input::Change]) -> Result<Option<PlainLogin>, ApiError> {
    let current = {
        let db = cx.database().await?;
        channels::get(&db, &cx.app.master_keys, cx.project, Channel::Email).await?
    };
    let mut settings = current.unwrap_or_default();
    input::apply(&mut settings, changes.iter().filter(|c| c.channel == Channel::Email).cloned().collect());
    let login = PlainLogin::of(&settings);
    if let Some(login) = &login {
        login.vet(&cx.app.config.outbound).await?;
    }
    Ok(login)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(shown: Value, secrets: &[&str]) -> ChannelSettings {
        ChannelSettings {
            settings: shown.as_object().cloned().unwrap(),
            secrets: secrets.iter().map(|name| ((*name).to_owned(), "hunter2".to_owned())).collect(),
            ..ChannelSettings::default()
        }
    }

    #[test]
    fn channel_is_configured_if_it_can_send() {
        let smtp = json!({"emailProvider": "SMTP", "smtpHost": "h", "mailproviderFromEmail": "a@b.c"});
        let mut with_user = smtp.clone();
        with_user["smtpUsername"] = json!("u");
        for (shown, secrets, configured) in [
            (json!({}), &[][..], false),
            (smtp.clone(), &[], true),
            (json!({"emailProvider": "SMTP", "smtpHost": "h"}), &[], false),
            (with_user.clone(), &[], false),
            (with_user, &["smtpPassword"], true),
            (json!({"emailProvider": "MAILPROVIDER", "mailproviderFromEmail": "a@b.c"}), &[], false),
            (json!({"emailProvider": "MAILPROVIDER", "mailproviderFromEmail": "a@b.c"}), &["mailproviderApiKey"], true),
        ] {
            assert_eq!(email_view(&settings(shown.clone(), secrets))["configured"], configured, "{shown}");
        }
        assert_eq!(push_view(&settings(json!({}), &["pushGatewayServerKey"]), false)["configured"], true);
        let shared = push_view(&settings(json!({}), &[]), true);
        assert_eq!((&shared["configured"], &shared["sharedApp"]), (&json!(true), &json!(true)));
        let own = settings(json!({"pushProviderAppId": "a"}), &["pushProviderRestKey"]);
        assert_eq!(push_view(&own, true)["sharedApp"], false);
        let half = push_view(&settings(json!({"pushProviderAppId": "a"}), &[]), true);
        assert_eq!((&half["configured"], &half["sharedApp"]), (&json!(false), &json!(false)));
        assert_eq!(
            push_view(&settings(json!({"iosPushKeyId": "k"}), &["iosPushPrivateKey"]), false)["configured"],
            false
        );
        let sms = json!({"smsAccountId": "a", "smsFromNumber": "+1"});
        assert_eq!(sms_view(&settings(sms.clone(), &["smsAuthToken"]))["configured"], true);
        assert_eq!(sms_view(&settings(sms, &[]))["configured"], false);
    }

    #[test]
    fn secrets_are_not_returned() {
        let all = ["smtpPassword", "mailproviderApiKey", "pushGatewayServerKey", "iosPushPrivateKey", "smsAuthToken"];
        let of = settings(json!({}), &all);
        for view in [email_view(&of), push_view(&of, false), sms_view(&of)] {
            assert!(!view.to_string().contains("hunter2"));
        }
    }
}
