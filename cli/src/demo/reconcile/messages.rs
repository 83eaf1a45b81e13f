//! The service's own report of sends whose outcome it never learned.

use serde_json::Value;

use crate::demo::api::{Api, ApiError};

/// Returns the sum over the messages created since `start_ms`, or `None` if the service does not report it.
pub async fn ambiguous(api: &Api, start_ms: i64) -> Result<Option<u64>, ApiError> {
    let (mut sum, mut cursor) = (None, None::<String>);
    loop {
        let mut query = vec![("limit", "100")];
        query.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
        let page = match api.get(&["messages"], &query).await {
            Ok(page) => page,
            Err(ApiError::Refused { status: 404 | 405, .. }) => return Ok(None),
            Err(e) => return Err(e),
        };
        let messages = page["messages"].as_array().map_or(&[][..], Vec::as_slice);
        // Messages are ordered by ID, whose timestamp may differ from the creation time, so check all of them.
        for ambiguous_count in
            messages.iter().filter(|message| created_ms(message) >= start_ms).filter_map(ambiguous_count)
        {
            *sum.get_or_insert(0) += ambiguous_count;
        }
        match page["nextCursor"].as_str() {
            Some(next) if cursor.as_deref() != Some(next) => {
                cursor = Some(next.to_owned());
            }
            _ => return Ok(sum),
        }
    }
}

fn ambiguous_count(message: &Value) -> Option<u64> {
    message["ambiguousAttempts"].as_u64().or_else(|| message["ambiguous"].as_u64())
}

fn created_ms(message: &Value) -> i64 {
    let at = message["createdAt"].as_str().and_then(|text| text.parse::<jiff::Timestamp>().ok());
    at.map_or(i64::MAX, jiff::Timestamp::as_millisecond)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn ambiguous_count_is_read_from_message() {
        assert_eq!(ambiguous_count(&json!({ "ambiguousAttempts": 2 })), Some(2));
        assert_eq!(ambiguous_count(&json!({ "attempts": 2 })), None);
        assert_eq!(created_ms(&json!({ "createdAt": "1970-01-01T00:00:01.500Z" })), 1_500);
    }
}
