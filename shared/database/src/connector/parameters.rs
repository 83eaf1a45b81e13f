//! The parameters of an address that are read here rather than by the client library.

use kernel::percent;

/// An address taken apart.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Parameters {
    /// What the client library is given.
    pub(super) rest: String,
    pub(super) mode: Option<String>,
    pub(super) root: Option<String>,
    /// One of TLS that nobody here reads.
    pub(super) unknown: Option<String>,
}

pub(super) fn is_url(text: &str) -> bool {
    text.starts_with("postgres://") || text.starts_with("postgresql://")
}

impl Parameters {
    /// Takes out `sslmode` and `sslrootcert`. As with libpq the last of a name counts.
    pub(super) fn split(url: &str) -> Self {
        // The library reads it in this way: what comes before the first `@` are credentials, whatever they hold.
        let place = url.find('@').map_or(0, |at| at + 1);
        let Some(at) = url[place..].find('?').map(|at| place + at).filter(|_| is_url(url)) else {
            return Self { rest: url.to_owned(), ..Self::default() };
        };
        let (mut split, mut kept) = (Self::default(), Vec::new());
        for pair in url[at + 1..].split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = || Some(percent::decoded(value).unwrap_or_else(|| value.to_owned()));
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
    fn those_of_tls_are_taken_out_and_the_others_stay() {
        let split =
            Parameters::split("postgres://u:p?w@h/d?a=1&sslmode=prefer&sslrootcert=%2Fca%20x.pem&b=2&sslmode=require");
        assert_eq!(split.rest, "postgres://u:p?w@h/d?a=1&b=2");
        assert_eq!((split.mode.as_deref(), split.root.as_deref()), (Some("require"), Some("/ca x.pem")));
        assert_eq!(Parameters::split("postgres://h/d?sslmode=require").rest, "postgres://h/d");
        assert_eq!(Parameters::split("postgres://h/d?sslkey=k").unknown.as_deref(), Some("sslkey"));
    }

    #[test]
    fn an_address_without_parameters_stays_as_it_is() {
        for url in ["postgres://u:p?w@h/d", "host=h sslmode=require", ""] {
            assert_eq!(Parameters::split(url), Parameters { rest: url.to_owned(), ..Parameters::default() });
        }
    }
}
