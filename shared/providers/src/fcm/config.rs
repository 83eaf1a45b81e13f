//! `pushGatewayServerKey`: a server key, or a service account as JSON.

use http::Uri;
use http_client::BaseUrl;
use serde::Deserialize;

use crate::jwt::SigningKey;

const FIELD: &str = "pushGatewayServerKey";
/// Hosts from which the vendor issues access tokens.
const TOKEN_HOSTS: [&str; 3] = ["oauth2.googleapis.com", "accounts.google.com", "www.googleapis.com"];

/// Settings of the gateway: its base URL and credentials.
pub struct FcmConfig {
    pub base: BaseUrl,
    pub key: GatewayKey,
}

pub enum GatewayKey {
    Server(String),
    Account(ServiceAccount),
}

pub struct ServiceAccount {
    pub project: String,
    pub email: String,
    pub key_id: Option<String>,
    /// The key as configured. It distinguishes owners of the account from those who only know its name.
    pub key_text: String,
    pub key: SigningKey,
    /// URL for access tokens: the vendor's, or one that the operator configured.
    pub token_address: String,
}

#[derive(Deserialize)]
struct Json {
    project_id: String,
    client_email: String,
    private_key: String,
    private_key_id: Option<String>,
    #[serde(default = "vendors_token_address")]
    token_uri: String,
}

fn vendors_token_address() -> String {
    "https://oauth2.googleapis.com/token".to_owned()
}

impl FcmConfig {
    /// Returns what identifies the account.
    pub fn account(&self) -> [&str; 5] {
        let (kind, whose, key) = match &self.key {
            GatewayKey::Server(key) => ("key", key.as_str(), ""),
            GatewayKey::Account(account) => ("project", account.project.as_str(), account.key_text.as_str()),
        };
        ["gateway", self.base.as_str(), kind, whose, key]
    }

    /// Parses the key; an error names the field.
    pub fn from_key(text: &str, base: &BaseUrl) -> Result<Self, String> {
        let text = text.trim();
        let key = if text.starts_with('{') {
            GatewayKey::Account(account(text, base)?)
        } else if !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic()) {
            GatewayKey::Server(text.to_owned())
        } else {
            return Err(format!("{FIELD} is neither a server key nor the JSON of a service account"));
        };
        Ok(Self { base: base.clone(), key })
    }
}

fn account(text: &str, base: &BaseUrl) -> Result<ServiceAccount, String> {
    let json: Json =
        serde_json::from_str(text).map_err(|e| format!("{FIELD} is not the JSON of a service account: {e}"))?;
    let is_id = |c: char| c.is_ascii_alphanumeric() || "-_:.".contains(c);
    if json.project_id.is_empty() || !json.project_id.chars().all(is_id) {
        return Err(format!("{FIELD}: project_id {:?} is not a project ID", json.project_id));
    }
    if !is_vendors(&json.token_uri) && !base.is_origin_of(&json.token_uri) {
        return Err(format!("{FIELD}: token_uri is {:?}, which is not the vendor's URL", json.token_uri));
    }
    let key = SigningKey::rs256_from_pem(&json.private_key).map_err(|e| format!("{FIELD}: private_key {e}"))?;
    Ok(ServiceAccount {
        project: json.project_id,
        email: json.client_email,
        key_id: json.private_key_id,
        key_text: json.private_key,
        key,
        token_address: json.token_uri,
    })
}

fn is_vendors(address: &str) -> bool {
    let Ok(uri) = address.parse::<Uri>() else { return false };
    uri.scheme_str() == Some("https")
        && uri.port().is_none()
        && uri.authority().is_some_and(|a| !a.as_str().contains('@'))
        && uri.host().is_some_and(|host| TOKEN_HOSTS.contains(&host))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> Result<FcmConfig, String> {
        FcmConfig::from_key(text, &"https://push.example.com:8443".parse().unwrap())
    }

    #[test]
    fn key_that_is_not_json_is_a_server_key() {
        assert!(matches!(read(" AAAA:b-c "), Ok(FcmConfig { key: GatewayKey::Server(key), .. }) if key == "AAAA:b-c"));
        for wrong in ["", "  ", "two words", "a\nb"] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn invalid_service_account_error_names_the_problem() {
        let whole = json!({
            "project_id": "shop", "client_email": "a@b.c", "private_key": "x",
            "token_uri": "https://oauth2.googleapis.com/token",
        });
        for (field, value, words) in [
            ("project_id", json!("../x"), "project_id"),
            ("project_id", json!(7), "not the JSON of a service account"),
            ("client_email", json!(null), "not the JSON of a service account"),
            ("private_key", json!("x"), "private_key is not a private key"),
            ("token_uri", json!("https://evil.example/token"), "token_uri"),
            ("token_uri", json!("http://oauth2.googleapis.com/token"), "token_uri"),
            ("token_uri", json!("https://oauth2.googleapis.com:444/token"), "token_uri"),
            ("token_uri", json!("https://a@oauth2.googleapis.com/token"), "token_uri"),
            ("token_uri", json!("https://oauth2.googleapis.com.evil.example/"), "token_uri"),
            ("token_uri", json!("http://169.254.169.254/"), "token_uri"),
            // The operator's own gateway may issue tokens, so the error concerns the key.
            ("token_uri", json!("https://push.example.com:8443/token"), "private_key"),
        ] {
            let mut account = whole.clone();
            account[field] = value;
            let error = read(&account.to_string()).err().unwrap();
            assert!(error.starts_with(FIELD) && error.contains(words), "{error}");
        }
    }
}
