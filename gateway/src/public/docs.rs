//! Serves the documentation site, the OpenAPI document and a page that renders it. Nothing is loaded from other origins.

use anyhow::Context;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::{Value, json};

use crate::http::respond::Reply;
use crate::router::BASE;

const DOCUMENT: &str = include_str!("../../../openapi.yaml");
const PAGE: &str = include_str!("docs/index.html");
const SCRIPT: &str = include_str!("docs/reader.js");
const STYLE: &str = include_str!("docs/reader.css");

include!(concat!(env!("OUT_DIR"), "/docs_files.rs"));

/// Pages load only scripts, styles, images and documents of this origin, and cannot be framed.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; \
     frame-ancestors 'none'",
);

/// The documentation.
pub struct Docs {
    /// The document as JSON, with this installation's URL.
    document: Bytes,
}

impl Docs {
    /// `public_base_url` is the URL at which clients reach this installation.
    pub fn new(public_base_url: &str) -> anyhow::Result<Self> {
        let mut document: Value = serde_saphyr::from_str(DOCUMENT).context("openapi.yaml")?;
        document["servers"] = json!([{ "url": format!("{public_base_url}{BASE}") }]);
        Ok(Self { document: serde_json::to_vec(&document)?.into() })
    }

    /// Returns the response for a path, if it belongs to the documentation.
    pub fn at(&self, path: &str) -> Option<Reply> {
        let path = if path == "/docs" { "/docs/" } else { path };
        let (kind, body) = match path {
            "/api/v1/openapi.json" => ("application/json; charset=utf-8", self.document.clone()),
            "/docs/api" | "/api/v1/docs" => ("text/html; charset=utf-8", Bytes::from_static(PAGE.as_bytes())),
            "/docs/reader.js" => ("text/javascript; charset=utf-8", Bytes::from_static(SCRIPT.as_bytes())),
            "/docs/reader.css" => ("text/css; charset=utf-8", Bytes::from_static(STYLE.as_bytes())),
            _ => {
                let (_, bytes) = FILES.iter().find(|(served, _)| *served == path)?;
                (content_type(path), Bytes::from_static(bytes))
            }
        };
        let headers = HeaderMap::from_iter([
            (http::header::CONTENT_TYPE, HeaderValue::from_static(kind)),
            (http::header::CONTENT_SECURITY_POLICY, POLICY),
            (http::header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
            (http::header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        ]);
        Some(Reply { status: StatusCode::OK, headers, body, stream: None })
    }
}

fn content_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, extension)| extension) {
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("json") => "application/json; charset=utf-8",
        Some("png") => "image/png",
        Some("svg") => "image/svg+xml",
        _ => "text/html; charset=utf-8",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolves(document: &Value, value: &Value, missing: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                if let Some(target) = fields.get("$ref").and_then(Value::as_str)
                    && document.pointer(target.trim_start_matches('#')).is_none()
                {
                    missing.push(target.to_owned());
                }
                fields.values().for_each(|v| resolves(document, v, missing));
            }
            Value::Array(items) => items.iter().for_each(|v| resolves(document, v, missing)),
            _ => {}
        }
    }

    #[test]
    fn document_is_complete_and_names_this_installation() {
        let docs = Docs::new("https://shop.example").unwrap();
        let document: Value = serde_json::from_slice(&docs.at("/api/v1/openapi.json").unwrap().body).unwrap();
        assert_eq!(document["openapi"], "3.1.0");
        assert_eq!(document["servers"], json!([{"url": "https://shop.example/api/v1"}]));
        let mut missing = Vec::new();
        resolves(&document, &document, &mut missing);
        assert_eq!(missing, Vec::<String>::new());
    }

    #[test]
    fn every_operation_has_a_unique_id_and_a_defined_tag() {
        let docs = Docs::new("http://a").unwrap();
        let document: Value = serde_json::from_slice(&docs.document).unwrap();
        let tags: Vec<&Value> = document["tags"].as_array().unwrap().iter().map(|t| &t["name"]).collect();
        let mut ids = std::collections::BTreeSet::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap().iter().filter(|(name, _)| *name != "parameters") {
                let id = operation["operationId"].as_str().unwrap_or_else(|| panic!("{method} {path}"));
                assert!(ids.insert(id.to_owned()), "duplicate operation ID {id}");
                assert!(tags.contains(&&operation["tags"][0]), "{method} {path}: {}", operation["tags"]);
                assert!(operation["summary"].is_string(), "{method} {path}");
            }
        }
    }

    #[test]
    fn reference_page_loads_only_local_files() {
        let docs = Docs::new("http://a").unwrap();
        for path in ["/docs", "/docs/", "/docs/api", "/api/v1/docs", "/docs/reader.js", "/docs/reader.css"] {
            assert!(docs.at(path).is_some(), "{path}");
        }
        assert!(docs.at("/docs/other").is_none() && docs.at("/api/v1/docs/reader.js").is_none());
        for text in [PAGE, SCRIPT, STYLE] {
            assert!(!text.contains("https://") && !text.contains("http://") && !text.contains("innerHTML"));
        }
    }
}
