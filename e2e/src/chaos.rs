//! The product under faults: random kills while a test watches one property ([`Chaos`]), and the run with all faults that a seed plans
//! ([`run`]).
//!
//! [`plan`] chooses the faults and their times from the seed. [`strike`] injects them, with [`proxy`] on the links and [`provider`] at the
//! far end. Meanwhile [`load`] simulates clients, [`oracle`] records the responses that they get, and [`pulse`] measures the time to
//! recovery. At the end [`found`] reads the final state, [`checks`] compares it with the responses, and [`report`] writes the results.

pub mod books;
pub mod checks;
pub mod clock;
pub mod found;
mod kills;
pub mod load;
pub mod oracle;
pub mod plan;
pub mod product;
pub mod provider;
pub mod proxy;
pub mod pulse;
pub mod report;
mod run;
mod settings;
pub mod shops;
pub mod strike;
pub mod struck;

pub use kills::{Chaos, Victim};
pub use run::run;
pub use settings::Settings;
