//! Who calls, and whether they may: a key in the headers, found without the database where it was seen before, or the
//! session of somebody who is logged in.
//!
//! [`Auth`] is what requests share, [`admit`] lets them in, and a [`Caller`] is who was let in. Nothing here knows the `App`.

mod admission;
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
mod standing;
mod state;
mod watch;

pub use admission::{Admission, admit, logged_in};
pub use caller::Caller;
pub use standing::Standing;
pub use state::Auth;
pub use watch::{begin, watch};
