//! The product as a whole.

mod broker_cluster;
mod broker_users;
mod by_project;
mod campaign;
mod chaos;
mod clock;
mod crash;
mod due_together;
mod erasure;
mod failover;
mod faults;
mod import;
mod journey;
mod journey_under_fire;
mod limits_and_keys;
mod line;
mod mail;
mod outages;
mod restore;
mod rolling;
mod segments;
mod shop;
mod telemetry;
mod traces;
mod upgrade;
mod workers;
