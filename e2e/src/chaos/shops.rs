//! The projects of a run: their setup, the clients' actions in them, and the expected limits.

/// Number of projects with the same load.
pub const SHOPS: usize = 2;
/// Index of one more project, which has a rate limit: `LIMIT` requests per second, at most `BURST` at once.
pub const LIMITED: usize = SHOPS;
pub const LIMIT: u32 = 20;
pub const BURST: u32 = 2 * LIMIT;
/// Names of the events that start a run of the automation, and of those that the run tracks.
pub const TRIGGER: &str = "entered";
pub const TRACKED: &str = "waited";
/// How often a message is repeated after calls with an unknown outcome (`DELIVERY_UNKNOWN_RETRIES`).
pub const UNKNOWN_RETRIES: u32 = 10;
