use crate::context::Context;
use crate::error::ApiError;
use crate::respond::Reply;

pub async fn list(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let _ = cx;
    Err(ApiError::no_such("route"))
}

pub async fn get(cx: &Context<'_>, id: &str) -> Result<Reply, ApiError> {
    let _ = (cx, id);
    Err(ApiError::no_such("route"))
}
