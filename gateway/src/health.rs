//! Whether this gateway can do its work: asked by load balancers and supervisors.

pub mod readiness;

use std::sync::atomic::Ordering;

use serde_json::json;

use crate::app::App;
use crate::http::error::ApiError;
use crate::http::respond::{self, Reply};

/// Not while it stops, and only if broker and database can be used.
pub async fn ready(app: &App) -> readiness::Verdict {
    if app.draining.load(Ordering::Relaxed) {
        return Err("the gateway is stopping");
    }
    app.readiness.ask(&app.publisher, &app.bus, &app.store).await
}

/// `/healthz`: the process runs. `/readyz`: it can do its work.
pub async fn answer(app: &App, path: &str) -> Result<Reply, ApiError> {
    if path == "/readyz" {
        ready(app).await.map_err(ApiError::Unavailable)?;
        return respond::ok(&json!({ "status": "ready" }));
    }
    respond::ok(&json!({ "status": "ok" }))
}
