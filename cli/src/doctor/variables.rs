//! Every variable that a program reads, and its valid values.

/// The type of a variable's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any text. It is checked elsewhere, or by the server that receives it.
    Text,
    /// An integer within these bounds.
    Number(u64, u64),
    /// `on` or `off`.
    Switch,
    /// One of these values.
    Choice(&'static [&'static str]),
    /// Several of these values, separated by commas.
    Choices(&'static [&'static str]),
    /// An IP address and a port.
    Socket,
    /// A URL that begins with `http://` or `https://`.
    Url,
}

const BYTES: Kind = Kind::Number(1 << 20, 1 << 50);

/// All variables, sorted by name. A test compares them with the programs' sources.
pub const VARIABLES: &[(&str, Kind)] = &[
    ("ADMIN_ADDR", Kind::Socket),
    ("AI_API_KEY", Kind::Text),
    ("AI_BASE_URL", Kind::Url),
    ("AI_MODEL", Kind::Text),
    ("AI_RATE_PER_MINUTE", Kind::Number(1, 100_000)),
    ("AI_TIMEOUT_SECONDS", Kind::Number(1, 120)),
    ("APNS_BASE_URL", Kind::Url),
    ("AUTOMATION_BATCH_ITEMS", Kind::Number(1, 50_000)),
    ("AUTOMATION_LANES", Kind::Number(1, 64)),
    ("AUTOMATION_LINGER_MS", Kind::Number(0, 1_000)),
    ("AUTOMATION_PEOPLE", Kind::Number(1_000, 100_000_000)),
    ("CAMPAIGN_FAILURES_IN_ROW", Kind::Number(1, 1_000_000)),
    ("CAMPAIGN_FAILURES_OF", Kind::Number(1, 1_000_000)),
    ("DATABASE_POOL_SIZE", Kind::Number(1, 500)),
    ("DATABASE_URL", Kind::Text),
    ("DEAD_MAX_BYTES", BYTES),
    ("DELIVERY_CHANNELS", Kind::Choices(&["email", "push", "in_app", "sms"])),
    ("DELIVERY_CONCURRENCY", Kind::Number(2, 1_024)),
    ("DELIVERY_LEASE_MS", Kind::Number(1_000, 600_000)),
    ("DELIVERY_REPLICAS", Kind::Number(1, 1_000)),
    ("DELIVERY_UNKNOWN_RETRIES", Kind::Number(0, 10)),
    ("GATEWAY_ADDR", Kind::Socket),
    ("GATEWAY_INBOX_STREAMS", Kind::Number(1, 1_000_000)),
    ("GATEWAY_MAX_CONNECTIONS", Kind::Number(1, 1_000_000)),
    ("GATEWAY_REPLICAS", Kind::Number(1, 1_000)),
    ("DEAD_LETTERS_KEEP_DAYS", Kind::Number(1, 3_650)),
    ("INBOX_KEEP_DAYS", Kind::Number(1, 3_650)),
    ("INGEST_KEEP_HOURS", Kind::Number(1, 8_760)),
    ("INGEST_MAX_BYTES", BYTES),
    ("INGEST_PARTITIONS", Kind::Number(1, 256)),
    ("INGEST_PURGE_ABOVE_PERCENT", Kind::Number(1, 100)),
    ("LOG_FORMAT", Kind::Choice(&["text", "json"])),
    ("MAIL_BASE_URL", Kind::Url),
    ("MASTER_KEY", Kind::Text),
    ("MASTER_KEY_FILE", Kind::Text),
    ("MAX_PROJECTS_PER_ACCOUNT", Kind::Number(1, 1_000_000)),
    ("MAX_RATE_LIMIT", Kind::Number(1, 1_000_000)),
    ("NATS_CA_FILE", Kind::Text),
    ("NATS_URL", Kind::Text),
    ("OTEL_BSP_SCHEDULE_DELAY", Kind::Number(10, 60_000)),
    ("OTEL_EXPORTER_OTLP_ENDPOINT", Kind::Text),
    ("OTEL_EXPORTER_OTLP_HEADERS", Kind::Text),
    ("OTEL_EXPORTER_OTLP_PROTOCOL", Kind::Choice(&["http/protobuf"])),
    ("OTEL_RESOURCE_ATTRIBUTES", Kind::Text),
    ("OTEL_SERVICE_NAME", Kind::Text),
    (
        "OTEL_TRACES_SAMPLER",
        Kind::Choice(&[
            "always_on",
            "always_off",
            "traceidratio",
            "parentbased_always_on",
            "parentbased_always_off",
            "parentbased_traceidratio",
        ]),
    ),
    ("OTEL_TRACES_SAMPLER_ARG", Kind::Text),
    ("OUTBOUND_ALLOW", Kind::Text),
    ("OUTBOUND_CA_FILE", Kind::Text),
    ("PARTITION_LEASE_MS", Kind::Number(500, 120_000)),
    ("PROJECT_CREATION", Kind::Choice(&["anyone", "operator"])),
    ("PUBLIC_BASE_URL", Kind::Text),
    ("PUSH_GATEWAY_BASE_URL", Kind::Url),
    ("PUSH_MAILBOX_DIR", Kind::Text),
    ("PUSH_PROVIDER_APP_ID", Kind::Text),
    ("PUSH_PROVIDER_BASE_URL", Kind::Url),
    ("PUSH_PROVIDER_RATE_LIMIT", Kind::Number(1, 100_000)),
    ("PUSH_PROVIDER_REST_KEY", Kind::Text),
    ("REDIS_CA_FILE", Kind::Text),
    ("REDIS_URL", Kind::Text),
    ("RUST_LOG", Kind::Text),
    ("SCHEDULER_TICK_MS", Kind::Number(10, 10_000)),
    ("SEND_MAX_BYTES", BYTES),
    ("SMS_BASE_URL", Kind::Url),
    ("STREAM_PREFIX", Kind::Text),
    ("STREAM_REPLICAS", Kind::Choice(&["1", "3", "5"])),
    ("SYSTEM_MAIL_FROM", Kind::Text),
    ("SYSTEM_SMTP_URL", Kind::Text),
    ("TRUST_FORWARDED", Kind::Switch),
    ("VAPID_SUBJECT", Kind::Text),
];

