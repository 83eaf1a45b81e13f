//! Compiles direct emails written in MJML, as saving a template does. HTML is sent unchanged.

use domain::message::Channel;
use serde_json::{Map, Value};

use super::input::{CONTENT_MAX, DirectInput};
use crate::context::Context;
use crate::http::error::ApiError;
use crate::resources::rendering;
use crate::resources::templates::mail_body;

/// Compiles an MJML body into `compiled` of the content; `sent` is the request body. Returns a validation error with
/// the position if the body does not compile.
pub async fn compile(cx: &Context<'_>, sent: &Map<String, Value>, input: &mut DirectInput) -> Result<(), ApiError> {
    let body = input.content.get("body").and_then(Value::as_str).filter(|_| input.channel == Channel::Email);
    let Some(body) = body.filter(|body| mail_body::is_mjml(body)).map(str::to_owned) else { return Ok(()) };
    let field = if sent.get("content").is_some_and(Value::is_object) { "content.body" } else { "body" };
    let prepared = rendering::rendered(cx, move || mail_body::prepare(&body)).await?;
    let prepared = prepared.map_err(|error| ApiError::invalid(field, error.to_string()))?;
    if let Some(html) = prepared.compiled {
        input.content["compiled"] = Value::String(html);
    }
    if input.content.to_string().len() + input.data.to_string().len() > CONTENT_MAX {
        let why = format!("content, its compiled HTML and data must have at most {CONTENT_MAX} bytes together");
        return Err(ApiError::invalid(field, why));
    }
    Ok(())
}
