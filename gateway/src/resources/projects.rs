//! Projects and their settings.

mod input;
pub mod secrets;

use database::changes::Topic;
use database::{GenericClient, StoreError, Transaction};
use jiff::Timestamp;
use kernel::ids::{self, ProjectId};
use serde::Serialize;
use serde_json::{Map, Value, json};
use store_profiles::date_due;
use store_projects::accounts::{self, Account};
use store_projects::audit::{self, Actor, Change};
use store_projects::members::{self, Role};
use store_projects::project_removals;
use store_projects::projects::{self, Project, ProjectSecrets, creators};
use store_sending::project_deletion;
use uuid::Uuid;

use crate::app::App;
use crate::auth;
use crate::config::ProjectCreation;
use crate::context::Context;
use crate::http::error::ApiError;
use crate::http::etag::{EntityTag, Precondition};
use crate::http::request::Request;
use crate::http::respond::{Reply, created, deleted, ok};
use crate::resources::sessions::{MAX_BODY_BYTES, MembershipView};
use crate::resources::{audit_log, change_hint, idempotency, time_format};
use secrets::SecretsView;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ProjectView {
    id: Uuid,
    name: String,
    timezone: String,
    rate_limit: u32,
    retention_days: u32,
    tracking: bool,
    identity_verification: bool,
    role: &'static str,
    #[serde(serialize_with = "time_format::time")]
    created_at: Timestamp,
    #[serde(serialize_with = "time_format::time")]
    updated_at: Timestamp,
    /// For ADMINs only.
    #[serde(flatten)]
    secrets: Option<SecretsView>,
}

impl ProjectView {
    fn new(app: &App, project: Project, role: Role, secrets: Option<SecretsView>) -> Self {
        Self {
            id: project.id.0,
            name: project.name,
            timezone: project.timezone,
            // The effective limit: the operator may have lowered the maximum since.
            rate_limit: app.config.effective_rate_limit(project.rate_limit),
            retention_days: project.retention_days,
            tracking: project.tracking,
            identity_verification: project.identity_verification,
            role: role.as_str(),
            created_at: project.created_at,
            updated_at: project.updated_at,
            secrets,
        }
    }
}

/// Covers the settings but not the secrets, which other endpoints change.
fn tag(of: &Project) -> Result<EntityTag, ApiError> {
    let Project { name, timezone, rate_limit, retention_days, tracking, identity_verification, .. } = of;
    EntityTag::of(&(name, timezone, rate_limit, retention_days, tracking, identity_verification))
}

/// `GET /projects`
pub async fn list(app: &App, request: &Request<'_>) -> Result<Reply, ApiError> {
    let session = auth::require_session(&app.auth, request).await?;
    let found = members::memberships(&app.store.connection().await?, session.account.id).await?;
    ok(&json!({ "projects": found.into_iter().map(MembershipView::from).collect::<Vec<_>>() }))
}

/// `POST /projects`: creates a project. Its creator becomes the first ADMIN.
pub async fn create(app: &App, request: &Request<'_>) -> Result<Reply, ApiError> {
    let session = auth::require_session(&app.auth, request).await?;
    check_may_create(app, &session.account)?;
    let body = request.read_json(MAX_BODY_BYTES).await?;
    let now = app.clock.now();
    // With an idempotency key, derive the ID from it, so that a repeated request finds the project.
    let key = idempotency::key(request)?;
    let under_key = |key| idempotency::id_of(session.account.id, "project", key);
    let id = ProjectId(key.map_or_else(|| ids::fresh(now.as_millisecond()), under_key));
    let project = input::new_project(&body, id, now, app.config.max_rate_limit)?;
    let secrets = ProjectSecrets::random();
    let mut db = app.store.connection().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    // Serialize creations per account, so that concurrent requests detect repeats and the limit.
    accounts::lock(&tx, session.account.id).await?;
    if key.is_some()
        && let Some(made) = existing_project(app, &tx, session.account.id, id).await?
    {
        return Ok(made);
    }
    let max = app.config.max_projects_per_account;
    if creators::count_projects(&tx, session.account.id).await? >= max {
        return Err(ApiError::Conflict(format!(
            "your account has reached the limit of {max} projects; delete one first, or ask the operator of this \
             installation to raise MAX_PROJECTS_PER_ACCOUNT"
        )));
    }
    projects::insert(&tx, &app.master_keys, id, &project.name, &secrets, now).await?;
    projects::update(&tx, &project).await?;
    creators::set(&tx, id, session.account.id).await?;
    members::join(&tx, id, session.account.id, Role::Admin, now).await?;
    let change = Change {
        action: "project.created",
        resource_id: Some(id.to_string()),
        resource_name: Some(&project.name),
        details: json!({}),
        request_id: Some(request.request_id),
    };
    let actor = Actor::Account { id: session.account.id, email: session.account.email.clone() };
    audit::insert(&tx, id, ids::fresh(now.as_millisecond()), &actor, &change, now).await?;
    tx.commit().await.map_err(StoreError::from)?;
    change_hint::announce(&app.bus, Topic::Project).await;
    let tag = tag(&project)?;
    Ok(created(&ProjectView::new(app, project, Role::Admin, Some(SecretsView::new(secrets, now))))?.with_etag(&tag))
}

