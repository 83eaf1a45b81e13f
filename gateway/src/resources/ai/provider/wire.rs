//! The part of OpenAI's chat completions API that every compatible server implements.

use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Serialize)]
pub struct Request<'a> {
    model: &'a str,
    messages: [Message<'a>; 2],
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: &'a str,
}

impl<'a> Request<'a> {
    pub fn new(model: &'a str, system: &'a str, user: &'a str) -> Self {
        let messages = [Message { role: "system", content: system }, Message { role: "user", content: user }];
        Self { model, messages }
    }
}

#[derive(Deserialize)]
pub struct Completion {
    choices: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
    message: ChoiceMessage,
}

#[derive(Deserialize)]
struct ChoiceMessage {
    content: Option<String>,
}

impl Completion {
    /// Returns the text of the first choice, or `None` if it is missing or blank.
    pub fn text(body: &[u8]) -> Option<String> {
        let completion: Self = serde_json::from_slice(body).ok()?;
        completion.choices.into_iter().next()?.message.content.filter(|text| !text.trim().is_empty())
    }
}

pub struct ProviderError;

/// Maximum number of characters of a provider's error message to pass on.
const MESSAGE_MAX: usize = 300;

impl ProviderError {
    /// Returns the provider's error message: `error.message`, `error`, `message` or `detail` of its JSON, or else the
    /// whole body as text.
    pub fn message(body: &[u8]) -> String {
        let text = String::from_utf8_lossy(body);
        let json: Value = serde_json::from_slice(body).unwrap_or_default();
        let fields = [&json["error"]["message"], &json["error"], &json["message"], &json["detail"]];
        let message = fields.into_iter().find_map(Value::as_str).unwrap_or(&text);
        let line = message.split_whitespace().collect::<Vec<_>>().join(" ");
        let short: String = line.chars().filter(|c| !c.is_control()).take(MESSAGE_MAX).collect();
        if short.is_empty() { "no error message".to_owned() } else { short }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_choice_is_returned() {
        let body =
            br#"{"id":"x","choices":[{"message":{"role":"assistant","content":"a"}},{"message":{"content":"b"}}]}"#;
        assert_eq!(Completion::text(body).as_deref(), Some("a"));
        for none in [&b"no"[..], b"{}", br#"{"choices":[]}"#, br#"{"choices":[{"message":{"content":null}}]}"#] {
            assert_eq!(Completion::text(none), None);
        }
    }

    #[test]
    fn provider_error_message_is_extracted_from_known_fields() {
        for (body, message) in [
            (r#"{"error":{"message":"Rate limit\nreached","type":"x"}}"#, "Rate limit reached"),
            (r#"{"error":"model not found"}"#, "model not found"),
            (r#"{"detail":"no"}"#, "no"),
            ("<h1>Bad Gateway</h1>", "<h1>Bad Gateway</h1>"),
            ("", "no error message"),
        ] {
            assert_eq!(ProviderError::message(body.as_bytes()), message);
        }
        assert_eq!(ProviderError::message("x".repeat(1_000).as_bytes()).len(), MESSAGE_MAX);
    }
}
