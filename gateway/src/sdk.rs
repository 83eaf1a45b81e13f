//! The web SDK as a script, served by the program itself: a page needs no other origin. The files are what
//! `sdk/packages/browser` builds; `npm run embed` there brings them here.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha384};

use crate::respond::Reply;

/// Of the SDK; the major version is the address that pages use.
const VERSION: &str = "1.0.0";
const FILES: [(&str, &str); 3] = [
    ("web.js", include_str!("sdk/web.js")),
    ("stub.js", include_str!("sdk/stub.js")),
    ("rekindle-sw.js", include_str!("sdk/rekindle-sw.js")),
];

/// What is at a path, if anything of the SDK is: `/sdk/v1` is the script itself, `/sdk/v1/<file>` is the newest of its major version, `/sdk/<version>/<file>`
/// never changes, and `/sdk/v1/integrity.json` has the latter's addresses with their hashes (Subresource Integrity).
pub fn at(path: &str) -> Option<Reply> {
    let path = path.strip_prefix("/sdk/")?;
    let (version, name) = if path == "v1" { (path, "web.js") } else { path.split_once('/')? };
    let lasts = match version {
        "v1" => "public, max-age=3600",
        VERSION => "public, max-age=31536000, immutable",
        _ => return None,
    };
    let (kind, body) = match name {
        "integrity.json" => ("application/json; charset=utf-8", Bytes::from(integrity().to_string())),
        _ => {
            let (_, text) = FILES.iter().find(|(file, _)| *file == name)?;
            ("text/javascript; charset=utf-8", Bytes::from_static(text.as_bytes()))
        }
    };
    let headers = HeaderMap::from_iter([
        (CONTENT_TYPE, HeaderValue::from_static(kind)),
        (CACHE_CONTROL, HeaderValue::from_static(lasts)),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        // A script with an integrity hash is fetched as from another origin.
        (ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*")),
    ]);
    Some(Reply { status: StatusCode::OK, headers, body, pieces: None })
}

fn integrity() -> Value {
    let file = |(name, text): &(&str, &str)| {
        let hash = format!("sha384-{}", STANDARD.encode(Sha384::digest(text)));
        ((*name).to_owned(), json!({ "path": format!("/sdk/{VERSION}/{name}"), "integrity": hash }))
    };
    json!({ "version": VERSION, "files": FILES.iter().map(file).collect::<Map<_, _>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_may_change_and_a_version_never_does() {
        for (version, lasts) in [("v1", "public, max-age=3600"), (VERSION, "public, max-age=31536000, immutable")] {
            for (name, text) in FILES {
                let reply = at(&format!("/sdk/{version}/{name}")).unwrap();
                assert_eq!(reply.body, text.as_bytes());
                assert_eq!(reply.headers[CACHE_CONTROL], lasts);
            }
        }
        assert_eq!(at("/sdk/v1").unwrap().body, at("/sdk/v1/web.js").unwrap().body);
        for path in [
            "/sdk",
            "/sdk/",
            "/sdk/v1/",
            "/sdk/v2",
            "/sdk/1.0.0",
            "/sdk/v2/web.js",
            "/sdk/v1/../web.js",
            "/sdk/v1/other.js",
        ] {
            assert!(at(path).is_none(), "{path}");
        }
    }

    #[test]
    fn the_hashes_are_those_of_the_files() {
        let list: Value = serde_json::from_slice(&at("/sdk/v1/integrity.json").unwrap().body).unwrap();
        assert_eq!(list["version"], VERSION);
        for (name, text) in FILES {
            let entry = &list["files"][name];
            assert_eq!(at(entry["path"].as_str().unwrap()).unwrap().body, text.as_bytes());
            let hash = entry["integrity"].as_str().unwrap().strip_prefix("sha384-").unwrap();
            assert_eq!(STANDARD.decode(hash).unwrap(), Sha384::digest(text).to_vec());
        }
    }

    #[test]
    fn the_version_is_the_packages() {
        let package: Value = serde_json::from_str(include_str!("../../sdk/packages/browser/package.json")).unwrap();
        assert_eq!(package["version"], VERSION);
    }
}
