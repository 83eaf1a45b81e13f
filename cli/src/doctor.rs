//! `rekindle doctor`: checks whether a deployment is set up correctly.
//!
//! For each subject, one file turns observations (plain data) into findings, and its `observe` module makes the
//! observations.

mod broker;
mod database;
mod disk;
mod finding;
mod redis;
mod settings;
mod variables;
mod work;

use ::database::config::DatabaseConfig;
use ::database::connector::Connector;
use anyhow::Result;
use bus::config::BusConfig;
use http_client::OutboundPolicy;
use kernel::clock::Clock;
use kernel::env::{Env, EnvError};
use runtime::system_mail::SystemMail;
use secrets::MasterKeys;

use crate::args::DoctorArgs;
use finding::Finding;

/// Runs all checks and prints the findings. Returns `false` if something is wrong.
pub async fn run(args: &DoctorArgs) -> Result<bool> {
    let env = Env::from_process();
    let mut findings = settings::judge(&env, unprotected_mail(&env).await);
    let (database, broker, limits) =
        tokio::join!(check_database(&env), check_broker(&env, args), redis::observe::at(&env));
    findings.extend(database);
    findings.extend(broker);
    findings.extend(redis::judge(&limits));
    findings.extend(args.disks.iter().map(|dir| disk::judge(dir, disk::observe::at(dir), args.disk_free)));
    print!("{}", if args.json { finding::json(&findings) } else { finding::text(&findings) });
    Ok(finding::healthy(&findings))
}

/// Returns an error if the operator's mail server is reached without TLS and must not be.
async fn unprotected_mail(env: &Env) -> Option<EnvError> {
    let (mail, outbound) = (SystemMail::from_env(env).ok()??, OutboundPolicy::from_env(env).ok()?);
    mail.check_security(&outbound).await.err()
}

/// Checks the contents of the database, as far as it can be read.
async fn check_database(env: &Env) -> Vec<Finding> {
    // The settings check already reports a malformed variable.
    let Ok(config) = DatabaseConfig::from_env(env) else { return Vec::new() };
    if Connector::parse(&config.url, "doctor").is_err() {
        return Vec::new();
    }
    let clock = Clock::system();
    let seen = database::observe::at(&config, MasterKeys::from_env(env).ok().as_ref(), &clock).await;
    let mut findings = database::judge(&seen);
    if let Ok(database::DatabaseState { work: Some(work), .. }) = &seen {
        findings.extend(work::judge(work));
    }
    findings
}

async fn check_broker(env: &Env, args: &DoctorArgs) -> Vec<Finding> {
    let Ok(config) = BusConfig::from_env(env) else { return Vec::new() };
    let seen = broker::observe::at(&config, args.nats_monitor.as_deref()).await;
    broker::judge(&config, &seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn mail_server_without_tls_is_wrong_unless_exempt() {
        let findings = async |allow: &str| {
            let env = Env::from_pairs([
                ("SYSTEM_SMTP_URL", "smtp://192.0.2.1?security=none"),
                ("SYSTEM_MAIL_FROM", "rekindle@example.com"),
                ("OUTBOUND_ALLOW", allow),
            ]);
            settings::judge(&env, unprotected_mail(&env).await)
        };
        let about_mail =
            |findings: &[Finding]| findings.iter().any(|finding| finding.what.starts_with("SYSTEM_SMTP_URL"));
        assert!(about_mail(&findings("").await));
        assert!(!about_mail(&findings("192.0.2.0/24").await));
    }
}
