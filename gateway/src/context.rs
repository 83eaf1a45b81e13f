//! The context of a handler within a project.

use std::ops::Deref;

use database::Connection;
use kernel::ids::{OwnerId, ProjectId};

use crate::app::App;
use crate::auth::identity::IdentityVerifier;
use crate::auth::{Admission, Authorization, Caller};
use crate::http::error::ApiError;
use crate::http::request::Request;

/// A request that was admitted to a project.
pub struct Context<'a> {
    pub app: &'a App,
    request: &'a Request<'a>,
    pub project: ProjectId,
    /// Owner of the project.
    pub owner: OwnerId,
    pub caller: Caller,
}

impl<'a> Deref for Context<'a> {
    type Target = Request<'a>;

    fn deref(&self) -> &Request<'a> {
        self.request
    }
}

impl<'a> Context<'a> {
    pub fn new(app: &'a App, request: &'a Request<'a>, admission: Admission) -> Self {
        let Admission { project, owner, caller, .. } = admission;
        Self { app, request, project, owner, caller }
    }

    /// Returns a database connection, for a few statements.
    pub async fn database(&self) -> Result<Connection, ApiError> {
        Ok(self.app.store.connection().await?)
    }

    /// Returns the caller's authorization, to be rechecked during a long request.
    pub fn authorization(&self) -> Option<Authorization> {
        Authorization::of(&self.app.auth, self.request, self.project, &self.caller)
    }

    /// Returns the check of the user IDs that the request names. It requires no proof unless the project and the key demand it.
    pub async fn identity_verifier(&self) -> Result<IdentityVerifier, ApiError> {
        if self.caller.must_prove_identity() {
            self.required_identity_verifier().await
        } else {
            Ok(IdentityVerifier::none())
        }
    }

    /// Like [`Context::identity_verifier`], but requires proof from every caller.
    pub async fn required_identity_verifier(&self) -> Result<IdentityVerifier, ApiError> {
        IdentityVerifier::for_request(&self.app.auth, self.request, self.project).await
    }
}
