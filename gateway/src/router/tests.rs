use super::*;

#[test]
fn every_address_has_its_route() {
    let table = [
        ("POST", "/events", Route::Track),
        ("POST", "/events/", Route::Track),
        ("POST", "/events/batch", Route::Batch),
        ("POST", "/users/identify", Route::Identify),
        ("GET", "/events", Route::ListEvents),
        ("HEAD", "/events", Route::ListEvents),
        ("GET", "/events/e1", Route::GetEvent("e1")),
        ("GET", "/users", Route::ListUsers),
        ("GET", "/events/%62atch", Route::GetEvent("%62atch")),
        ("DELETE", "/events/e1", Route::DeleteEvent("e1")),
        ("GET", "/users/u%2F1", Route::GetUser("u%2F1")),
        ("GET", "/users/%69dentify", Route::GetUser("%69dentify")),
        ("POST", "/users/import", Route::ImportUsers),
        ("GET", "/users/import", Route::ListImports),
        ("GET", "/users/import/i", Route::GetImport("i")),
        ("GET", "/users/export", Route::ExportUsers),
        ("GET", "/users/%69mport", Route::GetUser("%69mport")),
        ("GET", "/events/export", Route::ExportEvents),
        ("PUT", "/users/u", Route::UpdateUser("u")),
        ("DELETE", "/users/u", Route::DeleteUser("u")),
        ("GET", "/users/u/subscriptions", Route::GetSubscriptions("u")),
        ("PUT", "/users/u/subscriptions", Route::ChangeSubscriptions("u")),
        ("GET", "/templates", Route::ListTemplates),
        ("POST", "/templates", Route::CreateTemplate),
        ("GET", "/templates/t", Route::GetTemplate("t")),
        ("PUT", "/templates/t", Route::UpdateTemplate("t")),
        ("DELETE", "/templates/t", Route::DeleteTemplate("t")),
        ("POST", "/templates/t/preview", Route::PreviewTemplate("t")),
        ("GET", "/automations", Route::ListAutomations),
        ("POST", "/automations", Route::CreateAutomation),
        ("GET", "/automations/a", Route::GetAutomation("a")),
        ("PUT", "/automations/a", Route::UpdateAutomation("a")),
        ("DELETE", "/automations/a", Route::DeleteAutomation("a")),
        ("GET", "/automations/a/report", Route::ReportAutomation("a")),
        ("GET", "/automations/a/runs", Route::ListRuns("a")),
        ("GET", "/automations/a/runs/b", Route::GetRun("a", "b")),
        ("POST", "/automations/a/simulate", Route::SimulateAutomation("a")),
        ("GET", "/segments", Route::ListSegments),
        ("POST", "/segments", Route::CreateSegment),
        ("POST", "/segments/estimate", Route::EstimateSegment),
        ("GET", "/segments/s", Route::GetSegment("s")),
        ("PUT", "/segments/s", Route::UpdateSegment("s")),
        ("DELETE", "/segments/s", Route::DeleteSegment("s")),
        ("GET", "/segments/s/users", Route::ListSegmentUsers("s")),
        ("POST", "/segments/s/members", Route::ChangeSegmentMembers("s")),
        ("GET", "/segments/s/explain", Route::ExplainSegment("s")),
        ("GET", "/segments/s/report", Route::ReportSegment("s")),
        ("GET", "/campaigns", Route::ListCampaigns),
        ("POST", "/campaigns", Route::CreateCampaign),
        ("GET", "/campaigns/c", Route::GetCampaign("c")),
        ("PUT", "/campaigns/c", Route::UpdateCampaign("c")),
        ("DELETE", "/campaigns/c", Route::DeleteCampaign("c")),
        ("POST", "/campaigns/c/send", Route::SendCampaign("c")),
        ("POST", "/campaigns/c/pause", Route::PauseCampaign("c")),
        ("POST", "/campaigns/c/resume", Route::ResumeCampaign("c")),
        ("POST", "/campaigns/c/cancel", Route::CancelCampaign("c")),
        ("POST", "/campaigns/c/test", Route::TestCampaign("c")),
        ("GET", "/campaigns/c/report", Route::ReportCampaign("c")),
        ("GET", "/channels", Route::GetChannels),
        ("PUT", "/channels", Route::UpdateChannels),
        ("POST", "/channels/email/test", Route::TestChannel("email")),
        ("DELETE", "/suppressions", Route::DeleteSuppression),
        ("POST", "/messages", Route::SendMessage),
        ("GET", "/messages", Route::ListMessages),
        ("GET", "/messages/m", Route::GetMessage("m")),
        ("GET", "/news", Route::ListNews),
        ("POST", "/news", Route::CreateNews),
        ("GET", "/news/n", Route::GetNews("n")),
        ("PUT", "/news/n", Route::UpdateNews("n")),
        ("DELETE", "/news/n", Route::DeleteNews("n")),
        ("GET", "/feed", Route::Feed),
        ("GET", "/inbox", Route::ListInbox),
        ("GET", "/inbox/stream", Route::StreamInbox),
        ("POST", "/inbox/m/read", Route::ReadInboxItem("m")),
        ("POST", "/ai/generate", Route::GenerateCopy),
        ("POST", "/push-tokens", Route::RegisterPushToken),
        ("DELETE", "/push-tokens", Route::RemovePushToken),
        ("GET", "/push-tokens", Route::GetPushSettings),
        ("GET", "/push-tokens/devices", Route::ListDevices),
        ("POST", "/auth/login", Route::Unbound(Unbound::Login)),
        ("GET", "/reports", Route::GetReport),
        ("POST", "/webhook/p", Route::Unbound(Unbound::Webhook("p"))),
        ("GET", "/projects/p", Route::GetProject("p")),
        ("GET", "/team/invites", Route::ListInvites),
        ("PUT", "/team/m", Route::ChangeMember("m")),
        ("POST", "/webhook-endpoints/w/test", Route::Hook(Hook::Test("w"))),
        ("POST", "/webhook-endpoints/w/deliveries/d/resend", Route::Hook(Resend("w", "d"))),
    ];
    for (method, path, expected) in table {
        let path = format!("{BASE}{path}");
        assert_eq!(route(&method.parse().unwrap(), &path), Ok(expected), "{method} {path}");
    }
}

