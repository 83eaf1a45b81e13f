//! Addresses outside of any project.

/// What belongs to no project of the caller's, or to one that only the handler finds out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unbound<'p> {
    Login,
    Logout,
    GetSession,
    ChangePassword,
    ListSessions,
    EndOtherSessions,
    /// By its id.
    EndSession(&'p str),
    AcceptInvite,
    ListProjects,
    CreateProject,
    /// Of the project that it names.
    Webhook(&'p str),
}

impl Unbound<'_> {
    /// Returns whether the route requires a session. The session look-up then checks the address's limit.
    pub fn needs_session(self) -> bool {
        !matches!(self, Self::Login | Self::AcceptInvite | Self::Webhook(_))
    }

    pub(super) fn pattern(self) -> &'static str {
        match self {
            Self::Login => "/auth/login",
            Self::Logout => "/auth/logout",
            Self::GetSession => "/auth/session",
            Self::ChangePassword => "/auth/password",
            Self::ListSessions | Self::EndOtherSessions => "/auth/sessions",
            Self::EndSession(_) => "/auth/sessions/:id",
            Self::AcceptInvite => "/auth/invites/accept",
            Self::ListProjects | Self::CreateProject => "/projects",
            Self::Webhook(_) => "/webhook/:id",
        }
    }
}
