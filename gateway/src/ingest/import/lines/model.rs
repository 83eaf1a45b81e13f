//! Lines of random lengths in random pieces, compared with splitting the whole text.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

/// Generates a line length, including those around `MAX_LINE`.
fn length() -> impl Strategy<Value = usize> {
    prop_oneof![6 => 0..9_usize, 1 => MAX_LINE - 3..MAX_LINE + 5, 1 => MAX_LINE..3 * MAX_LINE]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn lines_equal_those_of_the_whole_text(
        lines in prop::collection::vec((length(), any::<bool>()), 0..12),
        ends_with_break in any::<bool>(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        first in 1..1_000_u64,
    ) {
        let mut text = Vec::new();
        for (n, (length, returns)) in lines.iter().enumerate() {
            text.extend(std::iter::repeat_n(b'a' + n as u8, *length));
            text.extend_from_slice(if *returns { b"\r\n" } else { b"\n" });
        }
        if !ends_with_break {
            text.pop();
        }
        // A line is the text between two line feeds, without a carriage return before the second.
        let mut expected: Vec<&[u8]> = text.split(|b| *b == b'\n').collect();
        if expected.last().is_some_and(|last| last.is_empty()) {
            expected.pop();
        }
        let mut offsets: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
        offsets.push(text.len());
        offsets.sort_unstable();
        let (mut cut, mut from, mut found) = (Lines::default(), 0, Vec::new());
        cut.set_number(first);
        for to in offsets {
            cut.push(&text[from..to]);
            from = to;
            let is_end = to == text.len();
            while let Some((number, line)) = cut.next(is_end) {
                found.push((number, line.map(<[u8]>::to_vec)));
            }
        }
        prop_assert_eq!(found.len(), expected.len());
        for (n, ((number, line), expected)) in found.into_iter().zip(expected).enumerate() {
            prop_assert_eq!(number, first + n as u64);
            let whole = expected.strip_suffix(b"\r").unwrap_or(expected);
            match line {
                Ok(line) => prop_assert!(line == whole && line.len() <= MAX_LINE + 1),
                Err(TooLong) => prop_assert!(whole.len() > MAX_LINE, "{} bytes", whole.len()),
            }
        }
    }
}
