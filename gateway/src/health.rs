//! Health endpoints for load balancers and supervisors.

pub mod readiness;

use std::sync::atomic::Ordering;

use serde_json::json;

use crate::app::App;
use crate::http::error::ApiError;
use crate::http::respond::{self, Reply};

/// Returns whether the gateway is not stopping and both broker and database are usable.
pub async fn ready(app: &App) -> readiness::Verdict {
    if app.draining.load(Ordering::Relaxed) {
        return Err("the gateway is stopping");
    }
    app.readiness.check(&app.publisher, &app.bus, &app.store).await
}

/// Handles `/healthz` (the process runs) and `/readyz` (the gateway can accept requests).
pub async fn handle(app: &App, path: &str) -> Result<Reply, ApiError> {
    if path == "/readyz" {
        ready(app).await.map_err(ApiError::Unavailable)?;
        return respond::ok(&json!({ "status": "ready" }));
    }
    respond::ok(&json!({ "status": "ok" }))
}
