//! Setup that most tests share: a shop with a welcome and a reminder.

use std::time::Duration;

use e2e::{Api, System, mails};
use kernel::clock::Clock;
use kernel::ids;
use serde_json::json;
use testkit::{Mail, eventually};

/// Templates and automations: a welcome at `signed_up`, a reminder some seconds after `checkout_started`.
pub struct Shop<'a> {
    system: &'a System,
}

impl<'a> Shop<'a> {
    pub async fn open(system: &'a System, wait_seconds: u32) -> Shop<'a> {
        Self::open_for(system, &system.api, wait_seconds).await
    }

    /// Like `open`, for another project of the system.
    pub async fn open_for(system: &'a System, api: &Api, wait_seconds: u32) -> Shop<'a> {
        let welcome = template(api, "Welcome {{ name }}", "<h1>Hello {{ name }}</h1>").await;
        let reminder = template(api, "Cart {{ properties.cartId }}", "<p>It waits for you, {{ name }}.</p>").await;
        let send = |template: &str| json!({ "type": "SEND_EMAIL", "templateId": template });
        automation(api, "signed_up", &json!([send(&welcome)])).await;
        let steps = json!([{ "type": "WAIT", "delay": wait_seconds }, send(&reminder)]);
        automation(api, "checkout_started", &steps).await;
        Self { system }
    }

    /// Waits until an address has at least `count` mails, and returns all of them.
    pub async fn mails(&self, address: &str, count: usize, within: Duration) -> Vec<Mail> {
        let probe = async || {
            let mails = mails::to(&self.system.mailbox, address);
            if mails.len() >= count { Ok(mails) } else { Err(format!("{} of {count} to {address}", mails.len())) }
        };
        eventually(within, probe).await
    }
}

async fn template(api: &Api, subject: &str, body: &str) -> String {
    let template = json!({ "name": subject, "channel": "EMAIL", "subject": subject, "body": body });
    api.create("/templates", &template).await
}

async fn automation(api: &Api, event: &str, steps: &serde_json::Value) {
    let automation = json!({ "name": format!("At {event}"), "triggerType": "EVENT", "triggerEvent": event,
                             "active": true, "reentry": "always", "steps": steps });
    api.create("/automations", &automation).await;
}

/// Returns a new event ID.
pub fn event_id() -> String {
    ids::fresh(Clock::system().now_ms()).to_string()
}

/// Returns the number in an environment variable, or `None` if it is unset or blank. Panics on other text.
pub fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok().filter(|text| !text.trim().is_empty())?;
    Some(text.trim().parse().unwrap_or_else(|_| panic!("{variable}={text}: not a number")))
}
