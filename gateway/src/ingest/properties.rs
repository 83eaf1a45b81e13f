//! Validates the text of a properties object. Rejects what PostgreSQL's `jsonb` would reject later.
//!
//! The text is known to be JSON (a `RawValue`), so one pass over its bytes suffices and nothing is allocated. The last of
//! repeated keys wins, as in `jsonb`.

/// Maximum length of the text, in bytes.
pub const MAX_BYTES: usize = 32 * 1024;
/// Maximum nesting of objects and arrays, including the outermost object.
pub const MAX_DEPTH: usize = 10;
/// Maximum keys of one object.
pub const MAX_KEYS: usize = 255;
/// Maximum length of an unescaped key, in bytes.
pub const MAX_KEY_BYTES: usize = 255;
/// Beyond these limits, a number does not fit into a double.
///
/// Within them, the zeros that `jsonb` writes out count towards [`MAX_BYTES`].
const MAX_NUMBER_BYTES: usize = 330;
const MAX_EXPONENT: i32 = 324;

/// Returns why properties are not allowed, or `None` if they are.
pub fn find_violation(text: &str) -> Option<String> {
    if !text.starts_with('{') {
        return Some("must be an object".to_owned());
    }
    if text.len() > MAX_BYTES {
        return Some(format!("must be at most {MAX_BYTES} bytes of JSON"));
    }
    if is_plain(text.as_bytes()) { None } else { Scan { text, at: 0, written: text.len() }.run().err() }
}

/// Bytes checked at once: a block without a quotation mark is short enough not to hide a key over [`MAX_KEY_BYTES`].
const BLOCK: usize = 64;
/// A text up to this size cannot hold more than [`MAX_KEYS`] keys, because each takes at least six bytes: `"k":1,`.
const MAX_PLAIN_BYTES: usize = 6 * MAX_KEYS;

/// Returns whether the text certainly meets all limits, without parsing it. Most properties do; the others need a scan.
///
/// A text is plain if it is short, has no escapes and no empty strings, opens no more objects and arrays in total than may be
/// nested, has no digit before an `e`, and has no stretch without a quotation mark that is long enough for an oversized key or
/// number.
fn is_plain(text: &[u8]) -> bool {
    if text.len() > MAX_PLAIN_BYTES {
        return false;
    }
    // Each byte is compared with the one before it. The first byte opens the outermost object.
    let (Some(all_but_first), Some(all_but_last)) = (text.get(1..), text.get(..text.len().saturating_sub(1))) else {
        return false;
    };
    let (blocks, rest) = all_but_first.as_chunks::<BLOCK>();
    let (before, rest_before) = all_but_last.as_chunks::<BLOCK>();
    let mut check = FastCheck::default();
    for (block, before) in blocks.iter().zip(before) {
        if !check.finds_quotation_mark(before, block) {
            return false;
        }
    }
    let padded = |rest: &[u8]| {
        let mut block = [b' '; BLOCK];
        block[..rest.len()].copy_from_slice(rest);
        block
    };
    check.finds_quotation_mark(&padded(rest_before), &padded(rest));
    check.is_plain()
}

/// Bytes per SIMD register.
const LANES: usize = 16;

/// Findings so far, per lane. The loop over the lanes has no branches, so that the compiler can vectorize it.
#[derive(Default)]
struct FastCheck {
    /// Objects and arrays opened. [`MAX_PLAIN_BYTES`] guarantees that the count fits into a byte.
    opens: [u8; LANES],
    suspicious: [u8; LANES],
}

impl FastCheck {
    /// Checks a block, given the byte before each of its bytes. Returns whether the block contains a quotation mark.
    fn finds_quotation_mark(&mut self, before: &[u8; BLOCK], block: &[u8; BLOCK]) -> bool {
        let is = |byte: u8, wanted: u8| u8::from(byte == wanted);
        let mut quotes = [0; LANES];
        for (bytes, before) in block.as_chunks::<LANES>().0.iter().zip(before.as_chunks::<LANES>().0) {
            for lane in 0..LANES {
                let (byte, before) = (bytes[lane], before[lane]);
                let quote = is(byte, b'"');
                let exponent = u8::from(before.wrapping_sub(b'0') < 10) & is(byte | 0x20, b'e');
                quotes[lane] |= quote;
                self.opens[lane] += is(byte, b'{') | is(byte, b'[');
                self.suspicious[lane] |= is(byte, b'\\') | (quote & is(before, b'"')) | exponent;
            }
        }
        u128::from_ne_bytes(quotes) != 0
    }

    fn is_plain(&self) -> bool {
        let opened = 1 + self.opens.iter().map(|o| usize::from(*o)).sum::<usize>();
        u128::from_ne_bytes(self.suspicious) == 0 && opened <= MAX_DEPTH
    }
}

struct Scan<'a> {
    text: &'a str,
    at: usize,
    /// Length of the text with all numbers written without exponents.
    written: usize,
}

