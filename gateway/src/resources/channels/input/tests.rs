use kernel::env::Env;
use serde_json::json;

use super::*;

const KEY: &str = "-----BEGIN PRIVATE KEY-----\nMIGTAgEAMBMGByqGSM49\nAgEGCCqGSM49==\n-----END PRIVATE KEY-----\n";

fn parsed(value: Value, outbound: &OutboundPolicy) -> Result<Vec<Change>, Vec<String>> {
    changes(value.as_object().unwrap(), outbound)
        .map_err(|e| e.details().iter().map(|p| p.field.clone()).collect::<Vec<_>>())
}

fn refused(value: Value) -> Vec<String> {
    parsed(value, &OutboundPolicy::default()).unwrap_err()
}

#[test]
fn every_field_accepts_valid_values() {
    let all = json!({
        "emailProvider": "SMTP", "emailFallback": "MAILPROVIDER", "mailproviderApiKey": "k", "mailproviderFromEmail": " news@example.com ",
        "emailFromName": "Ünï Shop", "smtpHost": "smtp.example.com", "smtpPort": 587, "smtpUsername": "u",
        "smtpPassword": "p", "smtpSecurity": "starttls", "pushGatewayServerKey": "{\"type\": \"service_account\"}",
        "iosPushKeyId": "ABC123DEFG", "iosPushTeamId": "0123456789", "iosPushPrivateKey": KEY,
        "iosPushBundleId": "com.example.app", "iosPushEnvironment": "sandbox", "pushProviderAppId": "a",
        "pushProviderRestKey": "r", "smsAccountId": "AC1", "smsAuthToken": "t", "smsFromNumber": "+15551234567",
        "smtpRateLimit": 10, "mailproviderRateLimit": 2, "iosPushRateLimit": 100_000, "pushGatewayRateLimit": 500,
        "pushProviderRateLimit": 1, "smsRateLimit": 1,
    });
    let changes = parsed(all.clone(), &OutboundPolicy::default()).unwrap();
    assert_eq!(changes.len(), FIELDS.len());
    assert_eq!(all.as_object().unwrap().len(), FIELDS.len());
    let (mut email, mut push) = (ChannelSettings::default(), ChannelSettings::default());
    let (of_push, rest): (Vec<_>, Vec<_>) = changes.into_iter().partition(|c| c.channel == Channel::Push);
    apply(&mut push, of_push);
    apply(&mut email, rest.into_iter().filter(|c| c.channel == Channel::Email).collect());
    assert_eq!(email.text("mailproviderFromEmail"), Some("news@example.com"));
    assert_eq!((email.settings["smtpPort"].as_u64(), email.secret("smtpPassword")), (Some(587), Some("p")));
    assert_eq!(push.secret("iosPushPrivateKey"), Some(KEY));
    assert_eq!(
        (&email.settings["mailproviderRateLimit"], &push.settings["iosPushRateLimit"]),
        (&json!(2), &json!(100_000))
    );
    assert!(!push.settings.contains_key("pushGatewayServerKey"));
}

#[test]
fn empty_text_or_null_clears_a_field() {
    let mut settings = ChannelSettings::default();
    let both = |value: Value| json!({"smtpHost": value, "smtpPassword": value});
    apply(&mut settings, parsed(both(json!("mail.example.com")), &OutboundPolicy::default()).unwrap());
    assert_eq!((settings.settings.len(), settings.secrets.len()), (1, 1));
    let mut other = settings.clone();
    apply(&mut settings, parsed(both(json!("")), &OutboundPolicy::default()).unwrap());
    apply(&mut other, parsed(both(json!(null)), &OutboundPolicy::default()).unwrap());
    assert_eq!((settings, other), (ChannelSettings::default(), ChannelSettings::default()));
}