#[test]
fn other_methods_are_told_which_there_are() {
    for (method, path, allow) in [
        ("PATCH", "/events", "GET, HEAD, POST, OPTIONS"),
        ("PUT", "/events/batch", "POST, OPTIONS"),
        ("GET", "/events/batch", "POST, OPTIONS"),
        ("GET", "/users/identify", "POST, OPTIONS"),
        ("DELETE", "/users/import", "GET, HEAD, POST, OPTIONS"),
        ("PUT", "/users/export", "GET, HEAD, OPTIONS"),
        ("POST", "/users/u", "GET, HEAD, PUT, DELETE, OPTIONS"),
        ("DELETE", "/channels", "GET, HEAD, PUT, OPTIONS"),
        ("POST", "/templates/t", "GET, HEAD, PUT, DELETE, OPTIONS"),
        ("BREW", "/messages", "GET, HEAD, POST, OPTIONS"),
        ("PUT", "/team/invites", "GET, HEAD, POST, OPTIONS"),
    ] {
        let path = format!("{BASE}{path}");
        let miss = route(&method.parse().unwrap(), &path);
        assert_eq!(miss, Err(Miss::Method(allow.to_owned())), "{method} {path}");
    }
}

#[test]
fn nothing_else_is_there() {
    for path in ["", "/", "/events", "/api/v1", "/api/v1/", "/api/v2/events", "/api/v1/nothing", "/api/v1//events"] {
        assert_eq!(route(&Method::GET, path), Err(Miss::Path), "{path:?}");
    }
    assert_eq!(route(&Method::GET, "/api/v1/events/a/b/c/d/e"), Err(Miss::Path));
}

#[test]
fn only_ingest_is_open_to_public_keys() {
    assert_eq!(access_of(&Method::POST, "/api/v1/events"), Some(Access::Public));
    assert_eq!(access_of(&Method::GET, "/api/v1/events"), Some(Access::Secret));
    assert_eq!(access_of(&Method::GET, "/api/v1/none"), None);
}
