//! Encrypts stored secrets: XChaCha20-Poly1305 with a master key, bound to the location where they are stored.
//!
//! A sealed value is `key ID (8 bytes) ‖ nonce (24 bytes) ‖ ciphertext and tag`. The key ID is the start of the key's
//! SHA-256, so that an old key can still decrypt while a new one encrypts.

pub mod password;
pub mod vapid;

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use kernel::env::{Env, EnvError};
use kernel::ids::ProjectId;

const ALLOWED: &str = "64 hexadecimal digits (32 random bytes); several separated by commas: the first one encrypts";

/// Length of a signature, in bytes.
pub const TAG: usize = 16;

/// The master keys: the first one seals and signs, all of them open and verify.
#[derive(Clone)]
pub struct MasterKeys(Vec<MasterKey>);

#[derive(Clone)]
struct MasterKey {
    id: [u8; 8],
    cipher: XChaCha20Poly1305,
    /// Derived from the key, so that encryption and signing use different keys.
    signing: [u8; 32],
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum OpenError {
    #[error("encrypted with a master key that is not in MASTER_KEY")]
    UnknownKey,
    #[error("the encrypted value is invalid or was altered")]
    Altered,
}

impl MasterKeys {
    /// Reads `MASTER_KEY`, or the content of the file `MASTER_KEY_FILE`.
    pub fn from_env(env: &Env) -> Result<Self, EnvError> {
        let error = |name: &str, problem: String| EnvError { name: name.to_owned(), problem, allowed: ALLOWED };
        let (name, text) = match (env.get("MASTER_KEY"), env.get("MASTER_KEY_FILE")) {
            (Some(text), _) => ("MASTER_KEY", text.to_owned()),
            (None, Some(path)) => {
                let read = std::fs::read_to_string(path);
                ("MASTER_KEY_FILE", read.map_err(|e| error("MASTER_KEY_FILE", format!("{path}: {e}")))?)
            }
            (None, None) => {
                return Err(error("MASTER_KEY", "neither MASTER_KEY nor MASTER_KEY_FILE is set".to_owned()));
            }
        };
        Self::parse(&text).ok_or_else(|| error(name, "invalid keys".to_owned()))
    }

    pub fn parse(text: &str) -> Option<Self> {
        let key = |part: &str| {
            let bytes: [u8; 32] = hex::decode(part.trim()).ok()?.try_into().ok()?;
            let mut id = [0; 8];
            id.copy_from_slice(&Sha256::digest(bytes)[..8]);
            Some(MasterKey { id, cipher: XChaCha20Poly1305::new(&bytes.into()), signing: mac(&bytes, &[b"signing"]) })
        };
        let keys: Option<Vec<_>> = text.split(',').filter(|p| !p.trim().is_empty()).map(key).collect();
        keys.filter(|k| !k.is_empty()).map(Self)
    }

    /// Returns the ID of the key that seals. Every value that it sealed starts with this ID.
    pub fn sealing_id(&self) -> [u8; 8] {
        self.0[0].id
    }

    /// Returns the number of keys.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Opens a secret and seals it with the current key.
    pub fn reseal(&self, project: ProjectId, context: &str, sealed: &[u8]) -> Result<Vec<u8>, OpenError> {
        Ok(self.seal(project, context, &self.open(project, context, sealed)?))
    }

    /// Seals a secret for one location of one project, for example `channel:email`.
    pub fn seal(&self, project: ProjectId, context: &str, plain: &[u8]) -> Vec<u8> {
        let MasterKey { id, cipher, .. } = &self.0[0];
        let nonce: [u8; 24] = rand::random();
        let payload = Payload { msg: plain, aad: &associated(project, context) };
        // The cipher only fails on inputs over 256 GiB.
        let sealed = cipher.encrypt(&XNonce::from(nonce), payload).unwrap_or_default();
        [&id[..], &nonce[..], &sealed[..]].concat()
    }

