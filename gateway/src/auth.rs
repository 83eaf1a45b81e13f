//! Authenticates and authorizes callers: by an API key in the headers, which needs no database query if it is cached, or by
//! the session of a logged-in account.
//!
//! [`Auth`] is the shared state, [`admit`] admits a request, and a [`Caller`] is an admitted caller. This module does not
//! depend on `App`.

mod admission;
mod authorization;
mod caller;
pub(crate) mod cookie;
pub(crate) mod header;
pub mod identity;
pub mod key_cache;
pub mod last_used;
pub mod logins;
mod lookups;
pub mod origins;
pub mod passwords;
pub mod recent_sessions;
pub mod session;
pub mod sign_in_queue;
mod state;
mod watch;

pub use admission::{Admission, admit, require_session};
pub use authorization::Authorization;
pub use caller::Caller;
pub use state::Auth;
pub use watch::{initial_position, watch};
