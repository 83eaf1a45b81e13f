//! Creates what a shop's users would set up first: templates and three automations, new for each run and paused after
//! it, so that runs do not mix.

use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::api::{Api, Key};
use super::generator::expected::{INBOX, MessageText, PUSH, REMINDER, WELCOME};

pub const REMINDER_DELAY: Duration = Duration::from_secs(5);

/// How long a change of automations may take to reach every worker. Workers poll twice a second, and clients cannot
/// observe whether they have.
const PROPAGATION_DELAY: Duration = Duration::from_secs(2);

fn name_of(what: &str, run: &str) -> String {
    format!("Demo {what} {run}")
}

/// Returns an error if no mail could ever be sent.
pub async fn check_email(api: &Api) -> anyhow::Result<()> {
    let channels = api.get(&["channels"], &[]).await.context("reading the channels")?;
    ensure!(
        channels["email"]["configured"] == Value::Bool(true),
        "the email channel of this project is not configured: run `rekindle up`, or configure it with PUT /channels"
    );
    Ok(())
}

/// Creates and activates the run's templates and automations, and deactivates those of earlier runs. Returns after the
/// workers have loaded them.
pub async fn prepare(api: &Api, run: &str) -> anyhow::Result<()> {
    deactivate(api, |name| !name.ends_with(&format!(" {run}"))).await?;
    let welcome = template(api, &name_of("welcome", run), "EMAIL", &WELCOME).await?;
    let inbox = template(api, &name_of("inbox", run), "IN_APP", &INBOX).await?;
    let push = template(api, &name_of("push", run), "PUSH", &PUSH).await?;
    let reminder = template(api, &name_of("reminder", run), "EMAIL", &REMINDER).await?;
    let welcome_steps = json!([
        { "type": "SEND_EMAIL", "templateId": welcome },
        { "type": "SEND_IN_APP", "templateId": inbox },
    ]);
    let push_steps = json!([{ "type": "SEND_PUSH", "templateId": push }]);
    let reminder_steps = json!([
        { "type": "WAIT", "delay": REMINDER_DELAY.as_secs() },
        { "type": "SEND_EMAIL", "templateId": reminder },
    ]);
    automation(api, &name_of("welcome", run), "signed_up", "once", welcome_steps).await?;
    automation(api, &name_of("push", run), "push_enabled", "once", push_steps).await?;
    automation(api, &name_of("reminder", run), "checkout_started", "always", reminder_steps).await?;
    tokio::time::sleep(PROPAGATION_DELAY).await;
    Ok(())
}

/// Deactivates the run's automations.
pub async fn finish(api: &Api, run: &str) -> anyhow::Result<()> {
    deactivate(api, |name| name.ends_with(&format!(" {run}"))).await
}

async fn deactivate(api: &Api, which: impl Fn(&str) -> bool) -> anyhow::Result<()> {
    for automation in api.list("automations").await? {
        let (Some(id), Some(name)) = (automation["id"].as_str(), automation["name"].as_str()) else { continue };
        let active = automation["active"] == Value::Bool(true);
        if active && name.starts_with("Demo ") && which(name) {
            api.put(&["automations", id], &json!({ "active": false })).await?;
        }
    }
    Ok(())
}

async fn template(api: &Api, name: &str, channel: &str, text: &MessageText) -> anyhow::Result<String> {
    if let Some(existing) = by_name(api, "templates", name).await? {
        return id_of(&existing);
    }
    let body =
        json!({ "name": name, "channel": channel, "subject": text.subject, "body": text.body, "tags": ["demo"] });
    create(api, "templates", name, &body).await
}

async fn automation(api: &Api, name: &str, event: &str, reentry: &str, steps: Value) -> anyhow::Result<()> {
    if let Some(existing) = by_name(api, "automations", name).await? {
        api.put(&["automations", &id_of(&existing)?], &json!({ "active": true })).await?;
        return Ok(());
    }
    let body = json!({ "name": name, "triggerType": "EVENT", "triggerEvent": event, "active": true, "reentry": reentry,
                       "steps": steps });
    create(api, "automations", name, &body).await?;
    Ok(())
}

/// Creates a resource and returns its ID. A lost response may have left two with this name, which is an error.
async fn create(api: &Api, list: &str, name: &str, body: &Value) -> anyhow::Result<String> {
    let id = id_of(&api.post(Key::Secret, &[list], |http| http.json(body)).await?)?;
    let namesakes = api.list(list).await?.into_iter().filter(|item| item["name"] == *name).count();
    ensure!(namesakes <= 1, "a lost response left {namesakes} {list} named {name:?}: use another --run-id");
    Ok(id)
}

async fn by_name(api: &Api, list: &str, name: &str) -> anyhow::Result<Option<Value>> {
    Ok(api.list(list).await?.into_iter().find(|item| item["name"] == *name))
}

fn id_of(resource: &Value) -> anyhow::Result<String> {
    resource["id"].as_str().map(str::to_owned).with_context(|| format!("no ID in {resource}"))
}