impl Scan<'_> {
    fn run(mut self) -> Result<(), String> {
        let bytes = self.text.as_bytes();
        // The keys counted so far in each open object; `None` for an array.
        let mut open = [None::<usize>; MAX_DEPTH];
        let mut depth = 0;
        let mut key_next = false;
        while let Some(byte) = bytes.get(self.at) {
            match byte {
                b'{' | b'[' => {
                    if depth == MAX_DEPTH {
                        return Err(format!("must be nested at most {MAX_DEPTH} levels deep"));
                    }
                    key_next = *byte == b'{';
                    open[depth] = key_next.then_some(0);
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' => {
                    depth = depth.saturating_sub(1);
                    key_next = false;
                    self.at += 1;
                }
                b',' => {
                    key_next = depth > 0 && open[depth - 1].is_some();
                    self.at += 1;
                }
                b':' => {
                    key_next = false;
                    self.at += 1;
                }
                b'"' => {
                    let length = self.string()?;
                    if key_next && let Some(keys) = &mut open[depth.saturating_sub(1)] {
                        *keys += 1;
                        if *keys > MAX_KEYS {
                            return Err(format!("an object must have at most {MAX_KEYS} keys"));
                        }
                        if !(1..=MAX_KEY_BYTES).contains(&length) {
                            return Err(format!("a key must have 1 to {MAX_KEY_BYTES} bytes"));
                        }
                    }
                }
                b'-' | b'0'..=b'9' => self.number()?,
                // White space and the letters of true, false and null.
                _ => self.at += 1,
            }
        }
        Ok(())
    }

    /// Consumes a string and returns its unescaped length in bytes.
    fn string(&mut self) -> Result<usize, String> {
        let bytes = self.text.as_bytes();
        let start = self.at + 1;
        let mut at = start;
        let mut saved = 0;
        loop {
            match bytes.get(at) {
                Some(b'"') | None => break,
                Some(b'\\') if bytes.get(at + 1) == Some(&b'u') => {
                    let escape = escaped(&bytes[at..])?;
                    saved += escape.read - escape.utf8;
                    at += escape.read;
                }
                Some(b'\\') => {
                    saved += 1;
                    at += 2;
                }
                Some(_) => at += 1,
            }
        }
        self.at = at + 1;
        Ok(at - start - saved)
    }

    fn number(&mut self) -> Result<(), String> {
        let bytes = self.text.as_bytes();
        let start = self.at;
        let mut exponent = None;
        while let Some(byte) =
            bytes.get(self.at).filter(|b| matches!(b, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E'))
        {
            self.at += 1;
            if matches!(byte, b'e' | b'E') {
                exponent = Some(self.at);
            }
        }
        let number = &self.text[start..self.at];
        let out_of_range = || Err(format!("the number {} is outside the range of a double", shortened(number)));
        if let Some(exponent) = exponent {
            let exponent = self.text[exponent..self.at].parse::<i32>().unwrap_or(i32::MAX);
            if exponent.unsigned_abs() > MAX_EXPONENT.unsigned_abs() {
                return out_of_range();
            }
            self.written += exponent.unsigned_abs() as usize;
            if self.written > MAX_BYTES {
                return Err(format!(
                    "must be at most {MAX_BYTES} bytes of JSON with its numbers written without exponents"
                ));
            }
        }
        if number.len() > MAX_NUMBER_BYTES {
            return out_of_range();
        }
        if (exponent.is_some() || number.len() > 300) && !number.parse::<f64>().is_ok_and(f64::is_finite) {
            return out_of_range();
        }
        Ok(())
    }
}

/// A character written as `\uXXXX`, or as a surrogate pair.
struct Escape {
    /// Bytes consumed.
    read: usize,
    /// Length of the character in UTF-8.
    utf8: usize,
}

fn escaped(bytes: &[u8]) -> Result<Escape, String> {
    let of = |read, utf8| Ok(Escape { read, utf8 });
    let lone = || Err("must not contain half of a surrogate pair".to_owned());
    match unit(bytes) {
        Some(0) => Err("must not contain the character U+0000".to_owned()),
        Some(0xD800..=0xDBFF) => match bytes.get(6..).and_then(unit) {
            Some(0xDC00..=0xDFFF) => of(12, 4),
            _ => lone(),
        },
        Some(0xDC00..=0xDFFF) | None => lone(),
        Some(0x01..=0x7F) => of(6, 1),
        Some(0x80..=0x7FF) => of(6, 2),
        Some(_) => of(6, 3),
    }
}

fn unit(bytes: &[u8]) -> Option<u16> {
    let [b'\\', b'u', digits @ ..] = bytes else { return None };
    let digits = std::str::from_utf8(digits.get(..4)?).ok()?;
    u16::from_str_radix(digits, 16).ok()
}

fn shortened(number: &str) -> &str {
    number.get(..20).unwrap_or(number)
}

#[cfg(test)]
mod tests;
