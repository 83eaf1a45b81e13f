//! The definition of a route.

use std::pin::Pin;

use crate::app::App;
use crate::context::Context;
use crate::http::error::ApiError;
use crate::http::request::Request;
use crate::http::respond::Reply;
use crate::router::{Access, Params};

/// A line of the table.
pub struct Route {
    pub method: &'static str,
    /// The path after the base, such as `/users/:id`. Labels metrics and traces.
    pub pattern: &'static str,
    pub access: Access,
    /// The names of the handler's parameters.
    pub params: &'static [&'static str],
    pub handler: Handler,
    pub timeout: Timeout,
    pub limit: Limit,
    /// Whether caches may store the response.
    pub is_cacheable: bool,
    /// Whether a 404 counts as an authentication failure, because a caller may guess the identifier.
    pub is_guessable: bool,
    /// Whether the first parameter is the ID of the request's project.
    pub names_project: bool,
}

/// Boxed: one allocation per request, and each future is only as large as its own handler's.
pub type HandlerFuture<'a> = Pin<Box<dyn Future<Output = Result<Reply, ApiError>> + Send + 'a>>;

#[derive(Clone, Copy)]
pub enum Handler {
    /// Handles a request that was admitted to a project.
    InProject(for<'a> fn(&'a Context<'a>, Params<'a>) -> HandlerFuture<'a>),
    /// Handles a request outside of any project: the handler authenticates the caller, and finds the project if there is one.
    Outside(for<'a> fn(&'a App, &'a Request<'a>, Params<'a>) -> HandlerFuture<'a>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// The default timeout, which is meant for database queries.
    Default,
    /// The handler has its own timeout.
    Own,
}

/// The limit that a request counts against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The limits of the project and of the key.
    Project,
    /// The limit of the session's account.
    Account,
    /// The limit of failed authentications from the client's address.
    AuthFailures,
    /// None in `dispatch`: the handler's session lookup applies the limits of the address and the account.
    Session,
}

impl Route {
    /// Returns a route with the default options for its access level.
    pub const fn new(
        method: &'static str,
        pattern: &'static str,
        access: Access,
        params: &'static [&'static str],
        handler: Handler,
    ) -> Self {
        let limit = match access {
            Access::Anyone => Limit::AuthFailures,
            Access::Session => Limit::Session,
            _ => Limit::Project,
        };
        Self {
            method,
            pattern,
            access,
            params,
            handler,
            timeout: Timeout::Default,
            limit,
            is_cacheable: false,
            is_guessable: false,
            names_project: false,
        }
    }

    pub const fn own_timeout(self) -> Self {
        Self { timeout: Timeout::Own, ..self }
    }

    /// For operations that must stay available when a leaked key uses up the project's limit.
    pub const fn account_limit(self) -> Self {
        Self { limit: Limit::Account, ..self }
    }

    /// For responses that contain only IDs.
    pub const fn cacheable(self) -> Self {
        Self { is_cacheable: true, ..self }
    }

    pub const fn guessable(self) -> Self {
        Self { is_guessable: true, ..self }
    }

    pub const fn names_project(self) -> Self {
        Self { names_project: true, ..self }
    }
}

/// Builds the table from lines `METHOD "pattern" Access => handler(parameters), options;`. Each option is a function of
/// [`Route`].
macro_rules! routes {
    ($($method:ident $pattern:literal $access:ident => $($handler:ident)::+($($param:ident),*) $(, $option:ident)*;)*) => {
        &[$(
            Route::new(
                stringify!($method),
                $pattern,
                Access::$access,
                &[$(stringify!($param)),*],
                handler!($access, $($handler)::+, $($param),*),
            )
            $(.$option())*
        ),*]
    };
}

/// Handlers outside of a project take the app and the request instead of a context.
macro_rules! handler {
    (Anyone, $handler:expr, $($param:ident),*) => {
        Handler::Outside(|app, request, [$($param,)* ..]| Box::pin($handler(app, request, $($param),*)))
    };
    (Session, $handler:expr, $($param:ident),*) => { handler!(Anyone, $handler, $($param),*) };
    ($access:ident, $handler:expr, $($param:ident),*) => {
        Handler::InProject(|cx, [$($param,)* ..]| Box::pin($handler(cx, $($param),*)))
    };
}

pub(super) use {handler, routes};
