//! The date filter: reads RFC 3339 times, dates, Unix times and "now", and formats them by strftime directives.

use jiff::civil::Time;
use jiff::fmt::strtime::{BrokenDownTime, Config};
use jiff::fmt::temporal::Pieces;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use super::{Args, Limit, Value};

/// Maximum length of a format in bytes, which also bounds the size of padded directives.
const FORMAT_MAX: usize = 200;

/// Numbers from here on are milliseconds instead of seconds: as seconds they would be after the year 5000.
const MILLISECONDS_FROM: i64 = 100_000_000_000;

/// Formats a date: `date: format` or `date: format, time zone`. A value that is not a date stays unchanged.
///
/// The time is shown in the time zone, an IANA name, or else at the date's own offset, or else in UTC.
pub(super) fn date<'a>(value: Value<'a>, args: &Args<'a, '_>) -> Result<Value<'a>, Limit> {
    let format = args.get(0).text(args.max)?;
    let zone = args.get(1).as_str().and_then(|name| TimeZone::get(name).ok());
    if format.is_empty() || format.len() > FORMAT_MAX {
        return Ok(value);
    }
    let Some(moment) = moment(&value, args.now, zone) else { return Ok(value) };
    Ok(print(&moment, &format).map_or(value, Value::from))
}

fn print(moment: &Zoned, format: &str) -> Option<String> {
    BrokenDownTime::from(moment).to_string_with_config(&Config::new().lenient(true), format).ok()
}

/// Checks a format when the template is saved. The error says what is wrong with it.
pub(crate) fn check_format(format: &str) -> Result<(), String> {
    if format.len() > FORMAT_MAX {
        return Err(format!("a date format has at most {FORMAT_MAX} bytes"));
    }
    match BrokenDownTime::from(&Timestamp::UNIX_EPOCH.to_zoned(TimeZone::UTC)).to_string(format) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("not a date format: {error}")),
    }
}

fn moment(value: &Value<'_>, now: Timestamp, zone: Option<TimeZone>) -> Option<Zoned> {
    let at = |timestamp: Timestamp| timestamp.to_zoned(zone.clone().unwrap_or(TimeZone::UTC));
    if let Some(number) = value.as_f64() {
        return Some(at(from_number(number as i64)?));
    }
    let text = value.as_str()?.trim();
    if matches!(text, "now" | "today") {
        return Some(at(now));
    }
    if let Ok(number) = text.parse::<i64>() {
        return Some(at(from_number(number)?));
    }
    let pieces = Pieces::parse(text).ok()?;
    let local = pieces.date().to_datetime(pieces.time().unwrap_or(Time::midnight()));
    match pieces.to_numeric_offset() {
        Some(offset) => {
            let timestamp = offset.to_timestamp(local).ok()?;
            Some(timestamp.to_zoned(zone.unwrap_or_else(|| TimeZone::fixed(offset))))
        }
        None => local.to_zoned(zone.unwrap_or(TimeZone::UTC)).ok(),
    }
}

fn from_number(number: i64) -> Option<Timestamp> {
    let made = if number.unsigned_abs() >= MILLISECONDS_FROM.unsigned_abs() {
        Timestamp::from_millisecond(number)
    } else {
        Timestamp::from_second(number)
    };
    made.ok()
}
