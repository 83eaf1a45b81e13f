//! Serves the web SDK from the gateway itself, so that a page needs no other origin. `sdk/packages/browser` builds the files.
//! In `sdk/`, `npm run embed` copies the current build here and `npm run release` adds a version that can be pinned.

mod releases;

use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha384};

use crate::http::respond::Reply;
use releases::{RELEASES, Release};

/// A file of the SDK.
#[derive(Clone, Copy)]
struct File {
    name: &'static str,
    text: &'static str,
}

type Files = [File; 3];

/// The major version, which is the path that pages use.
const MAJOR: &str = "v1";
/// The current build, which becomes the next release.
const CURRENT: Files = [
    File { name: "web.js", text: include_str!("sdk/web.js") },
    File { name: "stub.js", text: include_str!("sdk/stub.js") },
    File { name: "rekindle-sw.js", text: include_str!("sdk/rekindle-sw.js") },
];

const ONE_HOUR: &str = "public, max-age=3600";
const IMMUTABLE: &str = "public, max-age=31536000, immutable";

/// Returns the file of the SDK at a path, if there is one.
///
/// `/sdk/v1` is the script itself and `/sdk/v1/<file>` the current build. `/sdk/<version>/<file>` never changes.
/// `integrity.json` lists the paths of the latter with their hashes (Subresource Integrity): those of one version or, under
/// `/sdk/v1`, of all.
pub fn at(path: &str) -> Option<Reply> {
    static INTEGRITY: LazyLock<Value> = LazyLock::new(integrity);
    let path = path.strip_prefix("/sdk/")?;
    let (version, name) = if path == MAJOR { (path, "web.js") } else { path.split_once('/')? };
    let release = RELEASES.iter().find(|release| release.version == version);
    let (files, manifest, cache_control) = match release {
        Some(release) => (&release.files, &INTEGRITY["versions"][version], IMMUTABLE),
        None if version == MAJOR => (&CURRENT, &*INTEGRITY, ONE_HOUR),
        None => return None,
    };
    let (kind, body) = match name {
        "integrity.json" => ("application/json; charset=utf-8", Bytes::from(manifest.to_string())),
        _ => {
            let file = files.iter().find(|file| file.name == name)?;
            ("text/javascript; charset=utf-8", Bytes::from_static(file.text.as_bytes()))
        }
    };
    let headers = HeaderMap::from_iter([
        (CONTENT_TYPE, HeaderValue::from_static(kind)),
        (CACHE_CONTROL, HeaderValue::from_static(cache_control)),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        // Scripts with an integrity hash are fetched with CORS.
        (ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*")),
    ]);
    Some(Reply { status: StatusCode::OK, headers, body, stream: None })
}

/// Returns the newest version with its files, and under `versions` every version that is served.
fn integrity() -> Value {
    let versions = RELEASES.iter().map(|release| (release.version.to_owned(), manifest(release)));
    let mut all = manifest(&RELEASES[0]);
    all["versions"] = Value::Object(versions.collect());
    all
}

fn manifest(release: &Release) -> Value {
    let file = |File { name, text }: &File| {
        let path = format!("/sdk/{}/{name}", release.version);
        ((*name).to_owned(), json!({ "path": path, "integrity": hash(text) }))
    };
    json!({ "version": release.version, "files": release.files.iter().map(file).collect::<Map<_, _>>() })
}

fn hash(text: &str) -> String {
    format!("sha384-{}", STANDARD.encode(Sha384::digest(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn current_build_is_cached_briefly_and_versions_are_immutable() {
        let current = (MAJOR, CURRENT, ONE_HOUR);
        for (version, files, cache_control) in RELEASES.iter().map(|r| (r.version, r.files, IMMUTABLE)).chain([current])
        {
            for File { name, text } in files {
                let reply = at(&format!("/sdk/{version}/{name}")).unwrap();
                assert_eq!(reply.body, text.as_bytes());
                assert_eq!(reply.headers[CACHE_CONTROL], cache_control);
                assert_eq!(reply.headers[ACCESS_CONTROL_ALLOW_ORIGIN], "*");
            }
        }
        assert_eq!(at("/sdk/v1").unwrap().body, at("/sdk/v1/web.js").unwrap().body);
        for path in [
            "/sdk",
            "/sdk/",
            "/sdk/v1/",
            "/sdk/v2",
            "/sdk/1.0.0",
            "/sdk/1.0/web.js",
            "/sdk/v2/web.js",
            "/sdk/v1/../web.js",
            "/sdk/v1/other.js",
        ] {
            assert!(at(path).is_none(), "{path}");
        }
    }

    #[test]
    fn released_files_are_unchanged() {
        let released: Map<String, Value> = serde_json::from_str(include_str!("sdk/released.json")).unwrap();
        for Release { version, files } in RELEASES {
            for File { name, text } in files {
                assert_eq!(released[*version][*name], hash(text), "{version}/{name} has changed: restore it");
            }
        }
        let mut newest_first: Vec<_> = released.keys().collect();
        newest_first
            .sort_by_key(|version| version.split('.').map(|part| part.parse::<u32>().unwrap()).collect::<Vec<_>>());
        newest_first.reverse();
        newest_first.truncate(10);
        assert_eq!(RELEASES.iter().map(|release| release.version).collect::<Vec<_>>(), newest_first);
    }

    #[test]
    fn integrity_hashes_match_the_files() {
        let list = |path: &str| -> Value { serde_json::from_slice(&at(path).unwrap().body).unwrap() };
        let all = list("/sdk/v1/integrity.json");
        assert_eq!(all["version"], RELEASES[0].version);
        assert_eq!(all["files"], all["versions"][RELEASES[0].version]["files"]);
        for Release { version, files } in RELEASES {
            assert_eq!(list(&format!("/sdk/{version}/integrity.json")), all["versions"][version]);
            for File { name, text } in files {
                let entry = &all["versions"][version]["files"][name];
                assert_eq!(at(entry["path"].as_str().unwrap()).unwrap().body, text.as_bytes());
                assert_eq!(entry["integrity"], hash(text));
            }
        }
    }

    #[test]
    fn newest_version_is_that_of_the_package() {
        let package: Value = serde_json::from_str(include_str!("../../../sdk/packages/browser/package.json")).unwrap();
        assert_eq!(package["version"], RELEASES[0].version);
    }
}
