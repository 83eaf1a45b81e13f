//! Admits requests by an API key or by the session of a logged-in account.

use std::sync::Arc;

use http::header::ORIGIN;
use kernel::ids::{OwnerId, ProjectId};
use store_projects::accounts::Account;
use store_projects::api_keys::{self, KeyType};
use store_projects::members::{self, Membership, Role};
use uuid::Uuid;

use super::caller::Caller;
use super::key_cache::CachedKey;
use super::session::{self, Session};
use super::state::Auth;
use super::{header, origins};
use crate::config::GatewayConfig;
use crate::http::error::ApiError;
use crate::http::request::Request;
use crate::limits::rate_limit::{Allowance, Lane, PublicKey, RateLimits};
use crate::router::Access;

const INVALID_KEY: ApiError = ApiError::Unauthorized(
    "invalid or missing API key: send one as `x-api-key: <key>` or `Authorization: Bearer <key>`",
);

/// A caller and the project that it was admitted to.
pub struct Admission {
    pub project: ProjectId,
    pub owner: OwnerId,
    /// The project's limit as it is stored, in requests per second.
    pub rate_limit: u32,
    pub caller: Caller,
}

impl Admission {
    /// Counts a request against the limit of the project and, for a public key with a lower limit of its own, against that of the key.
    pub async fn allowance(&self, limits: &RateLimits, config: &GatewayConfig) -> Allowance {
        let (project, limit) = (self.project, config.effective_rate_limit(self.rate_limit));
        match &self.caller {
            Caller::Key(key) if key.key_type == KeyType::Public => match key.settings.rate_limit {
                Some(of_key) if of_key < limit => {
                    limits.take_for_key(project, limit, PublicKey { id: key.id, limit: of_key }).await
                }
                _ => limits.take(project, limit, Lane::Public).await,
            },
            Caller::Key(_) | Caller::Member { .. } => limits.take(project, limit, Lane::Priority).await,
        }
    }
}

/// Admits a request to a project: the project of its key or, for a session, the one named in the path or in `X-Project-Id`.
///
/// Fails with 401 if the key or session is missing or invalid, with 403 if it lacks the permission.
pub async fn admit(
    auth: &Auth,
    request: &Request<'_>,
    access: Access,
    in_path: Option<&str>,
) -> Result<Admission, ApiError> {
    match header::key(request.headers) {
        Some(text) if access.accepts_keys() => by_key(auth, request, text, access).await,
        given => match session::authenticate(auth, request).await? {
            Some(session) => by_session(auth, request, session, access, in_path).await,
            None => Err(match given {
                Some(text) => key_not_accepted(auth, request, text).await?,
                None if access.accepts_keys() => INVALID_KEY,
                None => session::SESSION_REQUIRED,
            }),
        },
    }
}

/// Returns the session of a request outside of any project. Fails with 401 or 403 for all other callers.
pub async fn require_session(auth: &Auth, request: &Request<'_>) -> Result<Session, ApiError> {
    match (session::authenticate(auth, request).await?, header::key(request.headers)) {
        (Some(session), _) => {
            auth.account_limit.take(&session.account.id)?;
            Ok(session)
        }
        (None, Some(text)) => Err(key_not_accepted(auth, request, text).await?),
        (None, None) => Err(session::SESSION_REQUIRED),
    }
}

async fn find_key(auth: &Auth, request: &Request<'_>, text: &str) -> Result<Arc<CachedKey>, ApiError> {
    if !api_keys::has_key_format(text) {
        return Err(INVALID_KEY);
    }
    let (keys, hash) = (&auth.keys, api_keys::hash(text));
    if !keys.is_cached(&hash) {
        auth.check_auth_failures(request)?;
    }
    keys.find(&auth.store, &hash).await?.ok_or(INVALID_KEY)
}

async fn by_key(auth: &Auth, request: &Request<'_>, text: &str, access: Access) -> Result<Admission, ApiError> {
    let key = find_key(auth, request, text).await?;
    if key.key_type == KeyType::Public && access != Access::Public {
        return Err(ApiError::Forbidden(
            "this route requires a secret key (sk_live_…); the key that was sent is public",
        ));
    }
    if let Some(origin) = request.headers.get(ORIGIN)
        && !origins::is_allowed(&key.settings.allowed_origins, origin.as_bytes())
    {
        return Err(ApiError::Forbidden(
            "this key is not allowed from the origin of this page; an ADMIN can add the origin to the key's allowed origins",
        ));
    }
    key.record_use(request.received_ms);
    Ok(Admission { project: key.project, owner: key.owner, rate_limit: key.rate_limit, caller: Caller::Key(key) })
}

/// Returns the error for an API key on a route that takes only sessions: 403 if the key is valid, 401 otherwise.
async fn key_not_accepted(auth: &Auth, request: &Request<'_>, text: &str) -> Result<ApiError, ApiError> {
    find_key(auth, request, text).await?;
    Ok(ApiError::Forbidden("this route does not accept API keys: log in with POST /auth/login"))
}

async fn by_session(
    auth: &Auth,
    request: &Request<'_>,
    session: Session,
    access: Access,
    in_path: Option<&str>,
) -> Result<Admission, ApiError> {
    let membership = membership(auth, request, &session.account, in_path).await?;
    if access.needs_admin() && membership.role != Role::Admin {
        return Err(ApiError::Forbidden("this request requires the role ADMIN in the project; yours is MEMBER"));
    }
    Ok(Admission {
        project: membership.project,
        owner: membership.owner,
        rate_limit: membership.rate_limit,
        caller: Caller::Member { account: session.account, role: membership.role },
    })
}

/// Returns the account's membership in the project that the path or `X-Project-Id` names.
///
/// An account with exactly one project need not name it.
async fn membership(
    auth: &Auth,
    request: &Request<'_>,
    account: &Account,
    in_path: Option<&str>,
) -> Result<Membership, ApiError> {
    let missing = || ApiError::NotFound("your account has no such project".to_owned());
    let db = auth.store.connection().await?;
    if let Some(named) = in_path.or_else(|| request.header("x-project-id")) {
        let project = Uuid::try_parse(named).map(ProjectId).map_err(|_| missing())?;
        return members::membership_of(&db, account.id, project).await?.ok_or_else(missing);
    }
    let mut all = members::memberships(&db, account.id).await?;
    match (all.pop(), all.is_empty()) {
        (Some(only), true) => Ok(only),
        (None, _) => Err(missing()),
        (Some(_), false) => Err(ApiError::invalid("X-Project-Id", "is required: the id of one of your projects")),
    }
}
