//! Validates requests for test messages of a campaign.

use domain::message::Channel;
use serde_json::{Map, Value};
use store_sending::campaigns::Campaign;

use crate::http::error::ApiError;
use crate::http::fields::{Element, Fields, Text};
use crate::resources::channels::unusable_address;

const USER: Text = Text::line(200);
const ADDRESS: Text = Text::line(320);
const VARIANT: Text = Text::line(100);
/// Maximum number of users, and of addresses, per request.
const TARGETS_MAX: usize = 10;

/// Recipients of a test, and the variant to send.
#[derive(Debug, Default, PartialEq)]
pub(super) struct TestRequest {
    pub user_ids: Vec<String>,
    pub to: Vec<String>,
    /// The user for whom messages to addresses are rendered.
    pub as_user: Option<String>,
    pub variant: Option<String>,
}

/// Reads `{ userIds?, to?, asUserId?, variant? }`.
pub(super) fn test_request(body: &Map<String, Value>, campaign: &Campaign) -> Result<TestRequest, ApiError> {
    let mut fields = Fields::of(body);
    let has_address = matches!(campaign.channel, Channel::Email | Channel::Sms);
    let user_ids = fields.array("userIds", 0..=TARGETS_MAX);
    let addresses = fields.array("to", 0..=TARGETS_MAX);
    let texts = |elements: &[Element<'_>], allowed: &Text| {
        elements.iter().filter_map(|element| element.text(allowed).map(str::to_owned)).collect::<Vec<_>>()
    };
    let request = TestRequest {
        user_ids: texts(user_ids.as_deref().unwrap_or_default(), &USER),
        to: texts(addresses.as_deref().unwrap_or_default(), &ADDRESS).iter().map(|to| to.trim().to_owned()).collect(),
        as_user: fields.text("asUserId", &USER).map(str::to_owned),
        variant: fields.text("variant", &VARIANT).map(str::to_owned),
    };
    for element in addresses.iter().flatten() {
        let to = element.value().as_str().filter(|to| ADDRESS.allows(to));
        let problem = to.and_then(|to| unusable_address(campaign.channel, to.trim()));
        if let Some(problem) = problem {
            element.problem(problem);
        }
    }
    // Invalid values that were sent have already been reported.
    let is_given = |value: &Value| !value.is_null() && value.as_array().is_none_or(|items| !items.is_empty());
    if !["userIds", "to"].iter().any(|name| body.get(*name).is_some_and(is_given)) {
        let or = if has_address { ", or `to`" } else { "" };
        fields.problem("userIds", format!("is required{or}: the recipients of the test"));
    }
    let variants = &campaign.settings.variants;
    if request.variant.as_ref().is_some_and(|name| variants.iter().all(|variant| variant.name != *name)) {
        fields.problem("variant", "no such variant of this campaign");
    }
    fields.finish()?;
    Ok(request)
}

#[cfg(test)]
mod tests {
    use domain::campaign::{CampaignStatus, Settings, Variant};
    use jiff::Timestamp;
    use serde_json::json;
    use uuid::Uuid;

    use super::*;

    fn campaign(channel: Channel) -> Campaign {
        let variant = |name: &str| Variant { name: name.to_owned(), template_id: Uuid::nil(), weight: 50.0 };
        Campaign {
            id: Uuid::from_u128(1),
            name: "Sale".to_owned(),
            channel,
            segment_id: Uuid::nil(),
            exclude_segment_ids: Vec::new(),
            template_id: None,
            settings: Settings { variants: vec![variant("A"), variant("B")], ..Settings::default() },
            subscription_group_id: None,
            scheduled_at: None,
            status: CampaignStatus::Draft,
            status_reason: None,
            started_at: None,
            recipients: 0,
            under_way: false,
            created_at: Timestamp::UNIX_EPOCH,
            updated_at: Timestamp::UNIX_EPOCH,
        }
    }

    fn read(body: &Value, channel: Channel) -> Result<TestRequest, Vec<String>> {
        let read = test_request(body.as_object().unwrap(), &campaign(channel));
        read.map_err(|e| e.details().iter().map(|p| p.field.clone()).collect())
    }

    #[test]
    fn test_requires_recipients() {
        let both =
            read(&json!({"userIds": ["u"], "to": [" a@b.c "], "variant": "B", "asUserId": null}), Channel::Email);
        let (user_ids, to) = (vec!["u".to_owned()], vec!["a@b.c".to_owned()]);
        assert_eq!(both, Ok(TestRequest { user_ids, to, as_user: None, variant: Some("B".to_owned()) }));
        for (body, channel, field) in [
            (json!({}), Channel::Email, "userIds"),
            (json!({"userIds": [], "to": null}), Channel::Sms, "userIds"),
            (json!({"userIds": "u"}), Channel::Push, "userIds"),
            (json!({"userIds": ["u", ""]}), Channel::Push, "userIds[1]"),
            (json!({"to": ["a@b.c", "x"]}), Channel::Email, "to[1]"),
            (json!({"to": ["0151"]}), Channel::Sms, "to[0]"),
            (json!({"to": ["a@b.c"]}), Channel::InApp, "to[0]"),
            (json!({"to": vec!["a@b.c"; 11]}), Channel::Email, "to"),
            (json!({"userIds": ["u"], "variant": "C"}), Channel::Email, "variant"),
            (json!({"userIds": ["u"], "user": "v"}), Channel::Email, "user"),
        ] {
            assert_eq!(read(&body, channel), Err(vec![field.to_owned()]), "{body} {channel:?}");
        }
    }
}
