//! The program `rekindle` against real servers.

mod operator;
mod program;
