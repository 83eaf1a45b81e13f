//! The product under faults: what is killed at random while a test watches one thing ([`Chaos`]), and the run in which
//! everything goes wrong that a seed thinks of ([`run`]).
//!
//! [`plan`] says by the seed what goes wrong and when, and [`strike`] does it, with [`proxy`] on the links and [`provider`] at
//! the far end. Meanwhile [`load`] is what clients do, [`oracle`] writes down what they were answered, and [`pulse`] measures how
//! soon all is well again. In the end [`found`] looks at what there is, [`checks`] holds it against what was answered, and
//! [`report`] tells.

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
