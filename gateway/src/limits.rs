//! Limits of one project, account, address or owner: requests per second ([`rate_limit`]), long-running work ([`slots`]), and
//! short costly work ([`permits`]).

pub mod permits;
pub mod rate_limit;
pub mod slots;
