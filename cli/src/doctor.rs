//! `rekindle doctor`: whether a deployment is as it has to be.
//!
//! For each subject one file judges what was seen (plain data to findings), and the one below it, `look`, sees it.

mod broker;
mod database;
mod disk;
mod finding;
mod redis;
mod settings;
mod variables;
mod work;

use anyhow::Result;
use shared::clock::Clock;
use shared::config::{BusConfig, DatabaseConfig};
use shared::env::Env;
use shared::secrets::MasterKeys;
use shared::store::connector::Connector;

use crate::args::DoctorArgs;
use finding::Finding;

/// Looks at everything and prints what was found; false where something is wrong.
pub async fn run(args: &DoctorArgs) -> Result<bool> {
    let env = Env::from_process();
    let mut findings = settings::judge(&env);
    let (database, broker, limits) = tokio::join!(of_database(&env), of_broker(&env, args), redis::look::at(&env));
    findings.extend(database);
    findings.extend(broker);
    findings.extend(redis::judge(&limits));
    findings.extend(args.disks.iter().map(|dir| disk::judge(dir, disk::look::at(dir), args.disk_free)));
    print!("{}", if args.json { finding::json(&findings) } else { finding::text(&findings) });
    Ok(finding::healthy(&findings))
}

/// What lies in the database, as far as it can be read.
async fn of_database(env: &Env) -> Vec<Finding> {
    // A malformed variable was told of already.
    let Ok(config) = DatabaseConfig::from_env(env) else { return Vec::new() };
    if Connector::parse(&config.url, "doctor").is_err() {
        return Vec::new();
    }
    let clock = Clock::system();
    let seen = database::look::at(&config, MasterKeys::from_env(env).ok().as_ref(), &clock).await;
    let mut findings = database::judge(&seen);
    if let Ok(database::Seen { work: Some(work), .. }) = &seen {
        findings.extend(work::judge(work));
    }
    findings
}

async fn of_broker(env: &Env, args: &DoctorArgs) -> Vec<Finding> {
    let Ok(config) = BusConfig::from_env(env) else { return Vec::new() };
    let seen = broker::look::at(&config, args.nats_monitor.as_deref()).await;
    broker::judge(&config, &seen)
}
