//! Message texts written by a language model.

mod copy;
pub mod provider;

use domain::message::Channel;
use serde::Serialize;
use serde_json::Value;

use crate::context::Context;
use crate::http::body;
use crate::http::error::ApiError;
use crate::http::fields::{Fields, Text};
use crate::http::respond::{Reply, ok};
use crate::resources::ai::provider::AiError;
use copy::Copy;

const CONTEXT: Text = Text::any(4_000);
const TONE: Text = Text::line(100);

#[derive(Serialize)]
struct CopyView {
    title: String,
    body: String,
}

/// `POST /ai/generate`
pub async fn generate(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let body = cx.read_json(body::MAX_BYTES).await?;
    let mut fields = Fields::of(&body);
    fields.not_null(&["tone"]);
    let channel = fields.element("channel").filter(|c| !c.value().is_null());
    let known = channel.as_ref().and_then(|c| c.value().as_str()).and_then(Channel::parse);
    if known.is_none() {
        let names = Channel::ALL.map(Channel::as_str).join(", ");
        fields.problem("channel", format!("is required, one of {names}, in either case"));
    }
    let context = fields.required_text("context", &CONTEXT);
    if body.get("context").and_then(Value::as_str).is_some_and(|text| text.trim().is_empty()) {
        fields.problem("context", "must say what the message is about");
    }
    let tone = fields.text("tone", &TONE).unwrap_or("friendly");
    fields.finish()?;
    let channel = known.unwrap_or(Channel::Push);

    let ai = cx.app.ai.as_ref().ok_or(ApiError::NotConfigured(
        "no AI is configured: the operator sets AI_BASE_URL, AI_MODEL and, where it needs one, AI_API_KEY for the gateway",
    ))?;
    let answer = ai.complete(cx.owner, &copy::instructions(channel), &copy::request(context, tone)).await?;
    let Copy { title, body } = Copy::of(channel, &answer)
        .map_err(|why| AiError::Failed(format!("the AI provider's answer cannot be used: {why}")))?;
    ok(&CopyView { title, body })
}
