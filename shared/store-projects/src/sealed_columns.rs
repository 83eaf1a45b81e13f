//! All columns of the database that contain sealed secrets.

use crate::sealed::Sealed;
use crate::{channels, invites, projects, vapid_keys, webhook_endpoints};

/// A test checks this list against the schema.
pub const SEALED: [Sealed; 5] =
    [projects::SEALED, channels::SEALED, vapid_keys::SEALED, invites::mail::SEALED, webhook_endpoints::SEALED];
