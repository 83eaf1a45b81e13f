//! The projects of every load. IDs and keys are the same in each run, so nothing has to be passed on.

use kernel::ids::{ProjectId, UserKey};
use uuid::Uuid;

use crate::dice::Dice;

/// Projects of a full load.
pub const PROJECTS: u32 = 1_000;
/// Distinct event names that loads send.
pub const EVENT_NAMES: u32 = 50;
/// A random namespace for the projects' IDs.
const NAMESPACE: Uuid = Uuid::from_u128(0x5e7c_2d11_9a34_4b0f_8d62_71f0_c3a5_be01);

pub fn project(number: u32) -> ProjectId {
    ProjectId(Uuid::new_v5(&NAMESPACE, format!("project {number}").as_bytes()))
}

/// Returns the ID of a resource that belongs to a project.
pub fn id_of(number: u32, what: &str) -> Uuid {
    Uuid::new_v5(&project(number).0, what.as_bytes())
}

pub fn public_key(number: u32) -> String {
    key("pk_live_", u64::from(number))
}

pub fn secret_key(number: u32) -> String {
    key("sk_live_", u64::from(number) | 1 << 32)
}

fn key(prefix: &str, seed: u64) -> String {
    const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut dice = Dice::new(seed);
    prefix.chars().chain((0..32).map(|_| char::from(ALPHABET[dice.below(62) as usize]))).collect()
}

/// Returns the external ID of a project's user number `user`.
pub fn external_id(user: u32) -> String {
    format!("user-{user:07}")
}

pub fn user_id(project: ProjectId, user: u32) -> Uuid {
    UserKey::External(&external_id(user)).internal_id(project)
}

/// Returns `event_00` to `event_49`.
pub fn event_name(number: u32) -> String {
    format!("event_{number:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_well_formed_and_differ() {
        assert!(store_projects::api_keys::has_key_format(&public_key(3)));
        assert!(store_projects::api_keys::has_key_format(&secret_key(3)));
        assert_eq!(public_key(3), public_key(3));
        assert_ne!(public_key(3), public_key(4));
        assert_ne!(public_key(3)[8..], secret_key(3)[8..]);
    }
}
