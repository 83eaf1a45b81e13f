//! SMS client: one call per SMS. The vendor has no idempotency keys.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::Request;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http_client::HttpClient;
use kernel::clock::Clock;

use super::Sms;
use super::config::SmsConfig;
use super::error::outcome;
use crate::{Outcome, http::unanswered};

pub struct Client {
    config: SmsConfig,
    http: HttpClient,
    clock: Clock,
}

impl Client {
    pub fn new(config: SmsConfig, http: HttpClient, clock: Clock) -> Self {
        Self { config, http, clock }
    }

    pub async fn send(&self, sms: &Sms) -> Outcome {
        let SmsConfig { base, account, token, from } = &self.config;
        let form = form_urlencoded::Serializer::new(String::new())
            .append_pair("To", &sms.to)
            .append_pair("From", from)
            .append_pair("Body", &sms.text)
            .finish();
        let request = Request::post(base.join(&format!("/2010-04-01/Accounts/{account}/Messages.json")))
            .header(AUTHORIZATION, format!("Basic {}", STANDARD.encode(format!("{account}:{token}"))))
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(Bytes::from(form));
        let request = match request {
            Ok(request) => request,
            Err(error) => return Outcome::Misconfigured(error.to_string()),
        };
        match self.http.call(request).await {
            Ok(answer) => outcome(&answer, &sms.id.to_string(), self.clock.now()),
            Err(error) => unanswered(error),
        }
    }
}
