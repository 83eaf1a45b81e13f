//! PostgreSQL: whether it is reachable, has the right schema, and is configured to keep what it stores.

pub mod observe;

use database::connector;
use database::migrate::SchemaError;
use database::server::{Server, Standbys};
use tls::TlsFault;

use super::finding::Finding;
use super::work;

/// The oldest supported major version.
const MIN_VERSION: i32 = 14;
/// Clock difference in milliseconds: negligible up to the first bound; up to the second, it only confuses readers of
/// logs.
const MAX_GOOD_SKEW_MS: i64 = 2_000;
const MAX_NOTABLE_SKEW_MS: i64 = 60_000;

/// Why the connection failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DatabaseFailure {
    /// PostgreSQL's error code, if it responded.
    pub code: Option<String>,
    /// Set if no TLS was negotiated.
    pub tls: Option<TlsFault>,
    /// Whether the server is a standby or is set to read-only.
    pub takes_no_writes: bool,
    pub message: String,
}

/// Observations about the database.
#[derive(Debug)]
pub struct DatabaseState {
    pub server: Server,
    pub pool_size: usize,
    /// How far this machine's clock is ahead of the database's.
    pub ahead_ms: i64,
    pub schema: Result<(), SchemaError>,
    /// Applied migrations whose text differs from this program's.
    pub altered: Vec<i32>,
    pub missing_extensions: Vec<&'static str>,
    /// Number of secrets by table that the master key does not open, or `None` without a schema or a key.
    pub undecryptable: Option<Vec<(&'static str, i64)>>,
    /// `None` without a schema that this program supports.
    pub work: Option<work::WorkState>,
}

pub fn judge(seen: &Result<DatabaseState, DatabaseFailure>) -> Vec<Finding> {
    let seen = match seen {
        Ok(seen) => seen,
        Err(failure) => return vec![connection_failure(failure)],
    };
    let Server { version, sessions, max_connections, tls, .. } = &seen.server;
    let tls = tls.as_deref().unwrap_or("without TLS");
    let reached = format!("reached, PostgreSQL {}.{}, {tls}", version / 10_000, version % 10_000);
    let mut findings = vec![Finding::well("database.connection", reached)];
    if version / 10_000 < MIN_VERSION {
        let remedy = format!("upgrade it to {MIN_VERSION} or newer");
        findings.push(Finding::wrong(
            "database.version",
            format!("PostgreSQL {} is too old", version / 10_000),
            remedy,
        ));
    }
    findings.push(connections(*sessions, *max_connections, seen.pool_size));
    findings.push(durability(&seen.server.unsafe_settings));
    findings.extend(standby(seen.server.standbys));
    findings.push(clock(seen.ahead_ms));
    findings.push(extensions(&seen.missing_extensions));
    findings.push(schema(&seen.schema, &seen.altered));
    findings.extend(seen.undecryptable.as_deref().map(secrets));
    findings
}

fn connection_failure(failure: &DatabaseFailure) -> Finding {
    const CHECK: &str = "database.connection";
    let DatabaseFailure { code, tls, takes_no_writes, message } = failure;
    if let Some(fault) = *tls {
        return Finding::wrong(CHECK, format!("no TLS with PostgreSQL: {message}"), connector::remedy(fault));
    }
    if *takes_no_writes {
        let what =
            "PostgreSQL is reachable, but no host of DATABASE_URL accepts writes: each is a standby or read-only";
        let remedy =
            "promote the standby if the primary is gone (pg_ctl promote), or name the primary's host in DATABASE_URL";
        return Finding::wrong(CHECK, what, remedy);
    }
    let (what, remedy) = match code.as_deref() {
        Some("28000") if message.ends_with("no encryption") || message.ends_with("SSL off") => (
            "requires TLS; this connection is without TLS",
            "set sslmode=verify-full in DATABASE_URL, with sslrootcert for your own certificate authority",
        ),
        Some("28P01" | "28000") => (
            "rejects the user or the password",
            "correct them in DATABASE_URL, or in PostgreSQL: ALTER ROLE … PASSWORD",
        ),
        Some("3D000") => {
            ("has no such database", "run CREATE DATABASE, then `rekindle migrate`; or correct DATABASE_URL")
        }
        Some("53300") => {
            ("has no free connection", "raise max_connections, or lower DATABASE_POOL_SIZE of the programs")
        }
        Some("57P03") => ("is starting, stopping or recovering", "wait; its log shows the progress"),
        Some("42501") => {
            ("does not let this user read enough", "make it the owner of the database: ALTER DATABASE … OWNER TO")
        }
        Some(_) => ("refuses", "check the server's log"),
        None => (
            "cannot be reached",
            "check the host and port in DATABASE_URL, that PostgreSQL is running, and the network in between (firewall, NetworkPolicy)",
        ),
    };
    Finding::wrong(CHECK, format!("PostgreSQL {what}: {message}"), remedy)
}

fn connections(sessions: i64, most: i64, pool: usize) -> Finding {
    const CHECK: &str = "database.connections";
    let what = format!("{sessions} of {most} connections are in use");
    let pool = i64::try_from(pool).unwrap_or(i64::MAX);
    if sessions.saturating_add(pool) > most {
        let remedy = format!(
            "another process with DATABASE_POOL_SIZE={pool} may find too few: raise max_connections or lower DATABASE_POOL_SIZE"
        );
        return Finding::notable(CHECK, what, remedy);
    }
    Finding::well(CHECK, what)
}

fn durability(off: &[String]) -> Finding {
    const CHECK: &str = "database.durability";
    if off.is_empty() {
        return Finding::well(CHECK, "committed transactions are on disk");
    }
    let what = format!("{} off: a crash loses committed data, and may corrupt the database", off.join(", "));
    Finding::wrong(CHECK, what, "set them to on")
}

/// Checks whether commits survive the loss of the server, if a standby is configured or connected.
///
/// A connected standby is not enough: commits may not wait for it, for example because it is a copy in progress. Then
/// commits that wait for another standby hang.
fn standby(standbys: Standbys) -> Option<Finding> {
    const CHECK: &str = "database.standby";
    let Standbys { awaited, in_sync, connected, unseen } = standbys;
    if awaited == 0 {
        return (connected > 0).then(|| {
            Finding::notable(
                CHECK,
                format!(
                    "{connected} connected, and commits do not wait for it: a failover loses what it has not yet received"
                ),
                "add it to synchronous_standby_names if a failover must lose no data",
            )
        });
    }
    if in_sync >= awaited {
        return Some(Finding::well(CHECK, format!("{in_sync} in sync, and commits wait for {awaited}")));
    }
    if in_sync + unseen >= awaited {
        return Some(Finding::notable(
            CHECK,
            format!("{connected} connected, but this user may not see whether commits wait for them"),
            "as an administrator, GRANT pg_read_all_stats to the user of DATABASE_URL",
        ));
    }
    let what = format!(
        "synchronous_standby_names requires {awaited}; {connected} connected and {in_sync} in sync: every commit waits"
    );
    let remedy = if connected < awaited {
        "start the standby; or, to continue without one, empty synchronous_standby_names and reload"
    } else {
        "name the standbys that stream in synchronous_standby_names (application_name and state in pg_stat_replication) and reload"
    };
    Some(Finding::wrong(CHECK, what, remedy))
}

fn clock(ahead_ms: i64) -> Finding {
    const CHECK: &str = "database.clock";
    let (far, side) = (ahead_ms.abs(), if ahead_ms < 0 { "behind" } else { "ahead of" });
    let what = format!("this machine's clock is {}.{:03} s {side} the database's", far / 1_000, far % 1_000);
    let remedy =
        "synchronize the clocks of all machines (chrony, systemd-timesyncd); the programs use the database's clock";
    match far {
        0..=MAX_GOOD_SKEW_MS => Finding::well(CHECK, what),
        _ if far <= MAX_NOTABLE_SKEW_MS => Finding::notable(CHECK, what, remedy),
        _ => Finding::wrong(CHECK, what, remedy),
    }
}

fn extensions(missing: &[&str]) -> Finding {
    const CHECK: &str = "database.extensions";
    if missing.is_empty() {
        return Finding::well(CHECK, "all required extensions are installed");
    }
    let create = missing.iter().map(|name| format!("CREATE EXTENSION {name};")).collect::<Vec<_>>().join(" ");
    let remedy =
        format!("run `rekindle migrate`, or as an administrator: {create} They are part of postgresql-contrib");
    Finding::wrong(CHECK, format!("missing: {}", missing.join(", ")), remedy)
}

fn schema(schema: &Result<(), SchemaError>, altered: &[i32]) -> Finding {
    const CHECK: &str = "database.schema";
    let remedy = match schema {
        Err(SchemaError::Empty | SchemaError::Old { .. }) => {
            "run `rekindle migrate` of this version, as the database's owner"
        }
        Err(SchemaError::Newer { .. }) => "upgrade the programs to the version that migrated it, or newer",
        Ok(()) => "",
    };
    if let Err(error) = schema {
        return Finding::wrong(CHECK, error.to_string(), remedy);
    }
    if !altered.is_empty() {
        let what = format!("migrations {altered:?} were applied with a different text than this version's");
        return Finding::wrong(
            CHECK,
            what,
            "the database was migrated by another build: restore a backup, or migrate an empty database",
        );
    }
    Finding::well(CHECK, "is the schema of this version")
}

fn secrets(undecryptable: &[(&'static str, i64)]) -> Finding {
    const CHECK: &str = "secrets.master_key";
    let left: Vec<String> = undecryptable
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(table, count)| format!("{count} of {table}"))
        .collect();
    if left.is_empty() {
        return Finding::well(CHECK, "decrypts every secret in the database");
    }
    let what = format!("MASTER_KEY does not decrypt {}: features that need these secrets fail", left.join(", "));
    Finding::wrong(
        CHECK,
        what,
        "add the key that they were encrypted under after the current one (new,old); see `rekindle secrets rotate --help`",
    )
}

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict;
    use super::*;

    fn of(code: Option<&str>, message: &str) -> String {
        let finding = connection_failure(&DatabaseFailure {
            code: code.map(str::to_owned),
            message: message.to_owned(),
            ..DatabaseFailure::default()
        });
        assert_eq!(finding.verdict, Verdict::Wrong);
        finding.what
    }

    #[test]
    fn connection_failures_are_distinguished_by_code() {
        assert!(of(Some("28P01"), "x").contains("password") && of(Some("3D000"), "x").contains("no such database"));
        assert!(
            of(Some("53300"), "x").contains("no free connection")
                && of(Some("XX000"), "boom").ends_with("refuses: boom")
        );
        assert!(of(Some("28000"), "no pg_hba.conf entry for host \"::1\", no encryption").contains("without TLS"));
        assert!(of(None, "Connection refused").contains("cannot be reached"));
    }

    #[test]
    fn standby_is_distinguished_from_unreachable_server() {
        let finding = connection_failure(&DatabaseFailure { takes_no_writes: true, ..DatabaseFailure::default() });
        assert!(finding.verdict == Verdict::Wrong && finding.what.contains("accepts writes"), "{finding:?}");
        assert!(finding.remedy.unwrap().contains("promote"));
    }

    #[test]
    fn required_number_of_standbys_must_be_in_sync() {
        let of = |awaited, in_sync, connected| standby(Standbys { awaited, in_sync, connected, unseen: 0 });
        let verdict = |awaited, in_sync, connected| of(awaited, in_sync, connected).map(|finding| finding.verdict);
        assert_eq!((verdict(0, 0, 0), verdict(0, 0, 1)), (None, Some(Verdict::Notable)));
        assert_eq!((verdict(1, 1, 1), verdict(1, 2, 2)), (Some(Verdict::Well), Some(Verdict::Well)));
        assert_eq!((verdict(1, 0, 0), verdict(2, 1, 2)), (Some(Verdict::Wrong), Some(Verdict::Wrong)));
        assert!(of(1, 0, 0).unwrap().remedy.unwrap().starts_with("start the standby"));
        // A standby that streams, but that no commit waits for.
        let other = of(1, 0, 1).unwrap();
        assert!(other.verdict == Verdict::Wrong && other.what.ends_with("every commit waits"), "{other:?}");
        assert!(other.remedy.unwrap().contains("pg_stat_replication"));
    }

    #[test]
    fn standbys_with_unreadable_state_are_notable() {
        let unseen = |awaited| standby(Standbys { awaited, in_sync: 0, connected: 1, unseen: 1 }).unwrap();
        assert_eq!((unseen(0).verdict, unseen(2).verdict), (Verdict::Notable, Verdict::Wrong));
        let one = unseen(1);
        assert!(one.verdict == Verdict::Notable && one.remedy.unwrap().contains("pg_read_all_stats"));
    }

    #[test]
    fn old_newer_and_altered_schemas_are_wrong() {
        let verdict = |schema: Result<(), SchemaError>, altered: &[i32]| {
            let finding = self::schema(&schema, altered);
            (finding.verdict, finding.remedy.unwrap_or_default())
        };
        assert_eq!(verdict(Ok(()), &[]).0, Verdict::Well);
        assert!(verdict(Err(SchemaError::Old { found: 1, needed: 2 }), &[]).1.contains("migrate"));
        assert!(verdict(Err(SchemaError::Newer { found: 3, min_reader: 3, known: 2 }), &[]).1.contains("upgrade"));
        assert_eq!(verdict(Ok(()), &[1]).0, Verdict::Wrong);
    }

    #[test]
    fn clocks_may_differ_a_little() {
        let verdicts = [0, -1_500, 5_000, -61_000].map(|ahead| clock(ahead).verdict);
        assert_eq!(verdicts, [Verdict::Well, Verdict::Well, Verdict::Notable, Verdict::Wrong]);
        assert!(clock(-61_000).what.contains("61.000 s behind"));
    }

    #[test]
    fn connections_must_suffice_for_one_more_process() {
        assert_eq!(connections(10, 100, 16).verdict, Verdict::Well);
        assert_eq!(connections(90, 100, 16).verdict, Verdict::Notable);
    }
}