    pub fn open(&self, project: ProjectId, context: &str, sealed: &[u8]) -> Result<Vec<u8>, OpenError> {
        let (id, rest) = sealed.split_at_checked(8).ok_or(OpenError::Altered)?;
        let (nonce, text) = rest.split_at_checked(24).ok_or(OpenError::Altered)?;
        let nonce: [u8; 24] = nonce.try_into().map_err(|_| OpenError::Altered)?;
        let key = self.0.iter().find(|key| key.id == id).ok_or(OpenError::UnknownKey)?;
        let payload = Payload { msg: text, aad: &associated(project, context) };
        key.cipher.decrypt(&XNonce::from(nonce), payload).map_err(|_| OpenError::Altered)
    }
}

impl MasterKeys {
    /// Signs public data for one location of one project. The same text always has the same signature.
    pub fn sign(&self, project: ProjectId, context: &str, text: &[u8]) -> [u8; TAG] {
        tag(&self.0[0], project, context, text)
    }

    /// Returns whether any of the keys signed the text for this location.
    pub fn has_signed(&self, project: ProjectId, context: &str, text: &[u8], signature: &[u8]) -> bool {
        self.0.iter().any(|key| bool::from(tag(key, project, context, text).ct_eq(signature)))
    }
}

fn tag(key: &MasterKey, project: ProjectId, context: &str, text: &[u8]) -> [u8; TAG] {
    let whole = mac(&key.signing, &[project.0.as_bytes(), context.as_bytes(), b"\0", text]);
    let mut tag = [0; TAG];
    tag.copy_from_slice(&whole[..TAG]);
    tag
}

/// HMAC-SHA256.
fn mac(key: &[u8; 32], parts: &[&[u8]]) -> [u8; 32] {
    // HMAC pads a key shorter than a block with zeros.
    let mut block = [0; 64];
    block[..32].copy_from_slice(key);
    let mut mac = <Hmac<Sha256> as KeyInit>::new(&block.into());
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

fn associated(project: ProjectId, context: &str) -> Vec<u8> {
    [project.0.as_bytes(), context.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    const NEW: &str = "ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

    fn project(n: u128) -> ProjectId {
        ProjectId(uuid::Uuid::from_u128(n))
    }

    #[test]
    fn secret_opens_only_in_its_context() {
        let keys = MasterKeys::parse(OLD).unwrap();
        let sealed = keys.seal(project(1), "channel:email", b"secret");
        assert_eq!(keys.open(project(1), "channel:email", &sealed).unwrap(), b"secret");
        assert_eq!(keys.open(project(2), "channel:email", &sealed), Err(OpenError::Altered));
        assert_eq!(keys.open(project(1), "channel:sms", &sealed), Err(OpenError::Altered));
        assert_ne!(sealed, keys.seal(project(1), "channel:email", b"secret"));
        for cut in [0, 7, 31, sealed.len() - 1] {
            assert!(keys.open(project(1), "channel:email", &sealed[..cut]).is_err());
        }
    }

    #[test]
    fn new_key_seals_and_old_key_still_opens() {
        let old = MasterKeys::parse(OLD).unwrap();
        let both = MasterKeys::parse(&format!("{NEW},{OLD}")).unwrap();
        let sealed = old.seal(project(1), "p", b"x");
        assert_eq!(both.open(project(1), "p", &sealed).unwrap(), b"x");
        assert_eq!(old.open(project(1), "p", &both.seal(project(1), "p", b"x")), Err(OpenError::UnknownKey));
        let resealed = both.reseal(project(1), "p", &sealed).unwrap();
        assert!(resealed.starts_with(&both.sealing_id()) && !sealed.starts_with(&both.sealing_id()));
        assert_eq!(MasterKeys::parse(NEW).unwrap().open(project(1), "p", &resealed).unwrap(), b"x");
        assert_eq!(both.reseal(project(2), "p", &sealed), Err(OpenError::Altered));
    }

    #[test]
    fn invalid_keys_are_refused() {
        for text in ["", "abc", &OLD[1..], &format!("{OLD},zz")] {
            assert!(MasterKeys::parse(text).is_none(), "{text}");
        }
        let error = MasterKeys::from_env(&Env::default()).err().unwrap();
        assert_eq!(error.name, "MASTER_KEY");
    }
}
