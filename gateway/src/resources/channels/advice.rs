//! Advice on known error messages of providers. No I/O.

/// Substrings of error messages, in lower case, and the advice for each. The first match wins, so specific ones come
/// first.
const ADVICE: &[(&str, &str)] = &[
    // Direct push to iOS.
    (
        "invalidprovidertoken",
        "The key ID or team ID is wrong, or the key belongs to another account: compare iosPushKeyId, iosPushTeamId and iosPushPrivateKey with the key's page in the vendor's console.",
    ),
    ("expiredprovidertoken", "The server's clock is wrong: a token that was just created has already expired."),
    (
        "baddevicetoken",
        "The device token belongs to the other environment: debug builds need iosPushEnvironment sandbox, release builds production.",
    ),
    ("devicetokennotfortopic", "iosPushBundleId is not the bundle ID of the app that the device token belongs to."),
    (
        "topicdisallowed",
        "The key is not permitted to send for this app: check iosPushBundleId and the key's permissions.",
    ),
    ("badtopic", "iosPushBundleId is not a valid bundle ID."),
    // The push gateway.
    (
        "third_party_auth_error",
        "The gateway lacks the iOS credential: upload it in the gateway's console, or set the iosPush fields.",
    ),
    (
        "sender_id_mismatch",
        "The device token belongs to another project of the push gateway than pushGatewayServerKey.",
    ),
    (
        "invalid_grant",
        "The service account's key was deleted, or the server's clock is wrong: create a new key and set pushGatewayServerKey.",
    ),
    ("unregistered", "The app was removed from the device, or its token has changed: register the device again."),
    ("notregistered", "The app was removed from the device, or its token has changed: register the device again."),
    // The third-party push provider.
    ("app_id not found", "pushProviderAppId is wrong."),
    ("access denied", "pushProviderRestKey is wrong, or is the key of another app."),
    ("not subscribed", "The device is not subscribed to this app at the provider; its token was removed."),
    // Mail over HTTP.
    ("restricted_api_key", "The mail provider's API key is not permitted to send: create one that is."),
    ("invalid_api_key", "mailproviderApiKey is wrong."),
    ("not verified", "Verify the domain of mailproviderFromEmail with the mail provider."),
    ("quota_exceeded", "The mail provider's quota is used up."),
    // SMS.
    ("20003", "smsAccountId or smsAuthToken is wrong."),
    ("20404", "smsAccountId is wrong."),
    ("21608", "The SMS account is a trial account: it can only send to numbers verified with the provider."),
    ("21606", "smsFromNumber is not a number of this account that can send SMS."),
    ("21659", "smsFromNumber is not a number of this account that can send SMS."),
    ("21660", "smsFromNumber belongs to another account."),
    ("21212", "smsFromNumber is not a valid sender number."),
    ("21408", "Permit SMS to the number's country in the provider's console."),
    ("21211", "The number is invalid: use the international format, such as +15551234567."),
    ("21614", "The number is not a mobile number."),
    ("21610", "The recipient has opted out by texting STOP; only they can opt in again, by texting START."),
    ("30034", "smsFromNumber must be registered for business messaging (A2P 10DLC)."),
    // SMTP.
    ("535", "smtpUsername or smtpPassword is wrong."),
    (
        "authentication",
        "smtpUsername or smtpPassword is wrong, or the server does not support authentication on this port.",
    ),
    ("relay", "The server does not send for this sender: log in with smtpUsername, or check mailproviderFromEmail."),
    ("starttls", "The server does not support STARTTLS: set smtpSecurity to tls (port 465) or none."),
    (
        "certificate",
        "The server's certificate does not match its host name, or its authority is unknown: check the host, or trust the authority with OUTBOUND_CA_FILE.",
    ),
    // All providers.
    ("may not be called", "The address is in a private network: the operator can permit it with OUTBOUND_ALLOW."),
    ("cannot be resolved", "The host name cannot be resolved: check its spelling."),
    ("connection refused", "No server is listening at this address: check host and port."),
    ("limited: the account's limit", "The account's rate limit is exceeded: try again, or raise the …RateLimit field."),
    ("channel_not_configured", "Set the channel's fields with PUT /channels."),
    ("no_token", "The user has no device: register one with POST /push-tokens."),
    ("no_address", "The user has no address for this channel: an email, or the property phone."),
    ("invalid_address", "The user's address is invalid."),
    ("is missing", "Set the named field with PUT /channels."),
];

/// Returns advice on a provider's error message, if it is a known one.
pub fn for_error(message: &str) -> Option<&'static str> {
    let message = message.to_lowercase();
    ADVICE.iter().find(|(part, _)| message.contains(part)).map(|(_, advice)| *advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_errors_have_advice() {
        for (message, part) in [
            ("misconfigured: 403 InvalidProviderToken", "iosPushTeamId"),
            ("gone: 400 BadDeviceToken", "sandbox"),
            ("misconfigured: 401 20003: Authenticate", "smsAuthToken"),
            ("misconfigured: 535 5.7.8 Authentication credentials invalid", "smtpPassword"),
            ("misconfigured: 403 validation_error: The domain is not verified", "Verify the domain"),
            ("misconfigured: 10.0.0.1 is at 10.0.0.1, an address that may not be called", "OUTBOUND_ALLOW"),
            ("channel_not_configured", "PUT /channels"),
            ("misconfigured: smsAuthToken is missing", "named field"),
        ] {
            assert!(for_error(message).is_some_and(|advice| advice.contains(part)), "{message}");
        }
        assert_eq!(for_error("rejected: 550 5.1.1 no such user"), None);
        assert!(ADVICE.iter().all(|(part, _)| *part == part.to_lowercase()));
    }
}
