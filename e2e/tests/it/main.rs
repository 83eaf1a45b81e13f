//! The product as a whole.

mod campaign;
mod crash;
mod erasure;
mod import;
mod journey;
mod line;
mod mail;
mod outages;
mod segments;
mod shop;
mod workers;
