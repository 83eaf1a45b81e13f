//! The resources: a file each, and the one table from routes to handlers.

pub mod ai;
pub mod api_keys;
pub mod audit_log;
pub mod automations;
pub mod campaigns;
mod changed;
pub mod channels;
pub mod dead_letters;
pub mod events;
mod idempotency;
pub mod inbox;
pub mod invites;
pub mod messages;
pub mod news;
pub(crate) mod paging;
mod path;
pub mod projects;
pub mod push_tokens;
pub mod rendering;
pub mod reports;
pub mod segments;
pub mod sessions;
mod shape;
pub mod subscription_groups;
pub mod suppressions;
pub mod team;
pub mod templates;
pub mod users;
pub mod webhook;
pub mod webhook_endpoints;

use crate::app::App;
use crate::context::Context;
use crate::error::ApiError;
use crate::ingest;
use crate::request::Request;
use crate::respond::Reply;
use crate::router::{Route, Unbound};

/// Hands a request that was let into a project to its handler.
pub async fn handle(cx: &Context<'_>, route: Route<'_>) -> Result<Reply, ApiError> {
    match route {
        Route::Track => ingest::track(cx).await,
        Route::Batch => ingest::batch(cx).await,
        Route::Identify => ingest::identify(cx).await,
        Route::ListEvents => events::list(cx).await,
        Route::ExportEvents => events::export::run(cx).await,
        Route::GetEvent(id) => events::get(cx, id).await,
        Route::DeleteEvent(id) => events::delete(cx, id).await,
        Route::ListUsers => users::list(cx).await,
        Route::ImportUsers => users::import::run(cx).await,
        Route::ListImports => users::import::list(cx).await,
        Route::GetImport(id) => users::import::get(cx, id).await,
        Route::ExportUsers => users::export::run(cx).await,
        Route::GetUser(id) => users::get(cx, id).await,
        Route::UpdateUser(id) => users::change::update(cx, id).await,
        Route::DeleteUser(id) => users::change::erase(cx, id).await,
        Route::GetSubscriptions(id) => users::subscriptions::get(cx, id).await,
        Route::ChangeSubscriptions(id) => users::subscriptions::change(cx, id).await,
        Route::ListTemplates => templates::list(cx).await,
        Route::CreateTemplate => templates::create(cx).await,
        Route::GetTemplate(id) => templates::get(cx, id).await,
        Route::UpdateTemplate(id) => templates::update(cx, id).await,
        Route::DeleteTemplate(id) => templates::delete(cx, id).await,
        Route::PreviewTemplate(id) => templates::preview::preview(cx, id).await,
        Route::ListAutomations => automations::list(cx).await,
        Route::CreateAutomation => automations::create(cx).await,
        Route::GetAutomation(id) => automations::get(cx, id).await,
        Route::UpdateAutomation(id) => automations::update(cx, id).await,
        Route::DeleteAutomation(id) => automations::delete(cx, id).await,
        Route::ReportAutomation(id) => automations::report::report(cx, id).await,
        Route::ListRuns(id) => automations::runs::list(cx, id).await,
        Route::GetRun(id, run) => automations::runs::get(cx, id, run).await,
        Route::SimulateAutomation(id) => automations::simulate::simulate(cx, id).await,
        Route::ListSegments => segments::list(cx).await,
        Route::CreateSegment => segments::create(cx).await,
        Route::EstimateSegment => segments::estimate(cx).await,
        Route::GetSegment(id) => segments::get(cx, id).await,
        Route::UpdateSegment(id) => segments::update(cx, id).await,
        Route::DeleteSegment(id) => segments::delete(cx, id).await,
        Route::ListSegmentUsers(id) => segments::list_users(cx, id).await,
        Route::ChangeSegmentMembers(id) => segments::change_members(cx, id).await,
        Route::ExplainSegment(id) => segments::explain(cx, id).await,
        Route::ReportSegment(id) => segments::report(cx, id).await,
        Route::ListCampaigns => campaigns::list(cx).await,
        Route::CreateCampaign => campaigns::create(cx).await,
        Route::GetCampaign(id) => campaigns::get(cx, id).await,
        Route::UpdateCampaign(id) => campaigns::update(cx, id).await,
        Route::DeleteCampaign(id) => campaigns::delete(cx, id).await,
        Route::SendCampaign(id) => campaigns::send(cx, id).await,
        Route::PauseCampaign(id) => campaigns::pause(cx, id).await,
        Route::ResumeCampaign(id) => campaigns::resume(cx, id).await,
        Route::CancelCampaign(id) => campaigns::cancel(cx, id).await,
        Route::TestCampaign(id) => campaigns::test(cx, id).await,
        Route::ReportCampaign(id) => campaigns::report(cx, id).await,
        Route::GetChannels => channels::get(cx).await,
        Route::UpdateChannels => channels::update(cx).await,
        Route::ListSubscriptionGroups => subscription_groups::list(cx).await,
        Route::CreateSubscriptionGroup => subscription_groups::create(cx).await,
        Route::GetSubscriptionGroup(id) => subscription_groups::get(cx, id).await,
        Route::UpdateSubscriptionGroup(id) => subscription_groups::update(cx, id).await,
        Route::DeleteSubscriptionGroup(id) => subscription_groups::delete(cx, id).await,
        Route::ListSuppressions => suppressions::list(cx).await,
        Route::CreateSuppression => suppressions::create(cx).await,
        Route::DeleteSuppression => suppressions::delete(cx).await,
        Route::TestChannel(channel) => channels::test(cx, channel).await,
        Route::SendMessage => messages::send(cx).await,
        Route::ListMessages => messages::list(cx).await,
        Route::GetMessage(id) => messages::get(cx, id).await,
        Route::ListNews => news::list(cx).await,
        Route::CreateNews => news::create(cx).await,
        Route::GetNews(id) => news::get(cx, id).await,
        Route::UpdateNews(id) => news::update(cx, id).await,
        Route::DeleteNews(id) => news::delete(cx, id).await,
        Route::Feed => news::feed(cx).await,
        Route::ListInbox => inbox::list(cx).await,
        Route::StreamInbox => inbox::stream(cx).await,
        Route::ReadInboxItem(id) => inbox::read(cx, id).await,
        Route::GetReport => reports::get(cx).await,
        Route::GenerateCopy => ai::generate(cx).await,
        Route::RegisterPushToken => push_tokens::register(cx).await,
        Route::RemovePushToken => push_tokens::remove(cx).await,
        Route::GetPushSettings => push_tokens::settings(cx).await,
        Route::ListDevices => push_tokens::devices::list(cx).await,
        // The path's project is the one that the request was let into.
        Route::GetProject(_) => projects::get(cx).await,
        Route::UpdateProject(_) => projects::update(cx).await,
        Route::DeleteProject(_) => projects::delete(cx).await,
        Route::RotateWebhookSecret(_) => projects::rotate_webhook_secret(cx).await,
        Route::RotateIdentitySecret(_) => projects::rotate_identity_secret(cx).await,
        Route::RotateSigningSecret(_) => projects::rotate_signing_secret(cx).await,
        Route::ListApiKeys => api_keys::list(cx).await,
        Route::CreateApiKey => api_keys::create(cx).await,
        Route::UpdateApiKey => api_keys::update(cx).await,
        Route::RevokeApiKey => api_keys::revoke(cx).await,
        Route::ListTeam => team::list(cx).await,
        Route::ChangeMember(id) => team::change(cx, id).await,
        Route::RemoveMember(id) => team::remove(cx, id).await,
        Route::ListInvites => invites::list(cx).await,
        Route::CreateInvite => invites::create(cx).await,
        Route::GetInvite(id) => invites::get(cx, id).await,
        Route::RevokeInvite(id) => invites::revoke(cx, id).await,
        Route::ListDeadLetters => dead_letters::list(cx).await,
        Route::ReplayDeadLetters => dead_letters::replay(cx).await,
        Route::ReadAuditLog => audit_log::list(cx).await,
        Route::Hook(route) => webhook_endpoints::handle(cx, route).await,
        Route::Unbound(route) => handle_unbound(cx.app, cx, route).await,
    }
}

/// Hands a request that belongs to no project to its handler, which finds out by itself who calls.
pub async fn handle_unbound(app: &App, request: &Request<'_>, route: Unbound<'_>) -> Result<Reply, ApiError> {
    match route {
        Unbound::Login => sessions::login(app, request).await,
        Unbound::Logout => sessions::logout(app, request).await,
        Unbound::GetSession => sessions::get(app, request).await,
        Unbound::ChangePassword => sessions::change_password(app, request).await,
        Unbound::ListSessions => sessions::list(app, request).await,
        Unbound::EndOtherSessions => sessions::end_others(app, request).await,
        Unbound::EndSession(id) => sessions::end(app, request, id).await,
        Unbound::AcceptInvite => invites::accept::accept(app, request).await,
        Unbound::ListProjects => projects::list(app, request).await,
        Unbound::CreateProject => projects::create(app, request).await,
        Unbound::Webhook(project) => webhook::receive(app, request, project).await,
    }
}
