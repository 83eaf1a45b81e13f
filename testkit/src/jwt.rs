//! Reads signed tokens as the vendors do: with keys and code of its own, not the product's.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use p256::ecdsa::signature::Verifier;
use p256::ecdsa::{Signature, VerifyingKey};
use serde_json::Value;

/// Header and claims of a token, and the signed data.
pub(crate) struct Token {
    pub header: Value,
    pub claims: Value,
    pub signed: Vec<u8>,
    pub signature: Vec<u8>,
}

impl Token {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (signed, signature) = text.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let json = |part: &str| serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok();
        Some(Self {
            header: json(header)?,
            claims: json(claims)?,
            signed: signed.as_bytes().to_vec(),
            signature: URL_SAFE_NO_PAD.decode(signature).ok()?,
        })
    }

    /// Verifies ECDSA on P-256, with an uncompressed point.
    pub(crate) fn is_signed_by(&self, public: &[u8]) -> bool {
        let (key, signature) = (VerifyingKey::from_sec1_bytes(public), Signature::from_slice(&self.signature));
        let (Ok(key), Ok(signature)) = (key, signature) else { return false };
        self.header["alg"] == "ES256" && key.verify(&self.signed, &signature).is_ok()
    }

    /// Returns a claim in Unix seconds, relative to now.
    pub(crate) fn seconds_from_now(&self, claim: &str) -> Option<i64> {
        Some(self.claims[claim].as_i64()? - kernel::clock::Clock::system().now().as_second())
    }
}
