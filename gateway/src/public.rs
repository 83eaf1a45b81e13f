//! Resources that browsers fetch without a key: dashboard, API reference, web SDK, and the pages behind links in messages.

pub mod dashboard;
pub mod docs;
pub mod links;
pub mod sdk;
