//! Mail service client: one call per mail, with the message ID as the idempotency key.

use bytes::Bytes;
use http::Request;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http_client::HttpClient;
use kernel::clock::Clock;
use serde_json::{Value, json};

use super::config::MailHttpConfig;
use super::error::outcome;
use crate::{Email, Outcome, http::unanswered, one_click};

pub struct Client {
    config: MailHttpConfig,
    http: HttpClient,
    clock: Clock,
}

impl Client {
    /// Returns what identifies the account.
    pub fn account(&self) -> [&str; 3] {
        self.config.account()
    }

    pub fn new(config: MailHttpConfig, http: HttpClient, clock: Clock) -> Self {
        Self { config, http, clock }
    }

    pub async fn send(&self, email: &Email) -> Outcome {
        let mut mail = json!({
            "from": self.config.from.to_string(),
            "to": [email.to.to_string()],
            "subject": email.subject,
            "html": email.html,
            "text": email.text,
        });
        if let Some(url) = &email.unsubscribe {
            mail["headers"] = Value::Object(
                one_click(url).map(|(name, value)| (name.to_owned(), value.into())).into_iter().collect(),
            );
        }
        let id = email.id.to_string();
        let request = Request::post(self.config.base.join("/emails"))
            .header(AUTHORIZATION, format!("Bearer {}", self.config.api_key))
            .header(CONTENT_TYPE, "application/json")
            .header("idempotency-key", &id)
            .body(Bytes::from(mail.to_string()));
        let request = match request {
            Ok(request) => request,
            Err(error) => return Outcome::Misconfigured(error.to_string()),
        };
        match self.http.call(request).await {
            Ok(answer) => outcome(&answer, &id, self.clock.now()),
            Err(error) => unanswered(error),
        }
    }
}
