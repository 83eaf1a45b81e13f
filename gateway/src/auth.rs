//! Who calls, and whether they may: a key in the headers, found without the database where it was seen before, or the
//! session of somebody who is logged in.

pub(crate) mod cookie;
pub(crate) mod header;
pub mod identity;
pub mod key_cache;
pub mod last_used;
pub mod logins;
pub mod origins;
pub mod passwords;
pub mod recent_sessions;
pub mod session;
pub mod sign_in_queue;
mod standing;
mod watch;

pub use standing::Standing;
pub use watch::{begin, watch};

use std::sync::Arc;

use http::header::ORIGIN;
use kernel::ids::{IdSpace, OwnerId, ProjectId};
use store_projects::accounts::Account;
use store_projects::api_keys::{self, KeyHash, KeyType};
use store_projects::audit::Actor;
use store_projects::members::{self, Membership, Role};
use uuid::Uuid;

use crate::context::Request;
use crate::error::ApiError;
use crate::rate_limit::{Allowance, Lane, RateLimits};
use crate::router::Access;
use key_cache::KnownKey;
use session::Session;

const NO_KEY: ApiError = ApiError::Unauthorized(
    "invalid or missing API key: send one as `x-api-key: <key>` or `Authorization: Bearer <key>`",
);

/// Who was let into a project.
#[derive(Clone)]
pub enum Caller {
    Key(Arc<KnownKey>),
    Member { account: Account, role: Role },
}

impl Caller {
    /// Who stands in the audit log.
    pub fn actor(&self) -> Actor {
        match self {
            Self::Key(key) => Actor::ApiKey { id: key.id, prefix: key.prefix.clone() },
            Self::Member { account, .. } => Actor::Account { id: account.id, email: account.email.clone() },
        }
    }

    pub fn is_admin(&self) -> bool {
        matches!(self, Self::Member { role: Role::Admin, .. })
    }

    /// Whether it is somebody who is logged in.
    pub fn is_session(&self) -> bool {
        matches!(self, Self::Member { .. })
    }

    /// The account, where it is a session.
    pub fn account(&self) -> Option<Uuid> {
        match self {
            Self::Key(_) => None,
            Self::Member { account, .. } => Some(account.id),
        }
    }

    /// Whether it is a public key, which anybody may have read.
    pub fn is_public(&self) -> bool {
        matches!(self, Self::Key(key) if key.key_type == KeyType::Public)
    }

    /// Where the ids lie that it chooses.
    pub fn id_space(&self) -> IdSpace {
        if self.is_public() { IdSpace::PublicKey } else { IdSpace::SecretKey }
    }

    /// Whether the user ids that it names must be proven.
    pub fn must_prove_identity(&self) -> bool {
        matches!(self, Self::Key(key) if key.identity_verification && key.key_type == KeyType::Public)
    }
}

/// The hash of the key that a request brings, if it brings one.
pub fn key_hash(request: &Request<'_>) -> Option<KeyHash> {
    header::key(request.headers).map(api_keys::hash)
}

/// A caller and the project that it was let into.
pub struct Admission {
    pub project: ProjectId,
    pub owner: OwnerId,
    /// The project's limit, in requests per second.
    pub rate_limit: u32,
    pub caller: Caller,
}

impl Admission {
    /// Counts a request against the limits of the project and, where it has one, of the key.
    pub async fn allowance(&self, limits: &RateLimits) -> Allowance {
        let (project, limit) = (self.project, self.rate_limit);
        match &self.caller {
            Caller::Key(key) if key.key_type == KeyType::Public => match key.settings.rate_limit {
                Some(of_key) if of_key < limit => limits.take_of_key((project, limit), (key.id, of_key)).await,
                _ => limits.take(project, limit, Lane::Public).await,
            },
            Caller::Key(_) | Caller::Member { .. } => limits.take(project, limit, Lane::Priority).await,
        }
    }
}

/// Lets a request into the project that its key belongs to, or that a member names: by the path where that does, or else by a
/// header.
pub async fn admit(request: &Request<'_>, access: Access, in_path: Option<&str>) -> Result<Admission, ApiError> {
    match header::key(request.headers) {
        Some(text) if access.takes_keys() => by_key(request, text, access).await,
        given => match session::of(request).await? {
            Some(session) => by_session(request, session, access, in_path).await,
            None => Err(match given {
                Some(text) => key_in_place_of_session(request, text).await?,
                None if access.takes_keys() => NO_KEY,
                None => session::MISSING,
            }),
        },
    }
}

/// The session of a request that belongs to no project, where nobody else is let in.
pub async fn logged_in(request: &Request<'_>) -> Result<Session, ApiError> {
    match (session::of(request).await?, header::key(request.headers)) {
        (Some(session), _) => {
            request.app.account_limit.take(&session.account.id)?;
            Ok(session)
        }
        (None, Some(text)) => Err(key_in_place_of_session(request, text).await?),
        (None, None) => Err(session::MISSING),
    }
}

async fn known(request: &Request<'_>, text: &str) -> Result<Arc<KnownKey>, ApiError> {
    if !api_keys::looks_like_key(text) {
        return Err(NO_KEY);
    }
    let (keys, hash) = (&request.app.keys, api_keys::hash(text));
    if !keys.is_known(&hash) {
        request.check_refusals()?;
    }
    keys.find(&request.app.store, &hash).await?.ok_or(NO_KEY)
}

async fn by_key(request: &Request<'_>, text: &str, access: Access) -> Result<Admission, ApiError> {
    let key = known(request, text).await?;
    if key.key_type == KeyType::Public && access != Access::Public {
        return Err(ApiError::Forbidden("this address needs a secret key (sk_live_…); the one sent is public"));
    }
    if let Some(origin) = request.headers.get(ORIGIN)
        && !origins::allow(&key.settings.allowed_origins, origin.as_bytes())
    {
        return Err(ApiError::Forbidden(
            "this key is not allowed from the origin of this page; an ADMIN can add the origin to the key's allowed origins",
        ));
    }
    key.used(request.received_ms);
    let rate_limit = request.app.config.effective_rate_limit(key.rate_limit);
    Ok(Admission { project: key.project, owner: key.owner, rate_limit, caller: Caller::Key(key) })
}

/// What a key is told where only sessions are let in: that it is no use if it works, else that it does not.
async fn key_in_place_of_session(request: &Request<'_>, text: &str) -> Result<ApiError, ApiError> {
    known(request, text).await?;
    Ok(ApiError::Forbidden("this address takes no API key: log in with POST /auth/login"))
}

async fn by_session(
    request: &Request<'_>,
    session: Session,
    access: Access,
    in_path: Option<&str>,
) -> Result<Admission, ApiError> {
    let membership = membership(request, &session.account, in_path).await?;
    if access.needs_admin() && membership.role != Role::Admin {
        return Err(ApiError::Forbidden("this needs the role ADMIN in the project; yours is MEMBER"));
    }
    Ok(Admission {
        project: membership.project,
        owner: membership.owner,
        rate_limit: request.app.config.effective_rate_limit(membership.rate_limit),
        caller: Caller::Member { account: session.account, role: membership.role },
    })
}

/// What the account is in the project that the request names, by its path or by `X-Project-Id`. Who belongs to one project
/// only need not name it.
async fn membership(request: &Request<'_>, account: &Account, in_path: Option<&str>) -> Result<Membership, ApiError> {
    let missing = || ApiError::NotFound("no such project among yours".to_owned());
    let db = request.database().await?;
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
