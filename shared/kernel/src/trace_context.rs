//! Propagation of trace contexts (W3C Trace Context).

/// Length of a context on the wire and in the database, in bytes: the trace ID and the ID of the parent span.
const LEN: usize = 24;

/// The trace and the parent span of subsequent work. Only sampled traces have a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceContext {
    pub trace_id: [u8; 16],
    pub span_id: [u8; 8],
}

impl TraceContext {
    /// Reads a context. Returns `None` for invalid bytes: a broken trace is not continued and has no other effect.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (trace, span) = bytes.split_first_chunk::<16>()?;
        let context = Self { trace_id: *trace, span_id: span.try_into().ok()? };
        (context.trace_id != [0; 16] && context.span_id != [0; 8]).then_some(context)
    }

    /// Converts a context to the value of a database column.
    pub fn to_column(context: Option<Self>) -> Option<Vec<u8>> {
        context.map(|context| context.to_bytes().to_vec())
    }

    /// Reads a context from a database column.
    pub fn from_column(bytes: Option<&[u8]>) -> Option<Self> {
        Self::from_bytes(bytes?)
    }

    /// Returns 16 bytes of the trace ID and 8 of the span ID.
    pub fn to_bytes(self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        bytes[..16].copy_from_slice(&self.trace_id);
        bytes[16..].copy_from_slice(&self.span_id);
        bytes
    }
}

/// The content of a `traceparent` header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    pub context: TraceContext,
    /// Whether the caller records its part of the trace.
    pub sampled: bool,
}

impl TraceParent {
    /// Parses `00-<32 hexadecimal digits>-<16>-<2>`, in lower case.
    ///
    /// As the standard requires, later versions may append fields, and anything else yields `None`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim().splitn(5, '-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let [version] = digits::<1>(version)?;
        if version == 0xff || (version == 0 && parts.next().is_some()) {
            return None;
        }
        let (trace_id, span_id, [flags]) = (digits::<16>(trace)?, digits::<8>(span)?, digits::<1>(flags)?);
        let context = TraceContext { trace_id, span_id };
        TraceContext::from_bytes(&context.to_bytes()).map(|context| Self { context, sampled: flags & 1 == 1 })
    }
}

fn digits<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let is_small = text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    (is_small && hex::decode_to_slice(text, &mut bytes).is_ok()).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    #[test]
    fn traceparent_is_parsed_as_specified() {
        for (header, sampled) in [
            (format!("00-{TRACE}-{SPAN}-01"), Some(true)),
            (format!(" 00-{TRACE}-{SPAN}-00 "), Some(false)),
            (format!("00-{TRACE}-{SPAN}-03"), Some(true)),
            (format!("cc-{TRACE}-{SPAN}-01-what-the-future-brings"), Some(true)),
            (format!("00-{TRACE}-{SPAN}-01-more"), None),
            (format!("ff-{TRACE}-{SPAN}-01"), None),
            (format!("00-{}-{SPAN}-01", TRACE.to_uppercase()), None),
            (format!("00-{}-{SPAN}-01", "0".repeat(32)), None),
            (format!("00-{TRACE}-{}-01", "0".repeat(16)), None),
            (format!("00-{TRACE}-{SPAN}"), None),
            (format!("00-{TRACE}-{SPAN}-1"), None),
            (String::new(), None),
        ] {
            let parent = TraceParent::parse(&header);
            assert_eq!(parent.map(|p| p.sampled), sampled, "{header}");
            if let Some(parent) = parent {
                assert_eq!(hex::encode(parent.context.to_bytes()), format!("{TRACE}{SPAN}"));
            }
        }
    }

    #[test]
    fn bytes_round_trip_and_invalid_ones_are_rejected() {
        let context = TraceContext { trace_id: [7; 16], span_id: [9; 8] };
        assert_eq!(TraceContext::from_bytes(&context.to_bytes()), Some(context));
        for broken in [&[][..], &[1; 23], &[1; 25], &[0; 24]] {
            assert_eq!(TraceContext::from_bytes(broken), None);
        }
    }
}
