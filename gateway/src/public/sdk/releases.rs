//! The last ten versions of the script, which pages may pin, newest first. `npm run release` in `sdk/` writes the list.

use super::{File, Files};

pub struct Release {
    pub version: &'static str,
    pub files: Files,
}

macro_rules! releases {
    ($($version:literal),+) => {
        &[$(Release {
            version: $version,
            files: [
                File { name: "web.js", text: include_str!(concat!($version, "/web.js")) },
                File { name: "stub.js", text: include_str!(concat!($version, "/stub.js")) },
                File { name: "rekindle-sw.js", text: include_str!(concat!($version, "/rekindle-sw.js")) },
            ],
        }),+]
    };
}

pub const RELEASES: &[Release] = releases! { "1.1.0", "1.0.0" };
