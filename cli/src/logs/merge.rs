//! Merging logs by the time that their lines begin with. Pure.

/// The lines of several logs in one order of time. Lines without a time of their own stay behind the one before them.
pub fn by_time(logs: Vec<(String, Vec<String>)>) -> Vec<(String, String)> {
    let mut all: Vec<(String, String, String)> = Vec::new();
    for (name, lines) in logs {
        let mut time = String::new();
        for line in lines {
            if let Some(own) = time_of(&line) {
                time = own;
            }
            all.push((time.clone(), name.clone(), line));
        }
    }
    // Stable: each log keeps its own order.
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all.into_iter().map(|(_, name, line)| (name, line)).collect()
}

/// The first date and time in the first 60 bytes of a line, of the shapes `2026-01-31T10:00:00.1Z`,
/// `2026-01-31 10:00:00.1 UTC` and `2026/01/31 10:00:00.1`, in a form that sorts.
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
    fn times_are_found_in_every_log_of_ours() {
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
    fn lines_go_by_time_and_followers_stay_with_theirs() {
        let lines = |texts: &[&str]| texts.iter().map(|t| (*t).to_owned()).collect();
        let merged = by_time(vec![
            ("a".into(), lines(&["2026-01-01T00:00:01Z one", "  more of one", "2026-01-01T00:00:03Z three"])),
            ("b".into(), lines(&["2026-01-01T00:00:02Z two"])),
        ]);
        let order: Vec<&str> = merged.iter().map(|(_, line)| line.rsplit(' ').next().unwrap_or("")).collect();
        assert_eq!(order, ["one", "one", "two", "three"]);
    }
}
