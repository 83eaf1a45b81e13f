//! Access levels of routes.

/// The callers that a route admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A public or secret key, or a member's session.
    Public,
    /// A secret key or a member's session.
    Secret,
    /// A secret key or an admin's session.
    SecretOrAdmin,
    /// A member's session; no keys.
    Member,
    /// An admin's session; no keys.
    Admin,
    /// Any session, whatever its projects.
    Session,
    /// Anyone: the handler authenticates the caller itself.
    Anyone,
}

impl Access {
    pub fn accepts_keys(self) -> bool {
        matches!(self, Self::Public | Self::Secret | Self::SecretOrAdmin)
    }

    /// Returns whether a member of the project must be an admin.
    pub fn needs_admin(self) -> bool {
        matches!(self, Self::SecretOrAdmin | Self::Admin)
    }
}
