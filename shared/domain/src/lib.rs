//! Domain types: channels and states of messages, addresses, push tokens, subscriptions, campaigns. Pure.

pub mod campaign;
pub mod email;
pub mod link;
pub mod message;
pub mod profile;
pub mod push_token;
pub mod push_url;
pub mod recipient;
pub mod subscription;
pub mod suppression;
pub mod webhook;
