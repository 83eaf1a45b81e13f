//! Identity verification: a public key, which anybody may read, speaks for a user only with a hash that the project's own
//! server made of the user's id.

use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use quick_cache::sync::Cache;
use sha2::Sha256;
use shared::ids::ProjectId;
use shared::store::projects;

use crate::context::Context;
use crate::error::ApiError;

pub const REFUSED: &str =
    "user_hash must be the hexadecimal HMAC-SHA256 of user_id under the project's identity secret";

/// The identity secrets of projects that were asked for. A project keeps its own for ever.
pub struct IdentitySecrets(Cache<ProjectId, Arc<str>>);

impl Default for IdentitySecrets {
    fn default() -> Self {
        Self(Cache::new(10_000))
    }
}

/// What the user ids of one request are held against.
pub struct Proof(Option<Arc<str>>);

impl Proof {
    /// What a request must prove: nothing, where its project or its key ask for none.
    pub async fn asked(cx: &Context<'_>) -> Result<Self, ApiError> {
        if !cx.caller.must_prove_identity() {
            return Ok(Self(None));
        }
        Self::always(cx).await
    }

    /// A proof whoever calls.
    pub async fn always(cx: &Context<'_>) -> Result<Self, ApiError> {
        let cache = &cx.app.identity_secrets.0;
        if let Some(secret) = cache.get(&cx.project) {
            return Ok(Self(Some(secret)));
        }
        let secrets = projects::secrets(&cx.database().await?, &cx.app.master_keys, cx.project).await?;
        let secrets = secrets.ok_or_else(|| ApiError::Internal("a project without secrets".to_owned()))?;
        let secret: Arc<str> = secrets.identity.into();
        cache.insert(cx.project, secret.clone());
        Ok(Self(Some(secret)))
    }

    pub fn is_asked(&self) -> bool {
        self.0.is_some()
    }

    /// Whether a user may be spoken for. Who names none needs no proof.
    pub fn holds(&self, user_id: Option<&str>, user_hash: Option<&str>) -> bool {
        let (Some(secret), Some(user_id)) = (&self.0, user_id) else { return true };
        proves(secret, user_id, user_hash.unwrap_or(""))
    }
}

fn proves(secret: &str, user_id: &str, user_hash: &str) -> bool {
    let Ok(sent) = hex::decode(user_hash) else { return false };
    let mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).map(|mac| mac.chain_update(user_id.as_bytes()));
    mac.is_ok_and(|mac| mac.verify_slice(&sent).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_hash_of_this_user_under_this_secret_counts() {
        let secret = "key";
        // HMAC-SHA256, the widely published example.
        let hash = "f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8";
        let user = "The quick brown fox jumps over the lazy dog";
        assert!(proves(secret, user, hash));
        assert!(proves(secret, user, &hash.to_uppercase()));
        for (secret, user, hash) in [
            ("other", user, hash),
            (secret, "other", hash),
            (secret, user, &hash[..62]),
            (secret, user, ""),
            (secret, user, "zz"),
        ] {
            assert!(!proves(secret, user, hash));
        }
        let proof = Proof(Some(secret.into()));
        assert!(proof.holds(Some(user), Some(hash)) && proof.holds(None, None));
        assert!(!proof.holds(Some(user), None));
        assert!(Proof(None).holds(Some(user), None));
    }
}
