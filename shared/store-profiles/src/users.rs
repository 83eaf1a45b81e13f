//! Users.

pub mod export;
pub mod list;
mod position;
pub mod read;
pub mod recipient;
pub mod record;
pub mod removals;
pub mod search;
pub mod seen;
pub mod user_ref;
