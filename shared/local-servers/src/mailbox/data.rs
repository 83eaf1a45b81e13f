//! Decodes an email from the bytes after `DATA`: finds the end and removes doubled dots.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    LineStart,
    Within,
    Cr,
    Dot,
    DotCr,
}

/// Only CR LF ends a line. A lone CR or LF is part of the email, so that it cannot be mistaken for the end (SMTP
/// smuggling).
#[derive(Debug)]
pub(super) struct Decoder {
    state: State,
    max_size: usize,
    mail: Vec<u8>,
    too_large: bool,
}

impl Decoder {
    pub(super) fn new(max_size: usize) -> Self {
        Self { state: State::LineStart, max_size, mail: Vec::new(), too_large: false }
    }

    /// Adds bytes. Returns the number of bytes up to and including the end, or `None` if the end is not reached.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Option<usize> {
        bytes.iter().position(|byte| self.byte(*byte)).map(|at| at + 1)
    }

    /// Returns the email, or `None` if it was too large.
    pub(super) fn finish(self) -> Option<Vec<u8>> {
        (!self.too_large).then_some(self.mail)
    }

    /// Returns true at the end.
    fn byte(&mut self, byte: u8) -> bool {
        self.state = match (self.state, byte) {
            (State::LineStart, b'.') => {
                self.state = State::Dot;
                return false;
            }
            (State::Dot, b'\r') => {
                self.state = State::DotCr;
                return false;
            }
            (State::DotCr, b'\n') => return true,
            (State::Cr, b'\n') => State::LineStart,
            (_, b'\r') => State::Cr,
            _ => State::Within,
        };
        self.keep(byte);
        false
    }

    fn keep(&mut self, byte: u8) {
        if self.mail.len() < self.max_size {
            self.mail.push(byte);
        } else {
            self.too_large = true;
            self.mail = Vec::new();
            self.max_size = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(wire: &[u8]) -> (Option<usize>, Vec<u8>) {
        let mut decoder = Decoder::new(1000);
        let end = decoder.push(wire);
        (end, decoder.finish().unwrap())
    }

    #[test]
    fn dots_are_unstuffed_and_end_is_found() {
        let wire = b"a\r\n..b\r\n...\r\n.c\r\n.\r\nQUIT\r\n";
        assert_eq!(decode(wire), (Some(wire.len() - 6), b"a\r\n.b\r\n..\r\nc\r\n".to_vec()));
        assert_eq!(decode(b".\r\n"), (Some(3), Vec::new()));
    }

    #[test]
    fn lone_cr_or_lf_does_not_end_email() {
        for wire in [&b"a\n.\nb"[..], b"a\n.\r\nb", b"a\r.\r\nb", b"a\r\n.\nb", b"a\r\n."] {
            assert_eq!(decode(wire).0, None, "{wire:?}");
        }
    }

    #[test]
    fn decoder_accepts_any_chunking() {
        let wire = b"Subject: x\r\n\r\n..\r\n\r\r\n\0\xff\r\n.\r\n";
        for cut in 0..wire.len() {
            let mut decoder = Decoder::new(1000);
            assert_eq!(decoder.push(&wire[..cut]), None);
            assert_eq!(decoder.push(&wire[cut..]), Some(wire.len() - cut));
            assert_eq!(decoder.finish().unwrap(), b"Subject: x\r\n\r\n.\r\n\r\r\n\0\xff\r\n");
        }
    }

    #[test]
    fn oversized_email_is_read_and_discarded() {
        let mut decoder = Decoder::new(4);
        assert_eq!(decoder.push(b"12345678\r\n.\r\n"), Some(13));
        assert_eq!(decoder.finish(), None);
        let mut decoder = Decoder::new(4);
        assert_eq!(decoder.push(b"12\r\n.\r\n"), Some(7));
        assert_eq!(decoder.finish().unwrap(), b"12\r\n");
    }
}
