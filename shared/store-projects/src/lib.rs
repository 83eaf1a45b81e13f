//! Accounts, projects and their settings. Each file contains one table, its rows and all statements on it.

pub mod accounts;
pub mod api_keys;
pub mod audit;
pub mod channels;
pub mod invites;
pub mod login_attempts;
pub mod members;
pub mod project_removals;
pub mod projects;
pub mod sealed;
pub mod sealed_columns;
pub mod sessions;
pub mod templates;
pub mod vapid_keys;
pub mod webhook_endpoints;
