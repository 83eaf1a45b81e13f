//! What is known of a route.

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
    /// Its path behind the base, `/users/:id`: metrics and traces are named by it.
    pub pattern: &'static str,
    pub access: Access,
    /// The names of the parameters that the handler gets.
    pub params: &'static [&'static str],
    pub handler: Handler,
    pub timeout: Timeout,
    pub limit: Limit,
    /// Whether the answer may be kept in caches.
    pub is_cacheable: bool,
    /// Whether a 404 counts as a refusal: whoever guesses gets them.
    pub is_guessable: bool,
    /// Whether its first parameter is the project that is asked for.
    pub names_project: bool,
}

/// One allocation a request, and no future is larger than its own handler's.
pub type Answering<'a> = Pin<Box<dyn Future<Output = Result<Reply, ApiError>> + Send + 'a>>;

#[derive(Clone, Copy)]
pub enum Handler {
    /// Of a request that was let into a project.
    InProject(for<'a> fn(&'a Context<'a>, Params<'a>) -> Answering<'a>),
    /// Of a request without a project: the handler authenticates the caller, and finds the project if there is one.
    Outside(for<'a> fn(&'a App, &'a Request<'a>, Params<'a>) -> Answering<'a>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// That of whatever asks the database.
    Usual,
    /// The handler keeps its own.
    Own,
}

/// What a request is counted against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The limits of the project and of the key.
    Project,
    /// The limit of the account whose session it is.
    Account,
    /// The requests from the client's address that were refused: not authorized.
    Refusals,
    /// Nothing before the handler looks the session up, which counts by the address and by the account.
    Session,
}

impl Route {
    /// As most of its access are.
    pub const fn new(
        method: &'static str,
        pattern: &'static str,
        access: Access,
        params: &'static [&'static str],
        handler: Handler,
    ) -> Self {
        let limit = match access {
            Access::Anyone => Limit::Refusals,
            Access::Session => Limit::Session,
            _ => Limit::Project,
        };
        Self {
            method,
            pattern,
            access,
            params,
            handler,
            timeout: Timeout::Usual,
            limit,
            is_cacheable: false,
            is_guessable: false,
            names_project: false,
        }
    }

    pub const fn own_timeout(self) -> Self {
        Self { timeout: Timeout::Own, ..self }
    }

    /// For what a leaked key must not keep anybody from, by using up the project's limit.
    pub const fn account_limit(self) -> Self {
        Self { limit: Limit::Account, ..self }
    }

    /// For answers of IDs alone, or the same for every caller of a project. Shared caches do not know the project.
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

/// Makes the table of lines `METHOD "pattern" Access => handler(parameters), options;`, of which each option is a function of
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

/// What is outside of any project takes the request and what it is served by.
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
