//! Every address: one `match` on the method and the segments of the path.

mod access;
mod hook;
mod pattern;
mod segments;
mod unbound;

use hook::Hook::Resend;
use http::Method;

pub use access::Access;
pub use hook::Hook;
pub use segments::Segments;
pub use unbound::Unbound;

/// Where the API begins.
pub const BASE: &str = "/api/v1";
/// Operations in the place of an id. An id that is the same is written with an escape.
const NO_EVENTS: [&str; 2] = ["batch", "export"];
const NO_USERS: [&str; 3] = ["identify", "import", "export"];

/// What was asked for, with the parameters of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route<'p> {
    Track,
    Batch,
    Identify,
    ListEvents,
    ExportEvents,
    GetEvent(&'p str),
    DeleteEvent(&'p str),
    ListUsers,
    ImportUsers,
    ListImports,
    GetImport(&'p str),
    ExportUsers,
    GetUser(&'p str),
    UpdateUser(&'p str),
    DeleteUser(&'p str),
    GetSubscriptions(&'p str),
    ChangeSubscriptions(&'p str),
    ListTemplates,
    CreateTemplate,
    GetTemplate(&'p str),
    UpdateTemplate(&'p str),
    DeleteTemplate(&'p str),
    PreviewTemplate(&'p str),
    ListAutomations,
    CreateAutomation,
    GetAutomation(&'p str),
    UpdateAutomation(&'p str),
    DeleteAutomation(&'p str),
    ReportAutomation(&'p str),
    ListRuns(&'p str),
    GetRun(&'p str, &'p str),
    SimulateAutomation(&'p str),
    ListSegments,
    CreateSegment,
    EstimateSegment,
    GetSegment(&'p str),
    UpdateSegment(&'p str),
    DeleteSegment(&'p str),
    ListSegmentUsers(&'p str),
    ChangeSegmentMembers(&'p str),
    ExplainSegment(&'p str),
    ReportSegment(&'p str),
    ListCampaigns,
    CreateCampaign,
    GetCampaign(&'p str),
    UpdateCampaign(&'p str),
    DeleteCampaign(&'p str),
    SendCampaign(&'p str),
    PauseCampaign(&'p str),
    ResumeCampaign(&'p str),
    CancelCampaign(&'p str),
    TestCampaign(&'p str),
    ReportCampaign(&'p str),
    GetChannels,
    UpdateChannels,
    TestChannel(&'p str),
    ListSubscriptionGroups,
    CreateSubscriptionGroup,
    GetSubscriptionGroup(&'p str),
    UpdateSubscriptionGroup(&'p str),
    DeleteSubscriptionGroup(&'p str),
    ListSuppressions,
    CreateSuppression,
    DeleteSuppression,
    SendMessage,
    ListMessages,
    GetMessage(&'p str),
    ListDeadLetters,
    ReplayDeadLetters,
    ListNews,
    CreateNews,
    GetNews(&'p str),
    UpdateNews(&'p str),
    DeleteNews(&'p str),
    Feed,
    ListInbox,
    StreamInbox,
    ReadInboxItem(&'p str),
    GenerateCopy,
    GetReport,
    RegisterPushToken,
    RemovePushToken,
    GetPushSettings,
    ListDevices,
    GetProject(&'p str),
    UpdateProject(&'p str),
    DeleteProject(&'p str),
    RotateWebhookSecret(&'p str),
    RotateIdentitySecret(&'p str),
    RotateSigningSecret(&'p str),
    ListApiKeys,
    CreateApiKey,
    UpdateApiKey,
    RevokeApiKey,
    ListTeam,
    ChangeMember(&'p str),
    RemoveMember(&'p str),
    ListInvites,
    CreateInvite,
    GetInvite(&'p str),
    RevokeInvite(&'p str),
    ReadAuditLog,
    Hook(Hook<'p>),
    Unbound(Unbound<'p>),
}

#[derive(Debug, PartialEq, Eq)]
pub enum Miss {
    /// No such address.
    Path,
    /// The address takes other methods: the value of `Allow`.
    Method(String),
}

/// Finds the route of a path. `HEAD` is answered wherever `GET` is.
pub fn route<'p>(method: &Method, path: &'p str) -> Result<Route<'p>, Miss> {
    let segments = Segments::of(path).ok_or(Miss::Path)?;
    let asked = if method == Method::HEAD { &Method::GET } else { method };
    find(asked, segments.as_slice()).ok_or_else(|| {
        let allow = methods(segments.as_slice());
        if allow.is_empty() { Miss::Path } else { Miss::Method(allow.join(", ")) }
    })
}

/// Who may call an address by any of its methods; `None` where there is none. For preflights.
pub fn access_of(method: &Method, path: &str) -> Option<Access> {
    route(method, path).ok().map(Route::access)
}

fn find<'p>(method: &Method, segments: &[&'p str]) -> Option<Route<'p>> {
    Some(match (method.as_str(), segments) {
        ("POST", ["events"]) => Route::Track,
        ("POST", ["events", "batch"]) => Route::Batch,
        ("POST", ["users", "identify"]) => Route::Identify,
        ("GET", ["events"]) => Route::ListEvents,
        ("GET", ["events", "export"]) => Route::ExportEvents,
        ("GET", ["events", id]) if !NO_EVENTS.contains(id) => Route::GetEvent(id),
        ("DELETE", ["events", id]) if !NO_EVENTS.contains(id) => Route::DeleteEvent(id),
        ("GET", ["users"]) => Route::ListUsers,
        ("POST", ["users", "import"]) => Route::ImportUsers,
        ("GET", ["users", "import"]) => Route::ListImports,
        ("GET", ["users", "import", id]) => Route::GetImport(id),
        ("GET", ["users", "export"]) => Route::ExportUsers,
        ("GET", ["users", id]) if !NO_USERS.contains(id) => Route::GetUser(id),
        ("PUT", ["users", id]) if !NO_USERS.contains(id) => Route::UpdateUser(id),
        ("DELETE", ["users", id]) if !NO_USERS.contains(id) => Route::DeleteUser(id),
        ("GET", ["users", id, "subscriptions"]) if !NO_USERS.contains(id) => Route::GetSubscriptions(id),
        ("PUT", ["users", id, "subscriptions"]) if !NO_USERS.contains(id) => Route::ChangeSubscriptions(id),
        ("GET", ["templates"]) => Route::ListTemplates,
        ("POST", ["templates"]) => Route::CreateTemplate,
        ("GET", ["templates", id]) => Route::GetTemplate(id),
        ("PUT", ["templates", id]) => Route::UpdateTemplate(id),
        ("POST", ["templates", id, "preview"]) => Route::PreviewTemplate(id),
        ("DELETE", ["templates", id]) => Route::DeleteTemplate(id),
        ("GET", ["automations"]) => Route::ListAutomations,
        ("POST", ["automations"]) => Route::CreateAutomation,
        ("GET", ["automations", id]) => Route::GetAutomation(id),
        ("PUT", ["automations", id]) => Route::UpdateAutomation(id),
        ("DELETE", ["automations", id]) => Route::DeleteAutomation(id),
        ("GET", ["automations", id, "report"]) => Route::ReportAutomation(id),
        ("GET", ["automations", id, "runs"]) => Route::ListRuns(id),
        ("GET", ["automations", id, "runs", run]) => Route::GetRun(id, run),
        ("POST", ["automations", id, "simulate"]) => Route::SimulateAutomation(id),
        ("GET", ["segments"]) => Route::ListSegments,
        ("POST", ["segments"]) => Route::CreateSegment,
        ("POST", ["segments", "estimate"]) => Route::EstimateSegment,
        ("GET", ["segments", id]) if *id != "estimate" => Route::GetSegment(id),
        ("PUT", ["segments", id]) if *id != "estimate" => Route::UpdateSegment(id),
        ("DELETE", ["segments", id]) if *id != "estimate" => Route::DeleteSegment(id),
        ("GET", ["segments", id, "users"]) => Route::ListSegmentUsers(id),
        ("POST", ["segments", id, "members"]) => Route::ChangeSegmentMembers(id),
        ("GET", ["segments", id, "explain"]) => Route::ExplainSegment(id),
        ("GET", ["segments", id, "report"]) => Route::ReportSegment(id),
        ("GET", ["campaigns"]) => Route::ListCampaigns,
        ("POST", ["campaigns"]) => Route::CreateCampaign,
        ("GET", ["campaigns", id]) => Route::GetCampaign(id),
        ("PUT", ["campaigns", id]) => Route::UpdateCampaign(id),
        ("DELETE", ["campaigns", id]) => Route::DeleteCampaign(id),
        ("POST", ["campaigns", id, "send"]) => Route::SendCampaign(id),
        ("POST", ["campaigns", id, "pause"]) => Route::PauseCampaign(id),
        ("POST", ["campaigns", id, "resume"]) => Route::ResumeCampaign(id),
        ("POST", ["campaigns", id, "cancel"]) => Route::CancelCampaign(id),
        ("POST", ["campaigns", id, "test"]) => Route::TestCampaign(id),
        ("GET", ["campaigns", id, "report"]) => Route::ReportCampaign(id),
        ("GET", ["channels"]) => Route::GetChannels,
        ("PUT", ["channels"]) => Route::UpdateChannels,
        ("POST", ["channels", id, "test"]) => Route::TestChannel(id),
        ("GET", ["subscription-groups"]) => Route::ListSubscriptionGroups,
        ("POST", ["subscription-groups"]) => Route::CreateSubscriptionGroup,
        ("GET", ["subscription-groups", id]) => Route::GetSubscriptionGroup(id),
        ("PUT", ["subscription-groups", id]) => Route::UpdateSubscriptionGroup(id),
        ("DELETE", ["subscription-groups", id]) => Route::DeleteSubscriptionGroup(id),
        ("GET", ["suppressions"]) => Route::ListSuppressions,
        ("POST", ["suppressions"]) => Route::CreateSuppression,
        ("DELETE", ["suppressions"]) => Route::DeleteSuppression,
        ("POST", ["messages"]) => Route::SendMessage,
        ("GET", ["messages"]) => Route::ListMessages,
        ("GET", ["messages", id]) => Route::GetMessage(id),
        ("GET", ["dead-letters"]) => Route::ListDeadLetters,
        ("POST", ["dead-letters", "replay"]) => Route::ReplayDeadLetters,
        ("GET", ["news"]) => Route::ListNews,
        ("POST", ["news"]) => Route::CreateNews,
        ("GET", ["news", id]) => Route::GetNews(id),
        ("PUT", ["news", id]) => Route::UpdateNews(id),
        ("DELETE", ["news", id]) => Route::DeleteNews(id),
        ("GET", ["feed"]) => Route::Feed,
        ("GET", ["inbox"]) => Route::ListInbox,
        ("GET", ["inbox", "stream"]) => Route::StreamInbox,
        ("POST", ["inbox", id, "read"]) => Route::ReadInboxItem(id),
        ("GET", ["reports"]) => Route::GetReport,
        ("POST", ["ai", "generate"]) => Route::GenerateCopy,
        ("POST", ["push-tokens"]) => Route::RegisterPushToken,
        ("DELETE", ["push-tokens"]) => Route::RemovePushToken,
        ("GET", ["push-tokens"]) => Route::GetPushSettings,
        ("GET", ["push-tokens", "devices"]) => Route::ListDevices,
        ("POST", ["auth", "login"]) => Route::Unbound(Unbound::Login),
        ("POST", ["auth", "logout"]) => Route::Unbound(Unbound::Logout),
        ("GET", ["auth", "session"]) => Route::Unbound(Unbound::GetSession),
        ("POST", ["auth", "password"]) => Route::Unbound(Unbound::ChangePassword),
        ("GET", ["auth", "sessions"]) => Route::Unbound(Unbound::ListSessions),
        ("DELETE", ["auth", "sessions"]) => Route::Unbound(Unbound::EndOtherSessions),
        ("DELETE", ["auth", "sessions", id]) => Route::Unbound(Unbound::EndSession(id)),
        ("POST", ["auth", "invites", "accept"]) => Route::Unbound(Unbound::AcceptInvite),
        ("POST", ["webhook", id]) => Route::Unbound(Unbound::Webhook(id)),
        ("GET", ["projects"]) => Route::Unbound(Unbound::ListProjects),
        ("POST", ["projects"]) => Route::Unbound(Unbound::CreateProject),
        ("GET", ["projects", id]) => Route::GetProject(id),
        ("PUT", ["projects", id]) => Route::UpdateProject(id),
        ("DELETE", ["projects", id]) => Route::DeleteProject(id),
        ("POST", ["projects", id, "webhook-secret"]) => Route::RotateWebhookSecret(id),
        ("POST", ["projects", id, "identity-secret"]) => Route::RotateIdentitySecret(id),
        ("POST", ["projects", id, "signing-secret"]) => Route::RotateSigningSecret(id),
        ("GET", ["api-keys"]) => Route::ListApiKeys,
        ("POST", ["api-keys"]) => Route::CreateApiKey,
        ("PUT", ["api-keys"]) => Route::UpdateApiKey,
        ("DELETE", ["api-keys"]) => Route::RevokeApiKey,
        ("GET", ["team"]) => Route::ListTeam,
        ("GET", ["team", "invites"]) => Route::ListInvites,
        ("POST", ["team", "invites"]) => Route::CreateInvite,
        ("GET", ["team", "invites", id]) => Route::GetInvite(id),
        ("DELETE", ["team", "invites", id]) => Route::RevokeInvite(id),
        ("PUT", ["team", id]) if *id != "invites" => Route::ChangeMember(id),
        ("DELETE", ["team", id]) if *id != "invites" => Route::RemoveMember(id),
        ("GET", ["audit-log"]) => Route::ReadAuditLog,
        ("GET", ["webhook-endpoints"]) => Route::Hook(Hook::List),
        ("POST", ["webhook-endpoints"]) => Route::Hook(Hook::Create),
        ("GET", ["webhook-endpoints", id]) => Route::Hook(Hook::Get(id)),
        ("PUT", ["webhook-endpoints", id]) => Route::Hook(Hook::Update(id)),
        ("DELETE", ["webhook-endpoints", id]) => Route::Hook(Hook::Delete(id)),
        ("POST", ["webhook-endpoints", id, "rotate"]) => Route::Hook(Hook::Rotate(id)),
        ("POST", ["webhook-endpoints", id, "test"]) => Route::Hook(Hook::Test(id)),
        ("GET", ["webhook-endpoints", id, "deliveries"]) => Route::Hook(Hook::ListDeliveries(id)),
        ("GET", ["webhook-endpoints", id, "deliveries", delivery]) => Route::Hook(Hook::GetDelivery(id, delivery)),
        ("POST", ["webhook-endpoints", id, "deliveries", delivery, "resend"]) => Route::Hook(Resend(id, delivery)),
        _ => return None,
    })
}

/// The methods that an address takes; none where there is no such address.
pub fn methods(segments: &[&str]) -> Vec<&'static str> {
    let all = [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
    let mut found: Vec<&'static str> = Vec::new();
    for (method, name) in all.iter().zip(["GET", "POST", "PUT", "PATCH", "DELETE"]) {
        if find(method, segments).is_some() {
            found.push(name);
            if name == "GET" {
                found.push("HEAD");
            }
        }
    }
    if !found.is_empty() {
        found.push("OPTIONS");
    }
    found
}

#[cfg(test)]
mod tests;
