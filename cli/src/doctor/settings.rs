//! Environment variables: malformed, missing, misspelled, or unfit for production.

use bus::config::BusConfig;
use database::config::DatabaseConfig;
use database::connector::Connector;
use http_client::OutboundPolicy;
use kernel::env::{Env, EnvError};
use runtime::config::public_base_url;
use runtime::system_mail::SystemMail;
use secrets::MasterKeys;

use super::finding::Finding;
use super::variables::VARIABLES;

const CHECK: &str = "settings";
const PUBLIC_URL: &str = "PUBLIC_BASE_URL";

/// Name prefixes that belong to the product.
const PREFIXES: [&str; 24] = [
    "ADMIN_",
    "AI_",
    "APNS_",
    "AUTOMATION_",
    "CAMPAIGN_",
    "DATABASE_",
    "DEAD_",
    "DELIVERY_",
    "GATEWAY_",
    "INBOX_",
    "INGEST_",
    "MASTER_",
    "MAX_",
    "NATS_",
    "OUTBOUND_",
    "PARTITION_",
    "PROJECT_",
    "PUSH_",
    "REDIS_",
    "SCHEDULER_",
    "STREAM_",
    "SYSTEM_",
    "TRUST_",
    "VAPID_",
];

/// Judges all variables, and the result of resolving the mail server.
pub fn judge(env: &Env, unprotected_mail: Option<EnvError>) -> Vec<Finding> {
    let mut findings = malformed(env, unprotected_mail);
    findings.extend(missing(env));
    findings.extend(public(env));
    findings.extend(misspelled(env));
    if env.get("SYSTEM_SMTP_URL").or(env.get("SYSTEM_MAIL_FROM")).is_none() {
        findings.push(Finding::notable(
            CHECK,
            "SYSTEM_SMTP_URL is not set: invitations to a project's team are not mailed",
            "set it and SYSTEM_MAIL_FROM, or print each link with `rekindle invite link`",
        ));
    }
    if env.get("PUSH_MAILBOX_DIR").is_some() {
        findings.push(Finding::notable(
            CHECK,
            "PUSH_MAILBOX_DIR is set: pushes to devices whose tokens begin with `mailbox:` are written to files",
            "unset it in production",
        ));
    }
    if findings.is_empty() {
        findings.push(Finding::well(CHECK, "all variables are valid"));
    }
    findings
}

fn malformed(env: &Env, unprotected_mail: Option<EnvError>) -> Vec<Finding> {
    let mut errors = Vec::new();
    for (name, kind) in VARIABLES {
        // Variables that may hold secrets have kinds that refuse nothing, so their values are never shown.
        let refused = env.get(name).and_then(|text| kind.allowed_if_invalid(text));
        if let Some(allowed) = refused {
            errors.push((*name, format!("is {:?}", env.text(name, "")), allowed));
        }
    }
    let seen = |error: EnvError| (error.name, error.problem, error.allowed.to_owned());
    let parsed = [
        DatabaseConfig::from_env(env).err().map(seen),
        env.get("DATABASE_URL").and_then(|url| Connector::parse(url, "doctor").err()).map(seen),
        BusConfig::from_env(env).err().map(seen),
        env.get("MASTER_KEY").or(env.get("MASTER_KEY_FILE")).and_then(|_| MasterKeys::from_env(env).err()).map(seen),
        public_base_url(env, "http://127.0.0.1:8080").err().map(seen),
        OutboundPolicy::from_env(env).err().map(seen),
        rate_limits::Server::from_env(env).err().map(seen),
        SystemMail::from_env(env).err().or(unprotected_mail).map(seen),
    ];
    let mut findings: Vec<Finding> = errors
        .iter()
        .map(|(name, problem, allowed)| {
            Finding::wrong(CHECK, format!("{name} {problem}"), format!("allowed: {allowed}"))
        })
        .collect();
    for (name, problem, allowed) in parsed.into_iter().flatten() {
        if !errors.iter().any(|(known, ..)| *known == name) {
            findings.push(Finding::wrong(CHECK, format!("{name}: {problem}"), format!("allowed: {allowed}")));
        }
    }
    findings
}

fn missing(env: &Env) -> Vec<Finding> {
    let mut findings = Vec::new();
    if env.get("MASTER_KEY").or(env.get("MASTER_KEY_FILE")).is_none() {
        findings.push(Finding::wrong(
            CHECK,
            "MASTER_KEY is not set, and neither is MASTER_KEY_FILE: gateway, worker-automation and worker-delivery do not start",
            "create one with `rekindle secrets new-key` and keep it safe: without it, secrets encrypted under it cannot be read",
        ));
    }
    for (name, default) in [("DATABASE_URL", "127.0.0.1:5432"), ("NATS_URL", "127.0.0.1:4222")] {
        if env.get(name).is_none() {
            let what = format!("{name} is not set: {default} is used");
            findings.push(Finding::notable(
                CHECK,
                what,
                "set it unless the server runs on this machine without a password",
            ));
        }
    }
    findings
}

