//! The table of routes. A new route needs a line here and a handler.

mod route;

use std::sync::LazyLock;

use http::Method;

use crate::ingest;
use crate::resources::{
    ai, api_keys, audit_log, automations, campaigns, channels, dead_letters, events, inbox, invites, messages, news,
    projects, push_tokens, reports, segments, sessions, subscription_groups, suppressions, team, templates, users,
    webhook, webhook_endpoints,
};
use crate::router::{Access, Endpoint, NoRoute, Params, Router};
use route::{handler, routes};

pub use route::{Handler, HandlerFuture, Limit, Route, Timeout};

/// Resources whose IDs callers choose.
///
/// Such an ID may equal a literal segment of a path, such as `export`; it is then percent-encoded.
const CALLER_CHOSEN_IDS: [&str; 2] = ["events", "users"];

/// Each line: `METHOD "pattern" Access => handler(parameters), options;`. The options are functions of [`Route`].
pub static ROUTES: &[Route] = routes! {
    POST   "/events"                                  Public        => ingest::track(), own_timeout, cacheable;
    POST   "/events/batch"                            Public        => ingest::batch(), own_timeout, cacheable;
    GET    "/events"                                  Secret        => events::list();
    GET    "/events/export"                           Secret        => events::export::run();
    GET    "/events/:id"                              Secret        => events::get(id);
    DELETE "/events/:id"                              Secret        => events::delete(id);

    POST   "/users/identify"                          Public        => ingest::identify(), own_timeout, cacheable;
    GET    "/users"                                   Secret        => users::list();
    POST   "/users/import"                            Secret        => users::import::run(), own_timeout;
    GET    "/users/import"                            Secret        => users::import::list();
    GET    "/users/import/:id"                        Secret        => users::import::get(id);
    GET    "/users/export"                            Secret        => users::export::run();
    GET    "/users/:id"                               Secret        => users::get(id);
    PUT    "/users/:id"                               Secret        => users::change::update(id);
    DELETE "/users/:id"                               Secret        => users::change::erase(id);
    GET    "/users/:id/subscriptions"                 Secret        => users::subscriptions::get(id);
    PUT    "/users/:id/subscriptions"                 Secret        => users::subscriptions::change(id);

    GET    "/templates"                               Secret        => templates::list();
    POST   "/templates"                               Secret        => templates::create();
    GET    "/templates/:id"                           Secret        => templates::get(id);
    PUT    "/templates/:id"                           Secret        => templates::update(id);
    POST   "/templates/:id/preview"                   Secret        => templates::preview::preview(id);
    DELETE "/templates/:id"                           Secret        => templates::delete(id);

    GET    "/automations"                             Secret        => automations::list();
    POST   "/automations"                             Secret        => automations::create();
    GET    "/automations/:id"                         Secret        => automations::get(id);
    PUT    "/automations/:id"                         Secret        => automations::update(id);
    DELETE "/automations/:id"                         Secret        => automations::delete(id);
    GET    "/automations/:id/report"                  Secret        => automations::report::report(id);
    GET    "/automations/:id/runs"                    Secret        => automations::runs::list(id);
    GET    "/automations/:id/runs/:run"               Secret        => automations::runs::get(id, run);
    POST   "/automations/:id/simulate"                Secret        => automations::simulate::simulate(id);

    GET    "/segments"                                Secret        => segments::list();
    POST   "/segments"                                Secret        => segments::create();
    POST   "/segments/estimate"                       Secret        => segments::estimate();
    GET    "/segments/:id"                            Secret        => segments::get(id);
    PUT    "/segments/:id"                            Secret        => segments::update(id);
    DELETE "/segments/:id"                            Secret        => segments::delete(id);
    GET    "/segments/:id/users"                      Secret        => segments::list_users(id);
    POST   "/segments/:id/members"                    Secret        => segments::change_members(id);
    GET    "/segments/:id/explain"                    Secret        => segments::explain(id);
    GET    "/segments/:id/report"                     Secret        => segments::report(id);

    GET    "/campaigns"                               Secret        => campaigns::list();
    POST   "/campaigns"                               Secret        => campaigns::create();
    GET    "/campaigns/:id"                           Secret        => campaigns::get(id);
    PUT    "/campaigns/:id"                           Secret        => campaigns::update(id);
    DELETE "/campaigns/:id"                           Secret        => campaigns::delete(id);
    POST   "/campaigns/:id/send"                      Secret        => campaigns::send(id);
    POST   "/campaigns/:id/pause"                     Secret        => campaigns::pause(id);
    POST   "/campaigns/:id/resume"                    Secret        => campaigns::resume(id);
    POST   "/campaigns/:id/cancel"                    Secret        => campaigns::cancel(id);
    POST   "/campaigns/:id/test"                      Secret        => campaigns::test(id);
    GET    "/campaigns/:id/report"                    Secret        => campaigns::report(id);

    GET    "/channels"                                Secret        => channels::get();
    PUT    "/channels"                                SecretOrAdmin => channels::update();
    POST   "/channels/:id/test"                       SecretOrAdmin => channels::test(id);

    GET    "/subscription-groups"                     Secret        => subscription_groups::list();
    POST   "/subscription-groups"                     Secret        => subscription_groups::create();
    GET    "/subscription-groups/:id"                 Secret        => subscription_groups::get(id);
    PUT    "/subscription-groups/:id"                 Secret        => subscription_groups::update(id);
    DELETE "/subscription-groups/:id"                 Secret        => subscription_groups::delete(id);

    GET    "/suppressions"                            Secret        => suppressions::list();
    POST   "/suppressions"                            Secret        => suppressions::create();
    DELETE "/suppressions"                            Secret        => suppressions::delete();

    POST   "/messages"                                Secret        => messages::send();
    GET    "/messages"                                Secret        => messages::list();
    GET    "/messages/:id"                            Secret        => messages::get(id);
    GET    "/dead-letters"                            Secret        => dead_letters::list();
    POST   "/dead-letters/replay"                     Secret        => dead_letters::replay();

    GET    "/news"                                    Secret        => news::list();
    POST   "/news"                                    Secret        => news::create();
    GET    "/news/:id"                                Secret        => news::get(id);
    PUT    "/news/:id"                                Secret        => news::update(id);
    DELETE "/news/:id"                                Secret        => news::delete(id);
    GET    "/feed"                                    Public        => news::feed();

    GET    "/inbox"                                   Public        => inbox::list();
    GET    "/inbox/stream"                            Public        => inbox::stream();
    POST   "/inbox/:id/read"                          Public        => inbox::read(id);

    GET    "/reports"                                 Secret        => reports::get();
    POST   "/ai/generate"                             Secret        => ai::generate(), own_timeout;

    POST   "/push-tokens"                             Public        => push_tokens::register();
    DELETE "/push-tokens"                             Public        => push_tokens::remove();
    GET    "/push-tokens"                             Public        => push_tokens::settings();
    GET    "/push-tokens/devices"                     Secret        => push_tokens::devices::list();

    POST   "/auth/login"                              Anyone        => sessions::login();
    POST   "/auth/logout"                             Session       => sessions::logout();
    GET    "/auth/session"                            Session       => sessions::get();
    POST   "/auth/password"                           Session       => sessions::change_password();
    GET    "/auth/sessions"                           Session       => sessions::list();
    DELETE "/auth/sessions"                           Session       => sessions::end_others();
    DELETE "/auth/sessions/:id"                       Session       => sessions::end(id);
    POST   "/auth/invites/accept"                     Anyone        => invites::accept::accept(), guessable;

    GET    "/projects"                                Session       => projects::list();
    POST   "/projects"                                Session       => projects::create();
    // The path names the project that the caller must be a member of.
    GET    "/projects/:id"                            Member        => projects::get(), names_project;
    PUT    "/projects/:id"                            Admin         => projects::update(), names_project;
    DELETE "/projects/:id"                            Admin         => projects::delete(), names_project;
    POST   "/projects/:id/webhook-secret"             Admin         => projects::secrets::rotate_webhook(), names_project;
    POST   "/projects/:id/identity-secret"            Admin         => projects::secrets::rotate_identity(), names_project;
    POST   "/projects/:id/signing-secret"             Admin         => projects::secrets::rotate_signing(), names_project;

    GET    "/api-keys"                                Admin         => api_keys::list(), account_limit;
    POST   "/api-keys"                                Admin         => api_keys::create();
    PUT    "/api-keys"                                Admin         => api_keys::update();
    DELETE "/api-keys"                                Admin         => api_keys::revoke(), account_limit;

    GET    "/team"                                    Member        => team::list();
    GET    "/team/invites"                            Admin         => invites::list();
    POST   "/team/invites"                            Admin         => invites::create();
    GET    "/team/invites/:id"                        Admin         => invites::get(id);
    DELETE "/team/invites/:id"                        Admin         => invites::revoke(id);
    PUT    "/team/:id"                                Admin         => team::change(id);
    DELETE "/team/:id"                                Admin         => team::remove(id);

    GET    "/audit-log"                               Admin         => audit_log::list();

    GET    "/webhook-endpoints"                       Admin         => webhook_endpoints::list();
    POST   "/webhook-endpoints"                       Admin         => webhook_endpoints::create();
    GET    "/webhook-endpoints/:id"                   Admin         => webhook_endpoints::get(id);
    PUT    "/webhook-endpoints/:id"                   Admin         => webhook_endpoints::update(id);
    DELETE "/webhook-endpoints/:id"                   Admin         => webhook_endpoints::delete(id);
    POST   "/webhook-endpoints/:id/rotate"            Admin         => webhook_endpoints::rotate(id);
    POST   "/webhook-endpoints/:id/test"              Admin         => webhook_endpoints::deliveries::test(id);
    GET    "/webhook-endpoints/:id/deliveries"        Admin         => webhook_endpoints::deliveries::list(id);
    GET    "/webhook-endpoints/:id/deliveries/:delivery" Admin => webhook_endpoints::deliveries::get(id, delivery);
    POST   "/webhook-endpoints/:id/deliveries/:delivery/resend" Admin => webhook_endpoints::deliveries::resend(id, delivery);
    POST   "/webhook/:id"                             Anyone        => webhook::receive(id), guessable;
};

