//! Who may call an address.

/// Who may call it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A public or a secret key, or a member's session.
    Public,
    /// A secret key, or a member's session.
    Secret,
    /// A secret key, or an admin's session.
    SecretOrAdmin,
    /// A member's session, and no key.
    Member,
    /// An admin's session, and no key.
    Admin,
    /// A session, whatever its projects.
    Session,
    /// Anyone: the handler finds out by itself who calls.
    Anyone,
}

impl Access {
    pub fn takes_keys(self) -> bool {
        matches!(self, Self::Public | Self::Secret | Self::SecretOrAdmin)
    }

    /// Whether a member of the project needs to be its admin.
    pub fn needs_admin(self) -> bool {
        matches!(self, Self::SecretOrAdmin | Self::Admin)
    }
}
