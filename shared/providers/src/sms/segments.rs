//! Counts the SMS segments of a text (GSM 03.38). Pure.

/// Characters of the default alphabet that take one septet each, besides letters and digits.
const BASIC: &str = "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./:;<=>?¡ÄÖÑÜ§¿äöñüà";
/// Characters of the extension table, which take two septets.
const EXTENDED: &str = "\u{c}^{}\\[~]|€";

/// Capacity of an SMS, in septets or UTF-16 units.
#[derive(Clone, Copy)]
struct Capacity {
    single: usize,
    /// As a segment of a longer text.
    part: usize,
}

const GSM: Capacity = Capacity { single: 160, part: 153 };
const UCS2: Capacity = Capacity { single: 70, part: 67 };

/// Returns the number of segments of a text. A single character outside of the default alphabet encodes the whole text as UCS-2.
pub fn count(text: &str) -> usize {
    match text.chars().map(septets).collect::<Option<Vec<usize>>>() {
        Some(sizes) => parts(sizes, GSM),
        None => parts(text.chars().map(char::len_utf16), UCS2),
    }
}

fn septets(c: char) -> Option<usize> {
    match c {
        _ if c.is_ascii_alphanumeric() || BASIC.contains(c) => Some(1),
        _ if EXTENDED.contains(c) => Some(2),
        _ => None,
    }
}

/// Counts segments; no character is split between two.
fn parts(sizes: impl IntoIterator<Item = usize> + Clone, capacity: Capacity) -> usize {
    if sizes.clone().into_iter().sum::<usize>() <= capacity.single {
        return 1;
    }
    let (mut parts, mut free) = (1, capacity.part);
    for size in sizes {
        if size > free {
            parts += 1;
            free = capacity.part;
        }
        free -= size;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segment_count_matches_network_billing() {
        for (text, segments) in [
            (String::new(), 1),
            ("a".repeat(160), 1),
            ("a".repeat(161), 2),
            ("a".repeat(306), 2),
            ("a".repeat(307), 3),
            ("€".repeat(80), 1),
            ("€".repeat(81), 2),
            // An escaped character is not split between segments: 76 of them fill 152 of 153 septets.
            ("€".repeat(152), 2),
            ("€".repeat(153), 3),
            (format!("{}ß", "a".repeat(159)), 1),
            (format!("{}✓", "a".repeat(69)), 1),
            (format!("{}✓", "a".repeat(70)), 2),
            ("ж".repeat(70), 1),
            ("ж".repeat(71), 2),
            ("ж".repeat(134), 2),
            ("ж".repeat(135), 3),
            // Two units each, and 67 is odd.
            ("😀".repeat(35), 1),
            ("😀".repeat(36), 2),
            ("😀".repeat(66), 2),
            ("😀".repeat(67), 3),
            ("ç".to_owned(), 1),
        ] {
            assert_eq!(count(&text), segments, "{text:.5}, {} characters", text.chars().count());
        }
    }
}
