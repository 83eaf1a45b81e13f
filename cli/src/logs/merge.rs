//! Merges logs by the timestamps that their lines begin with. Pure.

/// A line of one of several logs.
pub struct Line {
    pub log: String,
    pub text: String,
    /// Its own timestamp, or that of the preceding line.
    time: String,
}

/// Merges the lines of several logs, each with its name. Lines without a timestamp stay after the line that precedes
/// them.
pub fn by_time(logs: Vec<(String, Vec<String>)>) -> Vec<Line> {
    let mut all = Vec::new();
    for (log, lines) in logs {
        let mut time = String::new();
        for text in lines {
            if let Some(own) = time_of(&text) {
                time = own;
            }
            all.push(Line { log: log.clone(), text, time: time.clone() });
        }
    }
    // The sort is stable, so each log keeps its own order.
    all.sort_by(|a, b| a.time.cmp(&b.time));
    all
}

/// Returns the first date and time within the first 60 bytes of a line, in a form that sorts. Accepts
/// `2026-01-31T10:00:00.1Z`, `2026-01-31 10:00:00.1 UTC` and `2026/01/31 10:00:00.1`.
fn time_of(line: &str) -> Option<String> {
    const SHAPE: &[u8] = b"dddd-dd-ddTdd:dd:dd";
    let bytes = line.as_bytes();
    let window = &bytes[..bytes.len().min(60)];
    let start = window.windows(SHAPE.len()).position(|w| w.iter().zip(SHAPE).all(|(b, shape)| fits(*b, *shape)))?;
    let fraction = bytes[start + SHAPE.len()..].iter().take_while(|b| b.is_ascii_digit() || **b == b'.').count();
    let text = &bytes[start..start + SHAPE.len() + fraction];
    Some(
        text.iter()
            .map(|b| char::from(*b))
            .map(|c| {
                if c == '/' {
                    '-'
                } else if c == ' ' {
                    'T'
                } else {
                    c
                }
            })
            .collect(),
    )
}

fn fits(byte: u8, shape: u8) -> bool {
    match shape {
        b'd' => byte.is_ascii_digit(),
        b'-' => matches!(byte, b'-' | b'/'),
        b'T' => matches!(byte, b'T' | b' '),
        other => byte == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_found_in_every_log_format() {
        for (line, time) in [
            ("2026-01-31T10:00:00.123456Z  INFO up", "2026-01-31T10:00:00.123456"),
            (r#"{"timestamp":"2026-01-31T10:00:00.5Z","level":"INFO"}"#, "2026-01-31T10:00:00.5"),
            ("2026-01-31 10:00:00.123 UTC [7] LOG:  ready", "2026-01-31T10:00:00.123"),
            ("[7] 2026/01/31 10:00:00.123456 [INF] ready", "2026-01-31T10:00:00.123456"),
        ] {
            assert_eq!(time_of(line).as_deref(), Some(time), "{line}");
        }
        for line in ["", "panicked at 2026", "ünïcödé ünïcödé ünïcödé ünïcödé ünïcödé ünïcödé 2026-01-31T10:00:00"]
        {
            assert_eq!(time_of(line), None, "{line}");
        }
    }

    #[test]
    fn lines_are_sorted_by_time_and_continuation_lines_stay_in_place() {
        let lines = |texts: &[&str]| texts.iter().map(|t| (*t).to_owned()).collect();
        let merged = by_time(vec![
            ("a".into(), lines(&["2026-01-01T00:00:01Z one", "  more of one", "2026-01-01T00:00:03Z three"])),
            ("b".into(), lines(&["2026-01-01T00:00:02Z two"])),
        ]);
        let order: Vec<&str> = merged.iter().map(|line| line.text.rsplit(' ').next().unwrap_or("")).collect();
        assert_eq!(order, ["one", "one", "two", "three"]);
    }
}
