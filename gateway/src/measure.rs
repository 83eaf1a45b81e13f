//! What is counted about requests.

use std::time::Duration;

use http::StatusCode;
use metrics::{counter, histogram};
use shared::metric_name::{HTTP_REQUESTS, HTTP_SECONDS};

use crate::router::Route;

pub fn request(route: Option<Route<'_>>, status: StatusCode, took: Duration) {
    let route = route.map_or("none", Route::pattern);
    counter!(HTTP_REQUESTS, "route" => route, "status" => class(status)).increment(1);
    histogram!(HTTP_SECONDS, "route" => route).record(took);
}

fn class(status: StatusCode) -> &'static str {
    match status.as_u16() {
        ..200 => "1xx",
        200..300 => "2xx",
        300..400 => "3xx",
        400..500 => "4xx",
        500.. => "5xx",
    }
}