#[test]
fn invalid_values_are_reported() {
    for value in [
        json!({"emailProvider": "smtp"}),
        json!({"mailproviderFromEmail": "news"}),
        json!({"mailproviderFromEmail": "a@b.c\r\nBcc: x@y.z"}),
        json!({"mailproviderFromEmail": "Shop <a@b.c>"}),
        json!({"emailFromName": "a\nb"}),
        json!({"smtpHost": "smtp example"}),
        json!({"smtpHost": "http://smtp.example.com"}),
        json!({"smtpHost": "smtp.example.com:25"}),
        json!({"smtpPort": 0}),
        json!({"smtpPort": 65_536}),
        json!({"smtpPort": "587"}),
        json!({"smtpSecurity": "ssl"}),
        json!({"smtpRateLimit": 0}),
        json!({"mailproviderRateLimit": 2.5}),
        json!({"iosPushRateLimit": 100_001}),
        json!({"pushGatewayRateLimit": "10"}),
        json!({"pushProviderRateLimit": -1}),
        json!({"smsRateLimit": true}),
        json!({"smtpPassword": 5}),
        json!({"iosPushKeyId": "ABC123DEF"}),
        json!({"iosPushTeamId": "ABC123DEF-"}),
        json!({"iosPushPrivateKey": "secret"}),
        json!({"iosPushPrivateKey": "-----BEGIN PRIVATE KEY-----"}),
        json!({"iosPushEnvironment": "debug"}),
        json!({"smsFromNumber": "+1 (555) 123"}),
        json!({"quietHours": "at night"}),
        json!({"frequencyCap": 3}),
        json!({"smtpHots": "x"}),
    ] {
        let name = value.as_object().unwrap().keys().next().unwrap().clone();
        assert_eq!(refused(value.clone()), [name], "{value}");
    }
}

#[test]
fn internal_addresses_are_rejected_unless_exempted() {
    let inside = ["127.0.0.1", "10.0.0.8", "[::1]", "169.254.169.254", "localhost", "LOCALHOST.", "a.localhost"];
    for host in inside {
        assert_eq!(refused(json!({"smtpHost": host})), ["smtpHost"], "{host}");
    }
    let loopback = OutboundPolicy::from_env(&Env::from_pairs([("OUTBOUND_ALLOW", "127.0.0.0/8,::1/128")])).unwrap();
    for (host, allowed) in inside.iter().zip([true, false, true, false, true, true, true]) {
        assert_eq!(parsed(json!({"smtpHost": host}), &loopback).is_ok(), allowed, "{host}");
    }
    assert!(parsed(json!({"smtpHost": "1.1.1.1"}), &OutboundPolicy::default()).is_ok());
}

#[test]
fn rules_apply_to_every_channel() {
    let outbound = OutboundPolicy::default();
    let quiet = json!({"start": "22:00", "end": "08:00"});
    let changes = parsed(json!({"quietHours": quiet, "frequencyCap": {"max": 3, "within": "7d"}}), &outbound).unwrap();
    assert_eq!(changes.len(), 2 * Channel::ALL.len());
    let mut settings = ChannelSettings::default();
    apply(&mut settings, changes.into_iter().filter(|c| c.channel == Channel::Push).collect());
    assert_eq!(settings.settings["quietHours"], json!({"start": "22:00", "end": "08:00", "timezone": "user"}));
    assert_eq!(settings.settings["frequencyCap"], json!({"max": 3, "within": "7d"}));
    for (value, fields) in [
        (json!({"knownUsersOnly": "yes"}), &["knownUsersOnly"][..]),
        (json!({"quietHours": {"start": "22:00"}}), &["quietHours.end"]),
        (json!({"quietHours": {"start": "25:00", "end": "08:00"}}), &["quietHours.start"]),
        (json!({"quietHours": {"start": "08:00", "end": "08:00"}}), &["quietHours.end"]),
        (json!({"quietHours": {"start": "22:00", "end": "08:00", "timezone": "Mars"}}), &["quietHours.timezone"]),
        (json!({"quietHours": {"start": "22:00", "end": "08:00", "zone": "UTC"}}), &["quietHours.zone"]),
        (json!({"frequencyCap": {"max": -1, "within": "7d"}}), &["frequencyCap.max"]),
        (json!({"frequencyCap": {"max": 1, "within": "a week"}}), &["frequencyCap.within"]),
    ] {
        assert_eq!(refused(value.clone()), fields, "{value}");
    }
    assert_eq!(parsed(json!({"quietHours": null}), &outbound).unwrap().len(), Channel::ALL.len());
}

#[test]
fn put_accepts_the_representation_from_get() {
    let read = json!({"email": {"configured": true}, "push": {}, "sms": {}, "inApp": {}});
    assert_eq!(parsed(read, &OutboundPolicy::default()).unwrap(), []);
}
