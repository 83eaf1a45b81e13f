//! The resources of the management API, each in the file or folder of its name. `routes.rs` names the handler of each path.
//!
//! Several resources share:
//! - lists: pages and cursors ([`paging`]), searches (`search`), whole lists as files ([`export`]);
//! - requests: the parameters of a path (`path_params`), the kind of users' ids (`id_type`), repeats (`idempotency`);
//! - answers: how times are written (`time_format`), texts that are rendered while a client waits ([`rendering`]);
//! - changes: their record ([`audit_log`]), and hints to other processes (`change_hint`).

pub mod ai;
pub mod api_keys;
pub mod audit_log;
pub mod automations;
pub mod campaigns;
mod change_hint;
pub mod channels;
pub mod dead_letters;
pub mod events;
pub mod export;
mod id_type;
mod idempotency;
pub mod inbox;
pub mod invites;
pub mod messages;
pub mod news;
pub(crate) mod paging;
mod path_params;
pub mod projects;
pub mod push_tokens;
pub mod rendering;
pub mod reports;
mod search;
pub mod segments;
pub mod sessions;
pub mod subscription_groups;
pub mod suppressions;
pub mod team;
pub mod templates;
mod time_format;
pub mod users;
pub mod webhook;
pub mod webhook_endpoints;
