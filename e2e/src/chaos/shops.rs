//! The projects of a run: what is set up, what clients do in them, and what is expected of it.

/// Projects, which do the same things.
pub const SHOPS: usize = 2;
/// One more project, behind them: of it no more is let in than this many requests a second, and so many at once.
pub const LIMITED: usize = SHOPS;
pub const LIMIT: u32 = 20;
pub const BURST: u32 = 2 * LIMIT;
/// Of this name are events that start a run of the automation, and of this those that the run tracks.
pub const TRIGGER: &str = "entered";
pub const TRACKED: &str = "waited";
/// How often a message is repeated after a call whose outcome was never learned (`DELIVERY_UNKNOWN_RETRIES`).
pub const UNKNOWN_RETRIES: u32 = 10;
