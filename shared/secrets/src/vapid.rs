//! The keys that identify a project to push services (VAPID, RFC 8292): ECDSA on P-256.

use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// A key pair in its stored form.
#[derive(Clone, PartialEq, Eq)]
pub struct VapidKeys {
    /// An uncompressed point, 65 bytes.
    pub public: Vec<u8>,
    /// PKCS #8.
    pub private: Vec<u8>,
}

#[derive(Debug, thiserror::Error)]
#[error("could not generate a key pair")]
pub struct KeyGenerationError;

impl VapidKeys {
    pub fn generate() -> Result<Self, KeyGenerationError> {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).map_err(|_| KeyGenerationError)?;
        let private = pair.to_pkcs8v1().map_err(|_| KeyGenerationError)?;
        Ok(Self { public: pair.public_key().as_ref().to_vec(), private: private.as_ref().to_vec() })
    }

    /// Returns the public key in the form that browsers expect: base64url without padding.
    pub fn public_text(&self) -> String {
        URL_SAFE_NO_PAD.encode(&self.public)
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::rand::SystemRandom;
    use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};

    use super::*;

    #[test]
    fn generated_key_pair_signs_and_verifies() {
        let keys = VapidKeys::generate().unwrap();
        assert_eq!((keys.public.len(), keys.public[0], keys.public_text().len()), (65, 4, 87));
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &keys.private).unwrap();
        let signature = pair.sign(&SystemRandom::new(), b"token").unwrap();
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &keys.public).verify(b"token", signature.as_ref()).unwrap();
    }
}
