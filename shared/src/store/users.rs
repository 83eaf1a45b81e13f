//! People.

pub mod read;
pub mod recipient;
pub mod record;