impl Kind {
    /// Returns the allowed values if `text` is invalid, or else `None`.
    pub fn allowed_if_invalid(self, text: &str) -> Option<String> {
        let one_of = |allowed: &[&str]| format!("one of {}", allowed.join(", "));
        match self {
            Self::Text => None,
            Self::Number(least, most) => {
                let fits = text.parse::<u64>().is_ok_and(|number| (least..=most).contains(&number));
                (!fits).then(|| format!("a number from {least} to {most}"))
            }
            Self::Switch => (!["on", "off"].contains(&text)).then(|| "on or off".to_owned()),
            Self::Choice(allowed) => (!allowed.contains(&text)).then(|| one_of(allowed)),
            Self::Choices(allowed) => {
                let parts = text.split(',').map(|part| part.trim().to_ascii_lowercase());
                let fits = parts.filter(|part| !part.is_empty()).all(|part| allowed.contains(&part.as_str()));
                (!fits).then(|| format!("some of {}, separated by commas", allowed.join(", ")))
            }
            Self::Socket => {
                let fits = text.parse::<std::net::SocketAddr>().is_ok();
                (!fits).then(|| "an address such as 127.0.0.1:9101".to_owned())
            }
            Self::Url => {
                let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
                host.is_none_or(str::is_empty).then(|| "an http:// or https:// address".to_owned())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use testkit::sources;

    use super::*;

    #[test]
    fn values_are_checked_against_their_kind() {
        let number = Kind::Number(1, 8);
        assert_eq!(
            (
                number.allowed_if_invalid("8"),
                number.allowed_if_invalid("9").is_some(),
                number.allowed_if_invalid("-1").is_some()
            ),
            (None, true, true)
        );
        assert!(Kind::Switch.allowed_if_invalid("yes").is_some() && Kind::Switch.allowed_if_invalid("on").is_none());
        let some = Kind::Choices(&["email", "push"]);
        assert!(some.allowed_if_invalid("email, PUSH").is_none() && some.allowed_if_invalid("email,pigeon").is_some());
        assert!(
            Kind::Url.allowed_if_invalid("https://").is_some() && Kind::Url.allowed_if_invalid("http://a").is_none()
        );
        assert!(
            Kind::Socket.allowed_if_invalid("8080").is_some()
                && Kind::Socket.allowed_if_invalid("0.0.0.0:8080").is_none()
        );
        assert!(Kind::Choice(&["1", "3"]).allowed_if_invalid("2").is_some());
    }

    /// Returns the names in capitals that a program reads from its environment: every such string on a line that reads
    /// it, or that defines a name.
    fn names_read_by(code: &str) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for (at, _) in code.match_indices('"') {
            let rest = &code[at + 1..];
            let name = &rest[..rest.find('"').unwrap_or(0)];
            let is_name = name.contains('_') && name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
            let before = code[..at].trim_end();
            let reads = [
                "env.get(",
                "env.text(",
                "env.parse(",
                "env.bounded(",
                "env.list(",
                "(env,",
                "is_set(",
                "&str =",
                "; 2] = [",
                "(",
            ]
            .iter()
            .any(|how| before.ends_with(how));
            let is_second = before.ends_with("\"PUSH_PROVIDER_APP_ID\",");
            // `env!` reads the compiler's environment.
            if is_name && (reads || is_second) && !before.ends_with("env!(") {
                names.insert(name.to_owned());
            }
        }
        names
    }

    #[test]
    fn variables_match_those_that_programs_read() {
        let mut read_names = BTreeSet::new();
        for source in sources::program_sources() {
            if source.text.contains("env: &Env") || source.text.contains("&Env::") {
                read_names.extend(names_read_by(source.code()));
            }
        }
        let listed: BTreeSet<String> = VARIABLES.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(listed.len(), VARIABLES.len());
        assert_eq!(read_names, listed);
    }

    #[test]
    fn reference_documents_every_variable() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/settings.md");
        let text = std::fs::read_to_string(path).unwrap();
        let first_cells = text.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
        let names = first_cells.flat_map(|cell| cell.split(", ").map(|name| name.trim_matches('`').to_owned()));
        let mut documented: Vec<String> = names.collect();
        documented.sort();
        let mut listed: Vec<String> = VARIABLES.iter().map(|(name, _)| (*name).to_owned()).collect();
        listed.sort();
        assert_eq!(documented, listed);
    }
}
