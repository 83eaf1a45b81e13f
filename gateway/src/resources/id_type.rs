//! `idType`: the type of the user IDs in a request.

use store_profiles::users::user_ref::IdType;

use crate::http::error::ApiError;
use crate::http::query::{Parameter, Query, one_of};

/// Returns the requested type, or `Either` by default. Rejects an empty value, so that a request meant for internal
/// IDs never matches an external one, and a repeated parameter.
pub fn of(query: &Query) -> Result<IdType, ApiError> {
    let mut given = query.named(&["idType", "id_type"]);
    let Some(Parameter { name, value }) = given.next() else { return Ok(IdType::Either) };
    if given.next().is_some() {
        return Err(ApiError::invalid(name, "must be given once"));
    }
    one_of(name, value, &[("internal", IdType::Internal), ("external", IdType::External)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_type_defaults_to_either() {
        let id_type = |text| of(&Query::parse(text).unwrap());
        for (text, kind) in [
            ("", IdType::Either),
            ("idType=internal", IdType::Internal),
            ("idType=external", IdType::External),
            ("id_type=internal", IdType::Internal),
        ] {
            assert_eq!(id_type(text).unwrap(), kind, "{text}");
        }
        for text in ["idType=", "idType=Internal", "idType=anonymous", "idType=either"] {
            let error = id_type(text).unwrap_err();
            assert_eq!(error.details()[0].field, "idType", "{text}");
            assert_eq!(error.details()[0].message, "must be one of `internal`, `external`", "{text}");
        }
        for text in ["idType=internal&idType=external", "idType=internal&id_type=internal"] {
            assert_eq!(id_type(text).unwrap_err().details()[0].message, "must be given once", "{text}");
        }
    }
}
