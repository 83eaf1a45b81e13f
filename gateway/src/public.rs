//! What browsers fetch without a key: the dashboard, the reference of the API, the web SDK's scripts, and the pages behind the
//! links in messages.

pub mod dashboard;
pub mod docs;
pub mod links;
pub mod sdk;
