//! People.

pub mod record;
