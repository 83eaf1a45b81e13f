//! An SMS service with Twilio's API. It knows one account with its numbers, and checks every field of the form.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::provider_server::{Received, Reply, Vendor};

/// Accepts SMS from one number of one account.
pub struct SmsService {
    account: String,
    token: String,
    from: String,
    accepted: Mutex<Vec<BTreeMap<String, String>>>,
}

impl SmsService {
    pub fn new(account: &str, token: &str, from: &str) -> Self {
        Self { account: account.to_owned(), token: token.to_owned(), from: from.to_owned(), accepted: Mutex::default() }
    }

    /// Returns the accepted forms.
    pub fn accepted(&self) -> Vec<BTreeMap<String, String>> {
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn is_authorized(&self, request: &Received) -> bool {
        let sent = request.header("authorization").strip_prefix("Basic ").and_then(|text| STANDARD.decode(text).ok());
        sent.is_some_and(|sent| sent == format!("{}:{}", self.account, self.token).as_bytes())
    }

    /// Returns the error code and text for an invalid form.
    fn problem(&self, form: &BTreeMap<String, String>) -> Option<(u32, String)> {
        let (to, from, body) = (form.get("To"), form.get("From"), form.get("Body").map_or("", String::as_str));
        let is_number = |text: &str| {
            text.strip_prefix('+').is_some_and(|digits| {
                (8..=15).contains(&digits.len())
                    && digits.bytes().all(|b| b.is_ascii_digit())
                    && !digits.starts_with('0')
            })
        };
        match (to, from) {
            (None, _) => Some((21604, "A 'To' phone number is required.".to_owned())),
            (_, None) => Some((21603, "A 'From' phone number is required.".to_owned())),
            (Some(to), _) if !is_number(to) => Some((21211, format!("Invalid 'To' Phone Number: {to}"))),
            (_, Some(from)) if *from != self.from => Some((
                21606,
                format!("The 'From' phone number provided ({from}) is not a valid number of this account"),
            )),
            // Recipients who opted out.
            (Some(to), _) if to.ends_with("0000") => {
                Some((21610, "Attempt to send to unsubscribed recipient".to_owned()))
            }
            _ if body.is_empty() => Some((21602, "Message body is required.".to_owned())),
            _ if body.chars().count() > 1_600 => {
                Some((21617, "The concatenated message body exceeds the 1600 character limit".to_owned()))
            }
            _ => None,
        }
    }
}

fn refused(status: u16, code: u32, message: &str) -> Reply {
    let more = format!("https://www.twilio.com/docs/errors/{code}");
    Reply::json(status, &json!({ "code": code, "message": message, "more_info": more, "status": status }))
}

impl Vendor for SmsService {
    fn respond(&self, request: &Received) -> Reply {
        if !self.is_authorized(request) {
            return refused(401, 20003, "Authenticate");
        }
        let path = format!("/2010-04-01/Accounts/{}/Messages.json", self.account);
        if (request.method.as_str(), request.path.as_str()) != ("POST", &path) {
            return refused(404, 20404, "The requested resource was not found");
        }
        if request.header("content-type") != "application/x-www-form-urlencoded" {
            return refused(415, 20415, "Unsupported media type");
        }
        let form: BTreeMap<String, String> = form_urlencoded::parse(&request.body).into_owned().collect();
        if let Some((code, words)) = self.problem(&form) {
            return refused(400, code, &words);
        }
        let mut accepted = self.accepted.lock().unwrap_or_else(PoisonError::into_inner);
        let sid = format!("SM{:032x}", accepted.len() + 1);
        let answer = json!({
            "sid": sid, "account_sid": self.account, "to": form["To"], "from": form["From"], "body": form["Body"],
            "status": "queued", "direction": "outbound-api", "error_code": null, "error_message": null,
        });
        accepted.push(form);
        Reply::json(201, &answer)
    }
}
