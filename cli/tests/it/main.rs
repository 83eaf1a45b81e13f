//! Integration tests of the program `rekindle` with real servers.
#![expect(clippy::unwrap_used, reason = "a test ends where its own set-up fails")]

mod doctor;
mod operator;
mod program;
mod setup;
mod system;
