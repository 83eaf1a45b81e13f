//! Compares JSON numbers: whole numbers exactly, others as doubles.

use std::cmp::Ordering;

use serde_json::Number;

pub(super) fn compare(a: &Number, b: &Number) -> Ordering {
    match (whole(a), whole(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => double(a).total_cmp(&double(b)),
    }
}

fn whole(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

/// Converts to a double and normalizes negative zero.
fn double(number: &Number) -> f64 {
    number.as_f64().unwrap_or(f64::NAN) + 0.0
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn whole_numbers_are_exact_and_zero_is_zero() {
        let of = |a: Value, b: Value| compare(a.as_number().unwrap(), b.as_number().unwrap());
        assert_eq!(of(json!(1), json!(1.0)), Ordering::Equal);
        assert_eq!(of(json!(9_007_199_254_740_993_i64), json!(9_007_199_254_740_992_i64)), Ordering::Greater);
        assert_eq!(of(json!(-1), json!(u64::MAX)), Ordering::Less);
        assert_eq!(of(json!(-0.0), json!(0)), Ordering::Equal);
        assert_eq!(of(json!(0.1), json!(0.25)), Ordering::Less);
    }
}
