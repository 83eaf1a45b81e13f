//! People.

pub mod recipient;
pub mod record;
