//! The gateway against real servers: PostgreSQL, NATS and Redis.

#![expect(clippy::unwrap_used, reason = "a test fails where it does not find what it expects")]

mod access;
mod api_ai;
mod api_automations;
mod api_campaigns;
mod api_channels;
mod api_dead_letters;
mod api_events;
mod api_export;
mod api_import;
mod api_keys;
mod api_messages;
mod api_news;
mod api_projects;
mod api_push_tokens;
mod api_reports;
mod api_runs;
mod api_segments;
mod api_team;
mod api_templates;
mod api_users;
mod api_webhook;
mod audit;
mod auth;
mod bad_input;
mod document;
mod fixture;
mod http;
mod identity;
mod ingest;
mod isolation;
mod limits;
mod login;
mod openapi;
mod outage;
mod people;
mod plans;
mod prefer;
mod process;
mod publisher;
mod segment_rules;
mod server;
mod sessions;
mod setup;
mod sweep;
