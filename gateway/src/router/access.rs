//! Who may call an address.

use super::{Route, Unbound};

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

impl Route<'_> {
    pub fn access(self) -> Access {
        match self {
            Self::Track
            | Self::Batch
            | Self::Identify
            | Self::Feed
            | Self::ListInbox
            | Self::StreamInbox
            | Self::ReadInboxItem(_)
            | Self::RegisterPushToken
            | Self::RemovePushToken
            | Self::GetPushSettings => Access::Public,
            Self::ListEvents
            | Self::ExportEvents
            | Self::GetEvent(_)
            | Self::DeleteEvent(_)
            | Self::ListUsers
            | Self::ImportUsers
            | Self::ListImports
            | Self::GetImport(_)
            | Self::ExportUsers
            | Self::GetUser(_)
            | Self::UpdateUser(_)
            | Self::DeleteUser(_)
            | Self::GetSubscriptions(_)
            | Self::ChangeSubscriptions(_)
            | Self::ListTemplates
            | Self::CreateTemplate
            | Self::GetTemplate(_)
            | Self::UpdateTemplate(_)
            | Self::DeleteTemplate(_)
            | Self::PreviewTemplate(_)
            | Self::ListAutomations
            | Self::CreateAutomation
            | Self::GetAutomation(_)
            | Self::UpdateAutomation(_)
            | Self::DeleteAutomation(_)
            | Self::ReportAutomation(_)
            | Self::ListRuns(_)
            | Self::GetRun(..)
            | Self::SimulateAutomation(_)
            | Self::ListSegments
            | Self::CreateSegment
            | Self::EstimateSegment
            | Self::GetSegment(_)
            | Self::UpdateSegment(_)
            | Self::DeleteSegment(_)
            | Self::ListSegmentUsers(_)
            | Self::ChangeSegmentMembers(_)
            | Self::ExplainSegment(_)
            | Self::ReportSegment(_)
            | Self::ListCampaigns
            | Self::CreateCampaign
            | Self::GetCampaign(_)
            | Self::UpdateCampaign(_)
            | Self::DeleteCampaign(_)
            | Self::SendCampaign(_)
            | Self::PauseCampaign(_)
            | Self::ResumeCampaign(_)
            | Self::CancelCampaign(_)
            | Self::TestCampaign(_)
            | Self::ReportCampaign(_)
            | Self::GetChannels
            | Self::ListSubscriptionGroups
            | Self::CreateSubscriptionGroup
            | Self::GetSubscriptionGroup(_)
            | Self::UpdateSubscriptionGroup(_)
            | Self::DeleteSubscriptionGroup(_)
            | Self::ListDevices
            | Self::ListSuppressions
            | Self::CreateSuppression
            | Self::DeleteSuppression
            | Self::SendMessage
            | Self::ListMessages
            | Self::GetMessage(_)
            | Self::ListDeadLetters
            | Self::ReplayDeadLetters
            | Self::ListNews
            | Self::CreateNews
            | Self::GetNews(_)
            | Self::UpdateNews(_)
            | Self::DeleteNews(_)
            | Self::GenerateCopy
            | Self::GetReport => Access::Secret,
            Self::UpdateChannels | Self::TestChannel(_) => Access::SecretOrAdmin,
            Self::GetProject(_) | Self::ListTeam => Access::Member,
            Self::UpdateProject(_)
            | Self::DeleteProject(_)
            | Self::RotateWebhookSecret(_)
            | Self::RotateIdentitySecret(_)
            | Self::RotateSigningSecret(_)
            | Self::ListApiKeys
            | Self::CreateApiKey
            | Self::UpdateApiKey
            | Self::RevokeApiKey
            | Self::ChangeMember(_)
            | Self::RemoveMember(_)
            | Self::ListInvites
            | Self::CreateInvite
            | Self::GetInvite(_)
            | Self::RevokeInvite(_)
            | Self::ReadAuditLog
            | Self::Hook(_) => Access::Admin,
            Self::Unbound(Unbound::Login | Unbound::AcceptInvite | Unbound::Webhook(_)) => Access::Anyone,
            Self::Unbound(
                Unbound::Logout
                | Unbound::GetSession
                | Unbound::ChangePassword
                | Unbound::ListSessions
                | Unbound::EndOtherSessions
                | Unbound::EndSession(_)
                | Unbound::ListProjects
                | Unbound::CreateProject,
            ) => Access::Session,
        }
    }
}
