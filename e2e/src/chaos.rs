//! The product under faults: random kills while a test watches one property ([`RandomKills`]), and the run with all faults that a seed plans
//! ([`run`]).
//!
//! [`plan`] chooses the faults and their times from the seed. [`inject`] injects them, with [`proxy`] on the links and [`provider`] at the
//! far end. Meanwhile [`load`] simulates clients, [`oracle`] records the responses that they get, and [`recovery`] measures the time to
//! recovery. At the end [`read_state`] reads the final state, [`checks`] compares it with the responses, and [`report`] writes the results.

pub mod checks;
pub mod clock;
pub mod final_state;
pub mod inject;
pub mod injected;
mod kills;
pub mod load;
pub mod oracle;
pub mod plan;
pub mod product;
pub mod provider;
pub mod proxy;
pub mod read_state;
pub mod recovery;
pub mod report;
mod run;
mod settings;
pub mod shops;

pub use kills::{RandomKills, Victim};
pub use run::run;
pub use settings::Settings;
