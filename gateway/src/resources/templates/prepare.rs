//! Compiles email bodies when they are saved; slow, so it runs before the row is locked.

use domain::message::Channel;
use store_projects::templates::StoredTemplate;

use crate::context::Context;
use crate::http::error::ApiError;
use crate::resources::rendering;
use crate::resources::templates::mail_body::{self, PreparedBody};

/// Compiles an email body. Bodies of other channels need no compilation.
pub async fn body(cx: &Context<'_>, channel: Channel, body: &str) -> Result<PreparedBody, ApiError> {
    if channel != Channel::Email {
        return Ok(PreparedBody::default());
    }
    let body = body.to_owned();
    let prepared = rendering::rendered(cx, move || mail_body::prepare(&body)).await?;
    prepared.map_err(|error| ApiError::invalid("body", error.to_string()))
}

pub fn apply(prepared: PreparedBody, template: &mut StoredTemplate) {
    template.compiled = prepared.compiled;
    template.not_inlined = prepared.not_inlined;
}
