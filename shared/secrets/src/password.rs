//! Passwords, stored as argon2id hashes (19 MiB, two passes, as OWASP recommends) in the PHC string format.
//!
//! Hashing takes tens of milliseconds of CPU time. Run it on a blocking thread.

mod rules;

use std::ops::RangeInclusive;

use argon2::{Argon2, PasswordHasher, PasswordVerifier};

pub use rules::{Weakness, weakness};

/// Permitted length of a password, in characters. The upper bound only excludes implausible lengths.
pub const LENGTH: RangeInclusive<usize> = 8..=200;

/// The hash of an unknown password: verifying against it takes as long as against any other hash.
pub const DUMMY_HASH: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$cmVraW5kbGUtbm9ib2R5cw$Gv1rVZ0q3n0zXq5pO0c1l6r3cC1mM1m0mJ8W3q8bVJg";

#[derive(Debug, thiserror::Error)]
#[error("cannot hash a password: {0}")]
pub struct HashError(String);

/// Hashes a password with a random salt.
pub fn hash(password: &str) -> Result<String, HashError> {
    let hash = Argon2::default().hash_password(password.as_bytes()).map_err(|e| HashError(e.to_string()))?;
    Ok(hash.to_string())
}

/// Returns whether a password matches a hash. An invalid hash matches none.
pub fn verify(password: &str, hash: &str) -> bool {
    Argon2::default().verify_password(password.as_bytes(), hash).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_same_password_verifies() {
        let hashed = hash("correct horse").unwrap();
        assert!(hashed.starts_with("$argon2id$"), "{hashed}");
        assert!(verify("correct horse", &hashed));
        for wrong in ["Correct horse", "correct horse ", ""] {
            assert!(!verify(wrong, &hashed), "{wrong}");
        }
        assert_ne!(hash("correct horse").unwrap(), hashed);
        assert!(!verify("x", "no hash"));
    }

    #[test]
    fn dummy_hash_costs_as_much_as_any_other() {
        let parameters = |hash: &str| hash.rsplitn(3, '$').last().map(str::to_owned);
        assert_eq!(parameters(DUMMY_HASH), parameters(&hash("x").unwrap()));
        assert!(argon2::PasswordHash::new(DUMMY_HASH).is_ok());
    }
}
