//! Identity verification: a public key, which anyone can read, acts for a user only with a proof from the project's own
//! server: `user_hash`, an HMAC of the user's ID, or `user_token`, a JWT that expires.

pub mod secret_cache;
pub mod token;

use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use kernel::ids::ProjectId;
use sha2::Sha256;
use store_projects::projects::IdentitySecrets;

use super::state::Auth;
use crate::http::error::ApiError;
use crate::http::request::Request;
use secret_cache::{SecretHash, secret_hash};
use token::UserToken;

/// The header that carries a user token, for requests without a body and for batches.
pub const TOKEN_HEADER: &str = "x-user-token";
/// The header that carries a user hash.
pub const HASH_HEADER: &str = "x-user-hash";

/// The reason why a caller may not act for a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdentityError {
    Missing,
    WrongHash,
    Malformed,
    UnsupportedAlgorithm,
    WrongSignature,
    NotYetValid,
    Expired,
    OtherUser,
}

impl IdentityError {
    pub fn message(self) -> &'static str {
        match self {
            Self::Missing => {
                "user_id must be proven: send user_token (a JWT) or user_hash, which your server computes with the project's identity secret"
            }
            Self::WrongHash => {
                "user_hash must be the hexadecimal HMAC-SHA256 of user_id under the project's identity secret"
            }
            Self::Malformed => "user_token must be a JWT of at most 4,096 bytes, with sub and exp",
            Self::UnsupportedAlgorithm => "user_token must be signed with HS256",
            Self::WrongSignature => "user_token is not signed with the project's identity secret",
            Self::NotYetValid => "user_token is not valid yet: compare its nbf and iat with your server's clock",
            Self::Expired => "user_token has expired",
            Self::OtherUser => "user_token is for another user: its sub must be user_id",
        }
    }
}

impl From<IdentityError> for ApiError {
    fn from(refusal: IdentityError) -> Self {
        Self::Forbidden(refusal.message())
    }
}

/// A valid proof of a user ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifiedIdentity {
    /// When the proof expires; `None` for a hash, which never does.
    pub until: Option<Timestamp>,
    /// The secret that the proof was made with.
    pub secret: SecretHash,
}

/// The proofs of a user ID that a request, or one of its items, carries.
#[derive(Clone, Copy, Debug, Default)]
pub struct IdentityProof<'a> {
    pub user_hash: Option<&'a str>,
    pub user_token: Option<&'a str>,
}

/// Verifies the user IDs of one request.
pub struct IdentityVerifier(Option<Required>);

struct Required {
    secrets: Arc<IdentitySecrets>,
    now: Timestamp,
    /// From the headers; applies to every item of the request.
    hash: Option<String>,
    token: Option<Result<UserToken, IdentityError>>,
}

impl IdentityVerifier {
    /// Requires no proof.
    pub fn none() -> Self {
        Self(None)
    }

    /// Requires proof of every user ID that the request names, under the project's identity secrets.
    pub async fn for_request(auth: &Auth, request: &Request<'_>, project: ProjectId) -> Result<Self, ApiError> {
        let secrets = auth.identity_secrets.get(&auth.store, &auth.master_keys, project).await?;
        let secrets = secrets.ok_or_else(|| ApiError::Internal("a project without secrets".to_owned()))?;
        let now = auth.clock.now();
        let hash = request.header(HASH_HEADER).map(str::to_owned);
        let token = request.header(TOKEN_HEADER).map(|token| token::verify(secrets.accepted(now), token, now));
        Ok(Self(Some(Required { secrets, now, hash, token })))
    }

    pub fn is_required(&self) -> bool {
        self.0.is_some()
    }

    /// Checks that the caller may act for a user. One valid proof is enough.
    ///
    /// Returns that proof, or `None` if none is required or the request names no user.
    pub fn check(
        &self,
        user_id: Option<&str>,
        evidence: IdentityProof<'_>,
    ) -> Result<Option<VerifiedIdentity>, IdentityError> {
        let (Some(required), Some(user_id)) = (&self.0, user_id) else { return Ok(None) };
        let Required { secrets, now, hash, token } = required;
        let mut refusal = IdentityError::Missing;
        for hash in evidence.user_hash.into_iter().chain(hash.as_deref()).filter(|hash| !hash.is_empty()) {
            if let Some(secret) = secrets.accepted(*now).find(|secret| is_hash(secret, user_id, hash)) {
                return Ok(Some(VerifiedIdentity { until: None, secret: secret_hash(secret) }));
            }
            refusal = IdentityError::WrongHash;
        }
        let own = evidence.user_token.filter(|token| !token.is_empty());
        let own = own.map(|token| token::verify(secrets.accepted(*now), token, *now));
        for token in own.iter().chain(token) {
            match token {
                Ok(token) if token.user_id == user_id => {
                    return Ok(Some(VerifiedIdentity { until: Some(token.until), secret: token.secret }));
                }
                Ok(_) => refusal = IdentityError::OtherUser,
                Err(why) => refusal = *why,
            }
        }
        Err(refusal)
    }
}

fn is_hash(secret: &str, user_id: &str, user_hash: &str) -> bool {
    let Ok(sent) = hex::decode(user_hash) else { return false };
    let mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).map(|mac| mac.chain_update(user_id.as_bytes()));
    mac.is_ok_and(|mac| mac.verify_slice(&sent).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_of_another_user_or_secret_is_refused() {
        let secret = "key";
        // The widely published HMAC-SHA256 example.
        let hash = "f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8";
        let user = "The quick brown fox jumps over the lazy dog";
        assert!(is_hash(secret, user, hash));
        assert!(is_hash(secret, user, &hash.to_uppercase()));
        for (secret, user, hash) in [
            ("other", user, hash),
            (secret, "other", hash),
            (secret, user, &hash[..62]),
            (secret, user, ""),
            (secret, user, "zz"),
        ] {
            assert!(!is_hash(secret, user, hash));
        }
        let secrets = Arc::new(IdentitySecrets { current: secret.to_owned(), previous: None });
        let required = Required { secrets, now: Timestamp::UNIX_EPOCH, hash: None, token: None };
        let proof = IdentityVerifier(Some(required));
        let with = |user_hash| IdentityProof { user_hash, user_token: None };
        let proven = VerifiedIdentity { until: None, secret: secret_hash(secret) };
        assert_eq!(proof.check(Some(user), with(Some(hash))), Ok(Some(proven)));
        assert_eq!(proof.check(None, with(None)), Ok(None));
        assert_eq!(proof.check(Some(user), with(None)), Err(IdentityError::Missing));
        assert_eq!(proof.check(Some(user), with(Some(""))), Err(IdentityError::Missing));
        assert_eq!(proof.check(Some("other"), with(Some(hash))), Err(IdentityError::WrongHash));
        assert_eq!(IdentityVerifier(None).check(Some(user), with(None)), Ok(None));
    }
}
