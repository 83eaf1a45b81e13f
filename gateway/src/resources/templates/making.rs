//! Compiles email bodies when they are saved; slow, so it runs before the row is locked.

use domain::message::Channel;
use store_projects::templates::StoredTemplate;

use crate::context::Context;
use crate::http::error::ApiError;
use crate::resources::rendering;
use crate::resources::templates::mail_body::{self, Made};

/// Compiles an email body. Bodies of other channels need no compilation.
pub async fn of(cx: &Context<'_>, channel: Channel, body: &str) -> Result<Made, ApiError> {
    if channel != Channel::Email {
        return Ok(Made::default());
    }
    let body = body.to_owned();
    let made = rendering::rendered(cx, move || mail_body::made(&body)).await?;
    made.map_err(|error| ApiError::invalid("body", error.to_string()))
}

pub fn put(made: Made, template: &mut StoredTemplate) {
    template.compiled = made.compiled;
    template.not_inlined = made.not_inlined;
}
