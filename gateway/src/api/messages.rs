use crate::context::Context;
use crate::error::ApiError;
use crate::respond::Reply;

pub async fn send(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let _ = cx;
    Err(ApiError::no_such("route"))
}

pub async fn list(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let _ = cx;
    Err(ApiError::no_such("route"))
}
