//! Validates push tokens in request bodies.

use domain::push_token::{Platform, Subscription};
use serde_json::{Map, Value};

use crate::auth::identity::token;
use crate::http::error::ApiError;
use crate::http::fields::{Fields, Text};

const ID: Text = Text::line(200);
const USER_TOKEN: Text = Text::line(token::MAX_BYTES);
/// Long enough for browser subscriptions, the longest tokens.
const TOKEN: Text = Text::line(4_096);
const PLATFORMS: &[(&str, Platform)] =
    &[("IOS", Platform::Ios), ("ANDROID", Platform::Android), ("WEB", Platform::Web)];

/// A token registration. At least one of the two IDs is set.
#[derive(Debug, PartialEq)]
pub struct TokenInput {
    pub user_id: Option<String>,
    /// Proof that the caller may act for the user.
    pub user_hash: Option<String>,
    /// The same proof as a JWT.
    pub user_token: Option<String>,
    pub anonymous_id: Option<String>,
    pub platform: Platform,
    /// In its stored form.
    pub token: String,
}

pub fn registration(body: &Map<String, Value>) -> Result<TokenInput, ApiError> {
    let mut fields = Fields::of(body);
    let user_id = either(&mut fields, ["user_id", "userId"], &ID);
    let user_hash = either(&mut fields, ["user_hash", "userHash"], &ID);
    let user_token = either(&mut fields, ["user_token", "userToken"], &USER_TOKEN);
    let anonymous_id = either(&mut fields, ["anonymous_id", "anonymousId"], &ID);
    let named = ["user_id", "userId", "anonymous_id", "anonymousId"];
    if !named.into_iter().any(|name| fields.has(name) && !fields.is_null(name)) {
        fields.problem("user_id", "is required, or anonymous_id");
    }
    let platform = fields.required_choice("platform", PLATFORMS);
    let mut token = fields.required_text("token", &TOKEN).to_owned();
    if platform == Some(Platform::Web) && !token.is_empty() {
        match Subscription::parse(&token) {
            Ok(subscription) => token = subscription.to_json(),
            Err(why) => fields.problem("token", why),
        }
    }
    fields.finish()?;
    Ok(TokenInput { user_id, user_hash, user_token, anonymous_id, platform: platform.unwrap_or(Platform::Web), token })
}

/// Reads the token to remove; for the web, a subscription or its endpoint.
pub fn removal(body: &Map<String, Value>) -> Result<String, ApiError> {
    let mut fields = Fields::of(body);
    fields.read_only(&["user_id", "userId", "anonymous_id", "anonymousId", "platform"]);
    fields.read_only(&["user_hash", "userHash", "user_token", "userToken"]);
    let token = fields.required_text("token", &TOKEN).to_owned();
    fields.finish()?;
    Ok(token)
}

/// Reads a field under either of its names. Reports a problem if the values differ.
fn either(fields: &mut Fields<'_>, [one, other]: [&'static str; 2], allowed: &Text) -> Option<String> {
    let (first, second) = (fields.text(one, allowed), fields.text(other, allowed));
    if let (Some(first), Some(second)) = (first, second)
        && first != second
    {
        fields.problem(other, format!("differs from {one}"));
    }
    first.or(second).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(value: Value) -> Vec<String> {
        let error = registration(value.as_object().unwrap()).unwrap_err();
        error.details().iter().map(|p| p.field.clone()).collect()
    }

    #[test]
    fn both_field_name_styles_are_accepted() {
        for (name, value) in [("user_id", "u"), ("userId", "u")] {
            let input = registration(json!({name: value, "platform": "IOS", "token": "ab"}).as_object().unwrap());
            assert_eq!(input.unwrap().user_id.as_deref(), Some("u"));
        }
    }

    #[test]
    fn invalid_fields_are_reported() {
        for (value, fields) in [
            (json!({}), &["user_id", "platform", "token"][..]),
            (json!({"user_id": 5, "platform": "ios", "token": ""}), &["user_id", "platform", "token"]),
            (json!({"user_id": "a", "userId": "b", "platform": "IOS", "token": "t"}), &["userId"]),
            (json!({"user_id": "a", "platform": "IOS", "token": "t\n"}), &["token"]),
            (json!({"user_id": "a", "platform": "ANDROID", "token": "t".repeat(4_097)}), &["token"]),
            (json!({"anonymous_id": "a", "platform": "WEB", "token": "t"}), &["token"]),
            (json!({"anonymous_id": "a", "platform": "IOS", "token": "t", "tokn": "t"}), &["tokn"]),
        ] {
            assert_eq!(refused(value), fields);
        }
        assert!(removal(json!({"token": ""}).as_object().unwrap()).is_err());
        assert_eq!(removal(json!({"token": "t", "user_id": "u"}).as_object().unwrap()).unwrap(), "t");
    }
}
