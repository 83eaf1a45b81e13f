//! The product as a whole.

mod crash;
mod line;
mod outages;
mod shop;
mod workers;
