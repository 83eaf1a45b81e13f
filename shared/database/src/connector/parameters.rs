//! The URL parameters that are read here and not by the client library.

use kernel::percent;

/// A URL, split into TLS parameters and the rest.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Parameters {
    /// The URL for the client library.
    pub(super) rest: String,
    pub(super) mode: Option<String>,
    pub(super) root: Option<String>,
    /// A TLS parameter that is not supported.
    pub(super) unknown: Option<String>,
}

pub(super) fn is_url(text: &str) -> bool {
    text.starts_with("postgres://") || text.starts_with("postgresql://")
}

impl Parameters {
    /// Removes `sslmode` and `sslrootcert` from a URL. As in libpq, the last of several values counts.
    pub(super) fn split(url: &str) -> Self {
        // As in the client library, everything before the first `@` is credentials, whatever it contains.
        let authority_start = url.find('@').map_or(0, |at| at + 1);
        let Some(at) = url[authority_start..].find('?').map(|at| authority_start + at).filter(|_| is_url(url)) else {
            return Self { rest: url.to_owned(), ..Self::default() };
        };
        let (mut split, mut kept) = (Self::default(), Vec::new());
        for pair in url[at + 1..].split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = || Some(percent::decode(value).unwrap_or_else(|| value.to_owned()));
            match name {
                "sslmode" => split.mode = value(),
                "sslrootcert" => split.root = value(),
                "sslnegotiation" => kept.push(pair),
                _ if name.starts_with("ssl") => split.unknown = Some(name.to_owned()),
                _ => kept.push(pair),
            }
        }
        let rest = kept.join("&");
        split.rest = if rest.is_empty() { url[..at].to_owned() } else { format!("{}?{rest}", &url[..at]) };
        split
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tls_parameters_are_removed_and_others_stay() {
        let split =
            Parameters::split("postgres://u:p?w@h/d?a=1&sslmode=prefer&sslrootcert=%2Fca%20x.pem&b=2&sslmode=require");
        assert_eq!(split.rest, "postgres://u:p?w@h/d?a=1&b=2");
        assert_eq!((split.mode.as_deref(), split.root.as_deref()), (Some("require"), Some("/ca x.pem")));
        assert_eq!(Parameters::split("postgres://h/d?sslmode=require").rest, "postgres://h/d");
        assert_eq!(Parameters::split("postgres://h/d?sslkey=k").unknown.as_deref(), Some("sslkey"));
    }

    #[test]
    fn url_without_tls_parameters_is_unchanged() {
        for url in ["postgres://u:p?w@h/d", "host=h sslmode=require", ""] {
            assert_eq!(Parameters::split(url), Parameters { rest: url.to_owned(), ..Parameters::default() });
        }
    }
}
