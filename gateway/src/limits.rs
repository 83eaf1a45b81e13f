//! How much one project, account, address or owner may ask for: requests a second ([`rate_limit`]), work that lasts
//! ([`slots`]), and short costly work ([`permits`]).

pub mod permits;
pub mod rate_limit;
pub mod slots;