fn check_may_create(app: &App, account: &Account) -> Result<(), ApiError> {
    if app.config.project_creation == ProjectCreation::Operator {
        return Err(ApiError::Forbidden(
            "only the operator of this installation can create projects (PROJECT_CREATION=operator); ask them for one",
        ));
    }
    if !account.is_verified {
        return Err(ApiError::Forbidden(
            "your email address is not verified, so you cannot create projects; an invitation by mail verifies it",
        ));
    }
    Ok(())
}

/// Returns the project that the account has already created as `id`, if any.
async fn existing_project(
    app: &App,
    tx: &Transaction<'_>,
    account: Uuid,
    id: ProjectId,
) -> Result<Option<Reply>, ApiError> {
    if !project_removals::among(tx, &[id]).await?.is_empty() {
        return Err(idempotency::deleted_resource_error());
    }
    let Some(project) = projects::get(tx, id).await? else { return Ok(None) };
    let membership = members::membership_of(tx, account, id).await?.ok_or_else(idempotency::deleted_resource_error)?;
    let tag = tag(&project)?;
    Ok(Some(created(&view(app, tx, project, membership.role).await?)?.with_etag(&tag)))
}

/// `GET /projects/:id`
pub async fn get(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let db = cx.database().await?;
    let project = projects::get(&db, cx.project).await?.ok_or_else(|| ApiError::no_such("project"))?;
    let tag = tag(&project)?;
    Ok(ok(&view(cx.app, &db, project, role_of(cx)).await?)?.with_etag(&tag))
}

/// Returns the project as visible to a member with this role.
async fn view(app: &App, db: &impl GenericClient, project: Project, role: Role) -> Result<ProjectView, ApiError> {
    if role != Role::Admin {
        return Ok(ProjectView::new(app, project, role, None));
    }
    let secrets = projects::secrets(db, &app.master_keys, project.id).await?;
    let secrets = secrets.map(|secrets| SecretsView::new(secrets, app.clock.now()));
    Ok(ProjectView::new(app, project, role, secrets))
}

fn role_of(cx: &Context<'_>) -> Role {
    if cx.caller.is_admin() { Role::Admin } else { Role::Member }
}

/// `PUT /projects/:id`
pub async fn update(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let precondition = Precondition::of(cx.headers)?;
    let body = cx.read_json(MAX_BODY_BYTES).await?;
    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    let current = projects::get_for_update(&tx, cx.project).await?.ok_or_else(|| ApiError::no_such("project"))?;
    precondition.check("project", || tag(&current))?;
    let project = input::changed_project(&body, current.clone(), cx.app.clock.now(), cx.app.config.max_rate_limit)?;
    projects::update(&tx, &project).await?;
    if project.timezone != current.timezone {
        date_due::plan::request_scan(&tx, cx.project, project.updated_at).await?;
    }
    let details = Value::Object(differences(&current, &project));
    audit_log::record(cx, &tx, "project.updated", (cx.project.0, &project.name), details).await?;
    let tag = tag(&project)?;
    let shown = view(cx.app, &tx, project, role_of(cx)).await?;
    tx.commit().await.map_err(StoreError::from)?;
    change_hint::announce(&cx.app.bus, Topic::Project).await;
    Ok(ok(&shown)?.with_etag(&tag))
}

/// `DELETE /projects/:id`: deletes a project. It disappears and its keys stop working at once; its data is removed in
/// the background.
pub async fn delete(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let precondition = Precondition::of(cx.headers)?;
    let body = cx.read_json(MAX_BODY_BYTES).await?;
    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    let project = projects::get_for_update(&tx, cx.project).await?.ok_or_else(|| ApiError::no_such("project"))?;
    precondition.check("project", || tag(&project))?;
    input::confirm(&body, &project)?;
    project_deletion::delete(&tx, &project, cx.app.clock.now()).await?;
    audit_log::record(cx, &tx, "project.deleted", (cx.project.0, &project.name), json!({})).await?;
    tx.commit().await.map_err(StoreError::from)?;
    tracing::info!(project = %cx.project, "project deleted");
    change_hint::announce(&cx.app.bus, Topic::ApiKey).await;
    change_hint::announce(&cx.app.bus, Topic::Project).await;
    deleted()
}

/// Returns the changes made by an update, as `{ field: { from, to } }`.
fn differences(before: &Project, after: &Project) -> Map<String, Value> {
    let fields = |p: &Project| {
        [
            ("name", json!(p.name)),
            ("timezone", json!(p.timezone)),
            ("rateLimit", json!(p.rate_limit)),
            ("retentionDays", json!(p.retention_days)),
            ("tracking", json!(p.tracking)),
            ("identityVerification", json!(p.identity_verification)),
        ]
    };
    let pairs = fields(before).into_iter().zip(fields(after)).filter(|(from, to)| from != to);
    pairs.map(|((name, from), (_, to))| (name.to_owned(), json!({ "from": from, "to": to }))).collect()
}
