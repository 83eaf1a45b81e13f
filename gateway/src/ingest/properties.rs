//! Judging an object of properties by its text: what PostgreSQL's `jsonb` would refuse later is refused here.
//!
//! The text is known to be JSON (a `RawValue`), so one pass over its bytes suffices and nothing is built. Where a key
//! stands twice, the last one counts, as in `jsonb`.

/// Bytes of the text at most.
pub const MAX_BYTES: usize = 32 * 1024;
/// Objects and arrays within each other, the outermost counted.
pub const MAX_DEPTH: usize = 10;
/// Keys of any one object.
pub const MAX_KEYS: usize = 255;
/// Bytes of a key, unescaped.
pub const MAX_KEY_BYTES: usize = 255;
/// Beyond these, a number has no place in a double. Within them, the zeros that `jsonb` writes out count towards [`MAX_BYTES`].
const MAX_NUMBER_BYTES: usize = 330;
const MAX_EXPONENT: i32 = 324;

/// Why properties are not allowed; `None` when they are.
pub fn refuses(text: &str) -> Option<String> {
    if !text.starts_with('{') {
        return Some("must be an object".to_owned());
    }
    if text.len() > MAX_BYTES {
        return Some(format!("must be at most {MAX_BYTES} bytes of JSON"));
    }
    if is_plain(text.as_bytes()) { None } else { Scan { text, at: 0, written: text.len() }.run().err() }
}

/// Bytes looked at together: small enough that a stretch without a quotation mark stays below [`MAX_KEY_BYTES`].
const BLOCK: usize = 64;
/// So few bytes cannot hold more than [`MAX_KEYS`] keys, each of which takes six: `"k":1,`.
const PLAIN_BYTES: usize = 6 * MAX_KEYS;

/// Told at a glance, that is without following the text: that no bound can be broken. Most properties are plain; of the
/// others nothing is said.
///
/// Plain is what is short, has no escapes, no empty strings, opens no more objects and arrays in all than may be within
/// each other, has no digit before an `e`, and goes nowhere without a quotation mark for so long that a key or a number
/// could be too long.
fn is_plain(text: &[u8]) -> bool {
    if text.len() > PLAIN_BYTES {
        return false;
    }
    // Each byte is looked at together with the one before it; the first opens the outermost object.
    let (Some(all_but_first), Some(all_but_last)) = (text.get(1..), text.get(..text.len().saturating_sub(1))) else {
        return false;
    };
    let (blocks, rest) = all_but_first.as_chunks::<BLOCK>();
    let (before, rest_before) = all_but_last.as_chunks::<BLOCK>();
    let mut glance = Glance::default();
    for (block, before) in blocks.iter().zip(before) {
        if !glance.finds_quotation_mark(before, block) {
            return false;
        }
    }
    let padded = |rest: &[u8]| {
        let mut block = [b' '; BLOCK];
        block[..rest.len()].copy_from_slice(rest);
        block
    };
    glance.finds_quotation_mark(&padded(rest_before), &padded(rest));
    glance.is_plain()
}

/// Bytes that the compiler puts into one register.
const LANES: usize = 16;

/// What was seen so far. Every byte of a register is treated alike, without a branch, so that the compiler can take them
/// all in one step.
#[derive(Default)]
struct Glance {
    /// Objects and arrays opened; [`PLAIN_BYTES`] leave room for them in a byte.
    opens: [u8; LANES],
    suspicious: [u8; LANES],
}

impl Glance {
    /// Looks at a block, and at the bytes before each of its bytes.
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
    /// Bytes of the text with all numbers written without exponents.
    written: usize,
}

impl Scan<'_> {
    fn run(mut self) -> Result<(), String> {
        let bytes = self.text.as_bytes();
        // For each object or array that is open: the keys so far, none in an array.
        let mut open = [None::<usize>; MAX_DEPTH];
        let mut depth = 0;
        let mut key_next = false;
        while let Some(byte) = bytes.get(self.at) {
            match byte {
                b'{' | b'[' => {
                    if depth == MAX_DEPTH {
                        return Err(format!("must be nested at most {MAX_DEPTH} deep"));
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

    /// Passes a string and returns its length in bytes, unescaped.
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

/// A character that is written as `\uXXXX`, or as two of them that belong together.
struct Escape {
    /// Bytes that were read.
    read: usize,
    /// Bytes of the character in UTF-8.
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
