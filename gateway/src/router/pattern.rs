//! How addresses are named in metrics and logs, and what their paths name.

use super::Route;

impl Route<'_> {
    /// The address with its parameters named: for metrics and logs.
    pub fn pattern(self) -> &'static str {
        match self {
            Self::Track | Self::ListEvents => "/events",
            Self::Batch => "/events/batch",
            Self::ExportEvents => "/events/export",
            Self::Identify => "/users/identify",
            Self::GetEvent(_) | Self::DeleteEvent(_) => "/events/:id",
            Self::ListUsers => "/users",
            Self::ImportUsers | Self::ListImports => "/users/import",
            Self::GetImport(_) => "/users/import/:id",
            Self::ExportUsers => "/users/export",
            Self::GetUser(_) | Self::UpdateUser(_) | Self::DeleteUser(_) => "/users/:id",
            Self::GetSubscriptions(_) | Self::ChangeSubscriptions(_) => "/users/:id/subscriptions",
            Self::ListTemplates | Self::CreateTemplate => "/templates",
            Self::GetTemplate(_) | Self::UpdateTemplate(_) | Self::DeleteTemplate(_) => "/templates/:id",
            Self::PreviewTemplate(_) => "/templates/:id/preview",
            Self::ListAutomations | Self::CreateAutomation => "/automations",
            Self::GetAutomation(_) | Self::UpdateAutomation(_) | Self::DeleteAutomation(_) => "/automations/:id",
            Self::ReportAutomation(_) => "/automations/:id/report",
            Self::ListRuns(_) => "/automations/:id/runs",
            Self::GetRun(..) => "/automations/:id/runs/:run",
            Self::SimulateAutomation(_) => "/automations/:id/simulate",
            Self::ListSegments | Self::CreateSegment => "/segments",
            Self::EstimateSegment => "/segments/estimate",
            Self::GetSegment(_) | Self::UpdateSegment(_) | Self::DeleteSegment(_) => "/segments/:id",
            Self::ListSegmentUsers(_) => "/segments/:id/users",
            Self::ChangeSegmentMembers(_) => "/segments/:id/members",
            Self::ExplainSegment(_) => "/segments/:id/explain",
            Self::ReportSegment(_) => "/segments/:id/report",
            Self::ListCampaigns | Self::CreateCampaign => "/campaigns",
            Self::GetCampaign(_) | Self::UpdateCampaign(_) | Self::DeleteCampaign(_) => "/campaigns/:id",
            Self::SendCampaign(_) => "/campaigns/:id/send",
            Self::PauseCampaign(_) => "/campaigns/:id/pause",
            Self::ResumeCampaign(_) => "/campaigns/:id/resume",
            Self::CancelCampaign(_) => "/campaigns/:id/cancel",
            Self::TestCampaign(_) => "/campaigns/:id/test",
            Self::ReportCampaign(_) => "/campaigns/:id/report",
            Self::GetChannels | Self::UpdateChannels => "/channels",
            Self::ListSubscriptionGroups | Self::CreateSubscriptionGroup => "/subscription-groups",
            Self::GetSubscriptionGroup(_) | Self::UpdateSubscriptionGroup(_) | Self::DeleteSubscriptionGroup(_) => {
                "/subscription-groups/:id"
            }
            Self::ListSuppressions | Self::CreateSuppression | Self::DeleteSuppression => "/suppressions",
            Self::TestChannel(_) => "/channels/:id/test",
            Self::SendMessage | Self::ListMessages => "/messages",
            Self::GetMessage(_) => "/messages/:id",
            Self::ListDeadLetters => "/dead-letters",
            Self::ReplayDeadLetters => "/dead-letters/replay",
            Self::ListNews | Self::CreateNews => "/news",
            Self::GetNews(_) | Self::UpdateNews(_) | Self::DeleteNews(_) => "/news/:id",
            Self::Feed => "/feed",
            Self::ListInbox => "/inbox",
            Self::StreamInbox => "/inbox/stream",
            Self::ReadInboxItem(_) => "/inbox/:id/read",
            Self::GenerateCopy => "/ai/generate",
            Self::GetReport => "/reports",
            Self::RegisterPushToken | Self::RemovePushToken | Self::GetPushSettings => "/push-tokens",
            Self::ListDevices => "/push-tokens/devices",
            Self::GetProject(_) | Self::UpdateProject(_) | Self::DeleteProject(_) => "/projects/:id",
            Self::RotateWebhookSecret(_) => "/projects/:id/webhook-secret",
            Self::RotateIdentitySecret(_) => "/projects/:id/identity-secret",
            Self::RotateSigningSecret(_) => "/projects/:id/signing-secret",
            Self::ListApiKeys | Self::CreateApiKey | Self::UpdateApiKey | Self::RevokeApiKey => "/api-keys",
            Self::ListTeam => "/team",
            Self::ChangeMember(_) | Self::RemoveMember(_) => "/team/:id",
            Self::ListInvites | Self::CreateInvite => "/team/invites",
            Self::GetInvite(_) | Self::RevokeInvite(_) => "/team/invites/:id",
            Self::ReadAuditLog => "/audit-log",
            Self::Hook(hook) => hook.pattern(),
            Self::Unbound(unbound) => unbound.pattern(),
        }
    }

    /// The project, where the path names it.
    pub fn project(&self) -> Option<&str> {
        match self {
            Self::GetProject(id)
            | Self::UpdateProject(id)
            | Self::DeleteProject(id)
            | Self::RotateWebhookSecret(id)
            | Self::RotateIdentitySecret(id)
            | Self::RotateSigningSecret(id) => Some(id),
            _ => None,
        }
    }
}
