//! Signed tokens (RFC 7519) that authenticate a project.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, RSA_PKCS1_SHA256};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;
use serde_json::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("is not a private key in PKCS #8 (PEM, \"BEGIN PRIVATE KEY\")")]
    NotPkcs8,
    #[error("is not the required kind of key ({0})")]
    WrongKind(&'static str),
    #[error("cannot sign")]
    Unusable,
}

/// A key that signs tokens.
pub enum SigningKey {
    Es256(EcdsaKeyPair),
    Rs256(rsa::KeyPair),
}

impl SigningKey {
    /// Reads a P-256 key from PEM.
    pub fn es256_from_pem(pem: &str) -> Result<Self, KeyError> {
        Self::es256_from_der(der(pem)?.secret_pkcs8_der())
    }

    pub fn es256_from_der(der: &[u8]) -> Result<Self, KeyError> {
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der);
        Ok(Self::Es256(pair.map_err(|_| KeyError::WrongKind("a key on the curve P-256"))?))
    }

    /// Reads an RSA key from PEM.
    pub fn rs256_from_pem(pem: &str) -> Result<Self, KeyError> {
        let pair = rsa::KeyPair::from_pkcs8(der(pem)?.secret_pkcs8_der());
        Ok(Self::Rs256(pair.map_err(|_| KeyError::WrongKind("an RSA key"))?))
    }

    fn algorithm(&self) -> &'static str {
        match self {
            Self::Es256(_) => "ES256",
            Self::Rs256(_) => "RS256",
        }
    }

    /// Returns a signed token with these claims; `key_id` goes into its header.
    pub fn token(&self, key_id: Option<&str>, claims: &Value) -> Result<String, KeyError> {
        let mut header = serde_json::json!({ "alg": self.algorithm(), "typ": "JWT" });
        if let Some(key_id) = key_id {
            header["kid"] = key_id.into();
        }
        let encode = |part: &[u8]| URL_SAFE_NO_PAD.encode(part);
        let signed = format!("{}.{}", encode(header.to_string().as_bytes()), encode(claims.to_string().as_bytes()));
        let random = SystemRandom::new();
        let signature = match self {
            Self::Es256(pair) => {
                pair.sign(&random, signed.as_bytes()).map_err(|_| KeyError::Unusable)?.as_ref().to_vec()
            }
            Self::Rs256(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, signed.as_bytes(), &mut signature)
                    .map_err(|_| KeyError::Unusable)?;
                signature
            }
        };
        Ok(format!("{signed}.{}", encode(&signature)))
    }
}

fn der(pem: &str) -> Result<PrivatePkcs8KeyDer<'static>, KeyError> {
    PrivatePkcs8KeyDer::from_pem_slice(pem.trim().as_bytes()).map_err(|_| KeyError::NotPkcs8)
}
