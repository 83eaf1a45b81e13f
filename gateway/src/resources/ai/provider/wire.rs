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
    message: Answer,
}

#[derive(Deserialize)]
struct Answer {
    content: Option<String>,
}

impl Completion {
    /// Returns the text of the first choice, or `None` if it is missing or blank.
    pub fn text(body: &[u8]) -> Option<String> {
        let completion: Self = serde_json::from_slice(body).ok()?;
        completion.choices.into_iter().next()?.message.content.filter(|text| !text.trim().is_empty())
    }
}

pub struct Failure;

/// Maximum number of characters of a provider's error message to pass on.
const WORDS_MAX: usize = 300;

impl Failure {
    /// Returns the provider's error message: `error.message`, `error`, `message` or `detail` of its JSON, or else the
    /// whole body as text.
    pub fn words(body: &[u8]) -> String {
        let text = String::from_utf8_lossy(body);
        let json: Value = serde_json::from_slice(body).unwrap_or_default();
        let said = [&json["error"]["message"], &json["error"], &json["message"], &json["detail"]];
        let words = said.into_iter().find_map(Value::as_str).unwrap_or(&text);
        let line = words.split_whitespace().collect::<Vec<_>>().join(" ");
        let short: String = line.chars().filter(|c| !c.is_control()).take(WORDS_MAX).collect();
        if short.is_empty() { "no error message".to_owned() } else { short }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_choice_counts() {
        let body =
            br#"{"id":"x","choices":[{"message":{"role":"assistant","content":"a"}},{"message":{"content":"b"}}]}"#;
        assert_eq!(Completion::text(body).as_deref(), Some("a"));
        for none in [&b"no"[..], b"{}", br#"{"choices":[]}"#, br#"{"choices":[{"message":{"content":null}}]}"#] {
            assert_eq!(Completion::text(none), None);
        }
    }

    #[test]
    fn a_providers_words_are_found_wherever_it_puts_them() {
        for (body, words) in [
            (r#"{"error":{"message":"Rate limit\nreached","type":"x"}}"#, "Rate limit reached"),
            (r#"{"error":"model not found"}"#, "model not found"),
            (r#"{"detail":"no"}"#, "no"),
            ("<h1>Bad Gateway</h1>", "<h1>Bad Gateway</h1>"),
            ("", "no error message"),
        ] {
            assert_eq!(Failure::words(body.as_bytes()), words);
        }
        assert_eq!(Failure::words("x".repeat(1_000).as_bytes()).len(), WORDS_MAX);
    }
}
