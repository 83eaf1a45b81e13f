//! `search`: the search text of a list.

use crate::http::error::ApiError;
use crate::http::query::Query;

/// Maximum number of characters.
const MAX_CHARACTERS: usize = 200;

/// Returns the text in lower case, or `None` if it is blank.
pub fn text(query: &Query) -> Result<Option<String>, ApiError> {
    match query.get("search").map(str::trim).filter(|text| !text.is_empty()) {
        Some(text) if text.chars().count() > MAX_CHARACTERS => {
            Err(ApiError::invalid("search", format!("must have at most {MAX_CHARACTERS} characters")))
        }
        text => Ok(text.map(str::to_lowercase)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_text_is_limited_and_lowercased() {
        let read = |query: &str| text(&Query::parse(query).unwrap());
        assert_eq!(read("search=+%C3%84b+").unwrap(), Some("äb".to_owned()));
        assert_eq!(read("search=+").unwrap(), None);
        assert!(read(&format!("search={}", "a".repeat(201))).is_err());
    }
}
