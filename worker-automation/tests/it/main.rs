//! worker-automation against real servers.

mod fixture;
mod journeys;
mod ownership;
mod people;
mod recording;
