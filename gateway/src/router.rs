//! Finds a route by method and path. `routes.rs` defines the routes and their handlers.

mod access;
mod segments;

use http::Method;

pub use access::Access;
use segments::{MAX_SEGMENTS, Segments};

/// The base path of the API.
pub const BASE: &str = "/api/v1";
/// Supported methods, in the order of `Allow`.
const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];
/// Maximum parameters of a pattern.
const MAX_PARAMS: usize = 2;

/// The values of a path's parameters, in order. Unused ones are empty.
pub type Params<'p> = [&'p str; MAX_PARAMS];

#[derive(Debug, PartialEq, Eq)]
pub enum NoRoute {
    /// No pattern matches the path.
    UnknownPath,
    /// The path supports other methods. Holds the value of `Allow`.
    MethodNotAllowed(String),
}

/// The patterns, by first segment and number of further segments.
///
/// They are few, so a linear search costs less than a hash. The most frequent ones come first.
pub struct Router {
    patterns: Vec<(&'static str, [Vec<PathPattern>; MAX_SEGMENTS])>,
}

/// A pattern with its methods.
struct PathPattern {
    /// The segments after the first.
    segments: Vec<Segment>,
    /// The route number of each method.
    routes: [Option<usize>; METHODS.len()],
    allow: String,
}

#[derive(PartialEq, Eq)]
enum Segment {
    Literal(&'static str),
    /// Matches any text except these.
    Param(Vec<&'static str>),
}

/// A method and a path pattern (`/users/:id`).
#[derive(Clone, Copy)]
pub struct Endpoint {
    pub method: &'static str,
    pub pattern: &'static str,
}

impl Router {
    /// Builds the router. Routes are numbered in the order of `endpoints`.
    ///
    /// Callers choose the IDs of the resources `caller_chosen_ids`: there, a parameter does not match a segment that is a literal
    /// of another pattern at the same position.
    ///
    /// # Panics
    ///
    /// Panics if a pattern is malformed or repeats a method.
    pub fn new(endpoints: impl IntoIterator<Item = Endpoint>, caller_chosen_ids: &[&str]) -> Self {
        let split = |Endpoint { method, pattern }: Endpoint| {
            (method, pattern.split('/').skip(1).collect::<Vec<&'static str>>())
        };
        let endpoints: Vec<_> = endpoints.into_iter().map(split).collect();
        let mut router = Self { patterns: Vec::new() };
        for (number, (method, path)) in endpoints.iter().enumerate() {
            let params = path.iter().filter(|segment| segment.starts_with(':')).count();
            let fits = (1..=MAX_SEGMENTS).contains(&path.len()) && params <= MAX_PARAMS;
            assert!(fits && !path[0].starts_with(':'), "invalid pattern: /{}", path.join("/"));
            let reserved = |at: usize| {
                let siblings = endpoints.iter().filter(|(_, other)| other.len() > at && other[..at] == path[..at]);
                siblings.map(|(_, other)| other[at]).filter(|segment| !segment.starts_with(':')).collect()
            };
            let segment = |at: usize| match path[at] {
                param if param.starts_with(':') && caller_chosen_ids.contains(&path[0]) => Segment::Param(reserved(at)),
                param if param.starts_with(':') => Segment::Param(Vec::new()),
                literal => Segment::Literal(literal),
            };
            let pattern = router.pattern_for(path[0], (1..path.len()).map(segment).collect());
            let Some(at) = METHODS.iter().position(|name| name == method) else {
                panic!("unsupported method: {method}")
            };
            let before = pattern.routes[at].replace(number);
            assert!(before.is_none(), "{method} /{} is defined twice", path.join("/"));
            pattern.allow = allow(&pattern.routes);
        }
        for patterns in router.patterns.iter_mut().flat_map(|(_, patterns)| patterns) {
            // A literal segment takes precedence over a parameter, regardless of methods.
            patterns.sort_by_key(|pattern| pattern.segments.iter().map(Segment::is_param).collect::<Vec<_>>());
        }
        router
    }

    /// Returns the pattern with these segments, added if missing.
    fn pattern_for(&mut self, first: &'static str, segments: Vec<Segment>) -> &mut PathPattern {
        let known = self.patterns.iter().position(|(own, _)| *own == first);
        let at = known.unwrap_or_else(|| {
            self.patterns.push((first, Default::default()));
            self.patterns.len() - 1
        });
        let siblings = &mut self.patterns[at].1[segments.len()];
        let known = siblings.iter().position(|pattern| pattern.segments == segments);
        let at = known.unwrap_or_else(|| {
            siblings.push(PathPattern { segments, routes: Default::default(), allow: String::new() });
            siblings.len() - 1
        });
        &mut siblings[at]
    }

    /// Returns the route number and parameters of a path. `HEAD` is supported where `GET` is.
    pub fn find<'p>(&self, method: &Method, path: &'p str) -> Result<(usize, Params<'p>), NoRoute> {
        let segments = Segments::of(path).ok_or(NoRoute::UnknownPath)?;
        let (pattern, params) = self.find_pattern(segments.as_slice()).ok_or(NoRoute::UnknownPath)?;
        let wanted = if method == Method::HEAD { "GET" } else { method.as_str() };
        let route = METHODS.iter().position(|name| *name == wanted).and_then(|at| pattern.routes[at]);
        route.map(|route| (route, params)).ok_or_else(|| NoRoute::MethodNotAllowed(pattern.allow.clone()))
    }

    fn find_pattern<'p>(&self, segments: &[&'p str]) -> Option<(&PathPattern, Params<'p>)> {
        let (first, rest) = segments.split_first()?;
        let (_, patterns) = self.patterns.iter().find(|(own, _)| own == first)?;
        patterns[rest.len()].iter().find_map(|pattern| Some((pattern, pattern.params(rest)?)))
    }
}

impl PathPattern {
    /// Returns the parameters if the segments match. `segments` has as many elements as the pattern.
    fn params<'p>(&self, segments: &[&'p str]) -> Option<Params<'p>> {
        let mut params = [""; MAX_PARAMS];
        let mut free = params.iter_mut();
        for (own, given) in self.segments.iter().zip(segments) {
            match own {
                Segment::Literal(literal) if literal == given => {}
                Segment::Param(except) if !except.contains(given) => *free.next()? = given,
                _ => return None,
            }
        }
        Some(params)
    }
}

impl Segment {
    fn is_param(&self) -> bool {
        matches!(self, Self::Param(_))
    }
}

/// Returns the value of `Allow`.
fn allow(routes: &[Option<usize>; METHODS.len()]) -> String {
    let mut names = Vec::new();
    for (name, _) in METHODS.into_iter().zip(routes).filter(|(_, route)| route.is_some()) {
        names.push(name);
        if name == "GET" {
            names.push("HEAD");
        }
    }
    names.push("OPTIONS");
    names.join(", ")
}

#[cfg(test)]
mod tests;
