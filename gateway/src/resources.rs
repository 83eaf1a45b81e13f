//! Resources of the management API, one module each. `routes.rs` maps each path to its handler.
//!
//! Shared by several resources:
//! - lists: pages and cursors ([`paging`]), search parameters (`search`), file exports ([`export`]);
//! - requests: path parameters (`path_params`), the type of user IDs (`id_type`), idempotency keys (`idempotency`);
//! - responses: time formats (`time_format`), templates rendered while the client waits ([`rendering`]);
//! - changes: the audit log ([`audit_log`]) and hints to other processes (`change_hint`).

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