fn public(env: &Env) -> Option<Finding> {
    let Some(url) = env.get(PUBLIC_URL) else {
        let what = format!(
            "{PUBLIC_URL} is not set: opens and clicks are not tracked, and links in mails point to this machine"
        );
        return Some(Finding::notable(CHECK, what, "set it to the gateway's public URL"));
    };
    let rest = url.strip_prefix("http://")?;
    let host = rest.split(['/', ':']).next().unwrap_or_default();
    let is_here = host == "localhost"
        || host.ends_with(".localhost")
        || host.starts_with("127.")
        || rest.split(']').next() == Some("[::1");
    Some(if is_here {
        let what = format!("{PUBLIC_URL} is {url}: links in mails work on this machine only");
        Finding::notable(CHECK, what, "fine for testing; in production, set an https:// URL")
    } else {
        let what = format!(
            "{PUBLIC_URL} is {url}: passwords, sessions and keys are sent in the clear, and web push does not work"
        );
        Finding::wrong(
            CHECK,
            what,
            "terminate TLS in front of the gateway, set TRUST_FORWARDED=on there, and use an https:// URL",
        )
    })
}

fn misspelled(env: &Env) -> Vec<Finding> {
    let known = |name: &str| VARIABLES.iter().any(|(known, _)| *known == name);
    // Kubernetes sets variables with such names to describe services.
    let of_a_service = |name: &str| name.contains("_SERVICE_") || name.contains("_PORT");
    let ours = |name: &&str| PREFIXES.iter().any(|own| name.starts_with(own)) && *name != "NATS_MONITOR_URL";
    let mut names: Vec<&str> = env.names().filter(ours).filter(|name| !known(name) && !of_a_service(name)).collect();
    names.sort_unstable();
    let nearest = |name: &str| VARIABLES.iter().map(|(known, _)| (distance(name, known), *known)).min();
    let mut findings = Vec::new();
    for name in names {
        let what = format!("{name} is set, but no program reads it");
        let remedy = match nearest(name) {
            Some((far, near)) if far <= 3 => format!("did you mean {near}?"),
            _ => "remove it, unless another program uses it".to_owned(),
        };
        findings.push(Finding::notable(CHECK, what, remedy));
    }
    findings
}

/// Returns the number of characters to insert, delete or replace.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.bytes().enumerate() {
            let cost = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = cost.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict;
    use super::*;

    const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

    fn of(more: &[(&str, &str)]) -> Vec<Finding> {
        let mut pairs = vec![
            ("DATABASE_URL", "postgres://a@b/c"),
            ("NATS_URL", "nats://a:4222"),
            ("MASTER_KEY", KEY),
            (PUBLIC_URL, "https://example.com"),
            ("SYSTEM_SMTP_URL", "smtps://mail.example.com"),
            ("SYSTEM_MAIL_FROM", "rekindle@example.com"),
        ];
        pairs.extend(more);
        judge(&Env::from_pairs(pairs), None)
    }

    fn wrong(more: &[(&str, &str)]) -> String {
        let findings = of(more);
        let [one] = &findings[..] else { panic!("{findings:?}") };
        assert_eq!(one.verdict, Verdict::Wrong);
        one.what.clone()
    }

    #[test]
    fn valid_environment_passes() {
        assert_eq!(of(&[])[0].verdict, Verdict::Well);
    }

    #[test]
    fn malformed_variables_are_named_and_secrets_are_not_shown() {
        for (name, value) in [
            ("DELIVERY_CONCURRENCY", "1"),
            ("INGEST_PARTITIONS", "257"),
            ("STREAM_REPLICAS", "2"),
            ("STREAM_PREFIX", "a.b"),
            ("TRUST_FORWARDED", "yes"),
            ("GATEWAY_ADDR", "8080"),
            ("OUTBOUND_ALLOW", "here"),
            (PUBLIC_URL, "example.com"),
            ("DATABASE_URL", "postgres://a@b/c?sslmode=allow"),
        ] {
            assert!(wrong(&[(name, value)]).starts_with(name), "{name}");
        }
        for name in ["MASTER_KEY", "REDIS_URL", "DATABASE_URL", "SYSTEM_SMTP_URL"] {
            let value = "hunter2";
            let what = wrong(&[(name, value)]);
            assert!(what.starts_with(name) && !what.contains(value), "{what}");
        }
    }

    #[test]
    fn missing_master_key_is_wrong() {
        let findings = judge(&Env::from_pairs([(PUBLIC_URL, "https://example.com")]), None);
        assert!(findings[0].what.starts_with("MASTER_KEY is not set") && findings.len() == 4, "{findings:?}");
    }

    #[test]
    fn public_url_without_tls_is_wrong_except_on_this_machine() {
        assert!(wrong(&[(PUBLIC_URL, "http://shop.example.com")]).contains("in the clear"));
        assert_eq!(of(&[(PUBLIC_URL, "http://127.0.0.1:8080")])[0].verdict, Verdict::Notable);
    }

    #[test]
    fn misspelled_name_is_reported_with_a_suggestion() {
        let found = of(&[("DELIVERY_CONCURENCY", "9"), ("GATEWAY_SERVICE_HOST", "10.0.0.1"), ("HOME", "/")]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].remedy.as_deref(), Some("did you mean DELIVERY_CONCURRENCY?"));
        assert_eq!((distance("kitten", "sitting"), distance("", "ab")), (3, 2));
    }
}