static ROUTER: LazyLock<Router> = LazyLock::new(|| {
    Router::new(
        ROUTES.iter().map(|route| Endpoint { method: route.method, pattern: route.pattern }),
        &CALLER_CHOSEN_IDS,
    )
});

/// A matched route.
#[derive(Clone, Copy)]
pub struct RouteMatch<'p> {
    pub route: &'static Route,
    pub params: Params<'p>,
}

impl<'p> RouteMatch<'p> {
    /// Returns the project that the path names, if it does.
    pub fn project(&self) -> Option<&'p str> {
        self.route.names_project.then_some(self.params[0])
    }
}

/// Finds the route of a method and path.
pub fn find<'p>(method: &Method, path: &'p str) -> Result<RouteMatch<'p>, NoRoute> {
    let (number, params) = ROUTER.find(method, path)?;
    Ok(RouteMatch { route: &ROUTES[number], params })
}

/// Returns who may call a path with a method, or `None` if it does not support the method. For preflights.
pub fn access_of(method: &Method, path: &str) -> Option<Access> {
    find(method, path).ok().map(|found| found.route.access)
}

/// Returns the methods of a path that public keys may call.
pub fn open_methods(path: &str) -> Vec<&'static str> {
    let all = [Method::GET, Method::POST, Method::PUT, Method::DELETE];
    let open = |m: &Method| access_of(m, path) == Some(Access::Public);
    all.iter().zip(["GET", "POST", "PUT", "DELETE"]).filter(|(m, _)| open(m)).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests;
