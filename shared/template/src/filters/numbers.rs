//! Arithmetic. Whole numbers stay whole; values that are not numbers count as 0, as in Liquid.

use super::{Args, Limit, Value};

type Out<'a> = Result<Value<'a>, Limit>;

fn number<'a>(value: &Value<'a>) -> Value<'a> {
    value.number().unwrap_or(Value::Int(0))
}

fn float(value: &Value<'_>) -> f64 {
    value.as_f64().unwrap_or_default()
}

/// Rounds away binary rounding errors: 0.1 + 0.2 is 0.3.
fn tidy<'a>(value: f64) -> Value<'a> {
    // The format below keeps 15 significant digits, so rounding a larger number would change its whole part.
    if value.abs() >= 1e15 {
        return Value::float(value);
    }
    Value::float(format!("{value:.14e}").parse().unwrap_or(value))
}

fn calculate<'a>(
    value: &Value<'a>,
    args: &Args<'a, '_>,
    whole: fn(i64, i64) -> Option<i64>,
    fractional: fn(f64, f64) -> f64,
) -> Out<'a> {
    let (left, right) = (number(value), number(args.get(0)));
    if let (Value::Int(a), Value::Int(b)) = (&left, &right)
        && let Some(result) = whole(*a, *b)
    {
        return Ok(Value::Int(result));
    }
    Ok(tidy(fractional(float(&left), float(&right))))
}

pub(super) fn plus<'a>(value: Value<'a>, args: &Args<'a, '_>) -> Out<'a> {
    calculate(&value, args, i64::checked_add, |a, b| a + b)
}

pub(super) fn minus<'a>(value: Value<'a>, args: &Args<'a, '_>) -> Out<'a> {
    calculate(&value, args, i64::checked_sub, |a, b| a - b)
}

pub(super) fn times<'a>(value: Value<'a>, args: &Args<'a, '_>) -> Out<'a> {
    calculate(&value, args, i64::checked_mul, |a, b| a * b)
}

/// Divides; the quotient of whole numbers is rounded down. Division by zero yields nil, which prints nothing.
pub(super) fn divided_by<'a>(value: Value<'a>, args: &Args<'a, '_>) -> Out<'a> {
    let whole = |a: i64, b: i64| {
        let quotient = a.checked_div(b)?;
        Some(if a % b != 0 && (a < 0) != (b < 0) { quotient - 1 } else { quotient })
    };
    calculate(&value, args, whole, |a, b| a / b)
}

/// Returns the remainder, with the sign of the divisor.
pub(super) fn modulo<'a>(value: Value<'a>, args: &Args<'a, '_>) -> Out<'a> {
    let whole = |a: i64, b: i64| {
        let rest = a.checked_rem(b)?;
        Some(if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest })
    };
    calculate(&value, args, whole, |a, b| a - b * (a / b).floor())
}

pub(super) fn at_least<'a>(value: Value<'a>, args: &Args<'a, '_>) -> Out<'a> {
    let (left, right) = (number(&value), number(args.get(0)));
    Ok(if float(&left) < float(&right) { right } else { left })
}

pub(super) fn at_most<'a>(value: Value<'a>, args: &Args<'a, '_>) -> Out<'a> {
    let (left, right) = (number(&value), number(args.get(0)));
    Ok(if float(&left) > float(&right) { right } else { left })
}

pub(super) fn abs<'a>(value: Value<'a>, _: &Args<'a, '_>) -> Out<'a> {
    Ok(match number(&value) {
        Value::Int(value) => value.checked_abs().map_or_else(|| Value::float((value as f64).abs()), Value::Int),
        other => Value::float(float(&other).abs()),
    })
}

/// Converts a float to a whole number if it fits.
fn whole<'a>(value: f64) -> Value<'a> {
    // Every integral float within these bounds is exact as an `i64`.
    if value.abs() < 9.0e18 { Value::Int(value as i64) } else { Value::float(value) }
}

fn rounded<'a>(value: &Value<'a>, how: fn(f64) -> f64) -> Value<'a> {
    match number(value) {
        Value::Float(value) => whole(how(value)),
        other => other,
    }
}

pub(super) fn ceil<'a>(value: Value<'a>, _: &Args<'a, '_>) -> Out<'a> {
    Ok(rounded(&value, f64::ceil))
}

pub(super) fn floor<'a>(value: Value<'a>, _: &Args<'a, '_>) -> Out<'a> {
    Ok(rounded(&value, f64::floor))
}

pub(super) fn round<'a>(value: Value<'a>, args: &Args<'a, '_>) -> Out<'a> {
    let digits = args.int(0).unwrap_or(0).clamp(0, 15);
    match number(&value) {
        Value::Float(value) if digits > 0 => {
            let scale = 10f64.powi(digits as i32);
            // Round decimal halves away from zero, even if the binary fraction is slightly below the half (1.005).
            let scaled = float(&tidy(value * scale));
            Ok(if scaled.is_finite() && scaled.abs() < 9.0e15 {
                tidy(scaled.round() / scale)
            } else {
                Value::Float(value)
            })
        }
        other => Ok(rounded(&other, f64::round)),
    }
}
