//! Finds addresses by method and path. Which there are, and what answers them, is said in `routes.rs`.

mod access;
mod segments;

use http::Method;

pub use access::Access;
use segments::{MOST_SEGMENTS, Segments};

/// Where the API begins.
pub const BASE: &str = "/api/v1";
/// What an address may take, in the order of `Allow`.
const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];
/// No address has more parameters.
const MOST_PARAMS: usize = 2;

/// What stands in the place of an address's parameters, in their order. Behind the last one is nothing.
pub type Params<'p> = [&'p str; MOST_PARAMS];

#[derive(Debug, PartialEq, Eq)]
pub enum Miss {
    /// No such address.
    Path,
    /// The address takes other methods: the value of `Allow`.
    Method(String),
}

/// The addresses, by their first segment and how many follow. They are few enough to be looked through, which costs less
/// than a hash, and what is called most comes first.
pub struct Router {
    places: Vec<(&'static str, [Vec<Place>; MOST_SEGMENTS])>,
}

/// An address with its methods.
struct Place {
    /// Behind the first.
    segments: Vec<Segment>,
    /// The number of each method's route.
    routes: [Option<usize>; METHODS.len()],
    allow: String,
}

#[derive(PartialEq, Eq)]
enum Segment {
    Literal(&'static str),
    /// Takes any text but these.
    Param(Vec<&'static str>),
}

/// A method, and the pattern of the paths that it is for (`/users/:id`).
#[derive(Clone, Copy)]
pub struct Address {
    pub method: &'static str,
    pub pattern: &'static str,
}

impl Router {
    /// The addresses are numbered as they come. Callers choose the IDs of the resources
    /// `caller_chosen_ids`: a parameter takes no segment that is a literal of another pattern at the same place.
    ///
    /// # Panics
    ///
    /// Where a pattern is malformed or comes twice by the same method.
    pub fn new(addresses: impl IntoIterator<Item = Address>, caller_chosen_ids: &[&str]) -> Self {
        let split =
            |Address { method, pattern }: Address| (method, pattern.split('/').skip(1).collect::<Vec<&'static str>>());
        let addresses: Vec<_> = addresses.into_iter().map(split).collect();
        let mut router = Self { places: Vec::new() };
        for (number, (method, path)) in addresses.iter().enumerate() {
            let params = path.iter().filter(|segment| segment.starts_with(':')).count();
            let fits = (1..=MOST_SEGMENTS).contains(&path.len()) && params <= MOST_PARAMS;
            assert!(fits && !path[0].starts_with(':'), "no pattern: /{}", path.join("/"));
            let reserved = |at: usize| {
                let beside = addresses.iter().filter(|(_, other)| other.len() > at && other[..at] == path[..at]);
                beside.map(|(_, other)| other[at]).filter(|segment| !segment.starts_with(':')).collect()
            };
            let segment = |at: usize| match path[at] {
                param if param.starts_with(':') && caller_chosen_ids.contains(&path[0]) => Segment::Param(reserved(at)),
                param if param.starts_with(':') => Segment::Param(Vec::new()),
                literal => Segment::Literal(literal),
            };
            let place = router.place_of(path[0], (1..path.len()).map(segment).collect());
            let Some(at) = METHODS.iter().position(|name| name == method) else { panic!("no method: {method}") };
            let before = place.routes[at].replace(number);
            assert!(before.is_none(), "{method} /{} is there twice", path.join("/"));
            place.allow = allow(&place.routes);
        }
        for places in router.places.iter_mut().flat_map(|(_, places)| places) {
            // A literal segment wins over a parameter, by whichever methods.
            places.sort_by_key(|place| place.segments.iter().map(Segment::is_param).collect::<Vec<_>>());
        }
        router
    }

    /// The place of these segments, made where there was none.
    fn place_of(&mut self, first: &'static str, segments: Vec<Segment>) -> &mut Place {
        let known = self.places.iter().position(|(own, _)| *own == first);
        let at = known.unwrap_or_else(|| {
            self.places.push((first, Default::default()));
            self.places.len() - 1
        });
        let beside = &mut self.places[at].1[segments.len()];
        let known = beside.iter().position(|place| place.segments == segments);
        let at = known.unwrap_or_else(|| {
            beside.push(Place { segments, routes: Default::default(), allow: String::new() });
            beside.len() - 1
        });
        &mut beside[at]
    }

    /// The number of a route, and what its parameters are. `HEAD` is answered wherever `GET` is.
    pub fn find<'p>(&self, method: &Method, path: &'p str) -> Result<(usize, Params<'p>), Miss> {
        let segments = Segments::of(path).ok_or(Miss::Path)?;
        let (place, params) = self.place(segments.as_slice()).ok_or(Miss::Path)?;
        let asked = if method == Method::HEAD { "GET" } else { method.as_str() };
        let route = METHODS.iter().position(|name| *name == asked).and_then(|at| place.routes[at]);
        route.map(|route| (route, params)).ok_or_else(|| Miss::Method(place.allow.clone()))
    }

    fn place<'p>(&self, segments: &[&'p str]) -> Option<(&Place, Params<'p>)> {
        let (first, rest) = segments.split_first()?;
        let (_, places) = self.places.iter().find(|(own, _)| own == first)?;
        places[rest.len()].iter().find_map(|place| Some((place, place.params(rest)?)))
    }
}

impl Place {
    /// The parameters of as many segments as it has, if they are this address.
    fn params<'p>(&self, segments: &[&'p str]) -> Option<Params<'p>> {
        let mut params = [""; MOST_PARAMS];
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

/// The value of `Allow`.
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
