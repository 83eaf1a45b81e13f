//! The processes of a local system: their programs, arguments and environments.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::provision::FROM as MAILBOX_FROM;
use crate::run_dir::RunDir;
use crate::state::State;

pub const GATEWAY: &str = "gateway";
pub const MAILBOX: &str = "mailbox";
const DELIVERY: &str = "worker-delivery";
pub const SUPERVISOR: &str = "supervisor";
/// The product's four programs.
pub const PROGRAMS: [&str; 4] = [GATEWAY, "worker-automation", DELIVERY, "scheduler"];
/// Addresses that the processes may reach besides public ones, for the local mailbox.
const LOOPBACK: &str = "127.0.0.0/8,::1/128";

const SYSTEM_MAIL: [&str; 2] = ["SYSTEM_SMTP_URL", "SYSTEM_MAIL_FROM"];

/// How to start one process. If it is unchanged, the process needs no restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    pub program: PathBuf,
    /// Never contains secrets: every user of the machine can see arguments.
    pub args: Vec<String>,
    /// Overrides the inherited environment.
    pub env: BTreeMap<&'static str, String>,
    /// Build of the program, which changes when the program is rebuilt.
    pub build: String,
    /// Address of `/readyz`, if the process serves it.
    pub admin: Option<SocketAddr>,
}

/// Returns all services of a run directory, by name.
///
/// Returns an error if a program is missing, or if the state has no ports yet.
pub fn of(dir: &RunDir, state: &State, programs: &Path) -> Result<BTreeMap<&'static str, Service>> {
    let mut services = BTreeMap::new();
    for name in PROGRAMS {
        let admin = local(*state.ports.admin.get(name).context("the state has no ports: run `rekindle up`")?);
        let program = programs.join(name);
        let build = build_of(&program)?;
        let mut env = environment(dir, state, std::env::var("OUTBOUND_ALLOW").ok().as_deref());
        env.insert("ADMIN_ADDR", admin.to_string());
        if name == GATEWAY || name == DELIVERY {
            env.extend(system_mail(state)?);
        }
        if name == GATEWAY {
            let address = local(state.ports.gateway.context("the state has no port for the gateway")?);
            env.insert("GATEWAY_ADDR", address.to_string());
        }
        if name == DELIVERY {
            env.insert("PUSH_MAILBOX_DIR", text(&dir.push())?);
        }
        services.insert(name, Service { program, args: Vec::new(), env, build, admin: Some(admin) });
    }
    let program = programs.join("rekindle");
    let build = build_of(&program)?;
    let smtp = local(state.ports.smtp.context("the state has no port for the mailbox")?);
    let args = ["mailbox".into(), "--listen".into(), smtp.to_string(), "--mail-dir".into(), text(&dir.mail())?];
    services.insert(MAILBOX, Service { program, args: args.into(), env: BTreeMap::new(), build, admin: None });
    Ok(services)
}

/// Returns the gateway's URL without a path.
pub fn origin(state: &State) -> String {
    format!("http://{}", local(state.ports.gateway.unwrap_or_default()))
}

fn environment(dir: &RunDir, state: &State, allow: Option<&str>) -> BTreeMap<&'static str, String> {
    let allow = allow.map(str::trim).filter(|a| !a.is_empty());
    BTreeMap::from([
        ("DATABASE_URL", state.servers.database.clone()),
        ("NATS_URL", state.servers.nats.clone()),
        ("REDIS_URL", state.servers.redis.clone()),
        // Empty, so that an inherited value does not take precedence over the file.
        ("MASTER_KEY", String::new()),
        ("MASTER_KEY_FILE", dir.master_key_file().display().to_string()),
        ("PUBLIC_BASE_URL", origin(state)),
        ("OUTBOUND_ALLOW", allow.map_or(LOOPBACK.into(), |more| format!("{LOOPBACK},{more}"))),
    ])
}

/// Sends invitations to the local mailbox, unless the environment names a mail server for them.
fn system_mail(state: &State) -> Result<Vec<(&'static str, String)>> {
    let is_set = |name| std::env::var(name).is_ok_and(|value| !value.trim().is_empty());
    if SYSTEM_MAIL.into_iter().any(is_set) {
        return Ok(Vec::new());
    }
    let smtp = local(state.ports.smtp.context("the state has no port for the mailbox")?);
    let [url, from] = SYSTEM_MAIL;
    Ok(vec![(url, format!("smtp://{smtp}?security=none")), (from, format!("Rekindle <{MAILBOX_FROM}>"))])
}

/// Returns the directory of this program, which holds the other programs too.
pub fn program_dir() -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find the path of this program")?;
    // Linux appends this to the path of a program that was replaced while it ran.
    let own = PathBuf::from(own.to_string_lossy().trim_end_matches(" (deleted)"));
    own.parent().map(Path::to_owned).context("the path of this program has no directory")
}

/// Identifies a build of a program by size and modification time.
pub fn build_of(program: &Path) -> Result<String> {
    let Ok(file) = std::fs::metadata(program) else {
        bail!("{} is missing: build it with `make up` or `cargo build --release`", program.display());
    };
    let modified = file.modified()?.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Ok(format!("{}-{}", file.len(), modified.as_nanos()))
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

fn text(path: &Path) -> Result<String> {
    path.to_str().map(str::to_owned).with_context(|| format!("{} is not UTF-8", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(folder: &Path) -> (RunDir, State) {
        let dir = RunDir::create(&folder.join("run")).unwrap();
        let mut state = State::load_or_create(&dir, 1).unwrap();
        state.ports.gateway = Some(8080);
        state.ports.smtp = Some(2525);
        for (i, name) in PROGRAMS.iter().enumerate() {
            state.ports.admin.insert((*name).to_owned(), 9000 + i as u16);
            std::fs::write(folder.join(name), "program").unwrap();
        }
        std::fs::write(folder.join("rekindle"), "program").unwrap();
        state.servers.database = "postgres://rekindle:hush@127.0.0.1:1/rekindle".into();
        (dir, state)
    }

    #[test]
    fn every_process_gets_its_own_port_and_no_secret_as_an_argument() {
        let folder = tempfile::tempdir().unwrap();
        let (dir, state) = started(folder.path());
        let services = of(&dir, &state, folder.path()).unwrap();
        assert_eq!(services.len(), 5);
        let admin: std::collections::BTreeSet<_> = services.values().filter_map(|s| s.admin).collect();
        assert_eq!(admin.len(), 4);
        assert_eq!(services[GATEWAY].env["GATEWAY_ADDR"], "127.0.0.1:8080");
        assert_eq!(services[GATEWAY].env["PUBLIC_BASE_URL"], "http://127.0.0.1:8080");
        for name in [GATEWAY, DELIVERY] {
            assert_eq!(services[name].env["SYSTEM_SMTP_URL"], "smtp://127.0.0.1:2525?security=none");
        }
        assert!(services.values().all(|s| s.args.iter().all(|a| !a.contains("hush"))));
    }

    #[test]
    fn new_build_or_environment_changes_the_service() {
        let folder = tempfile::tempdir().unwrap();
        let (dir, mut state) = started(folder.path());
        let before = of(&dir, &state, folder.path()).unwrap();
        assert_eq!(before, of(&dir, &state, folder.path()).unwrap());
        std::fs::write(folder.path().join("scheduler"), "a new program").unwrap();
        let after = of(&dir, &state, folder.path()).unwrap();
        let changed = |b: &BTreeMap<&str, Service>, a: &BTreeMap<&str, Service>| -> Vec<String> {
            b.iter().filter(|(name, s)| a[*name] != **s).map(|(name, _)| (*name).to_owned()).collect()
        };
        assert_eq!(changed(&before, &after), ["scheduler"]);
        state.servers.redis = "redis://127.0.0.1:1".into();
        assert_eq!(changed(&after, &of(&dir, &state, folder.path()).unwrap()).len(), 4);
    }

    #[test]
    fn missing_program_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let (dir, state) = started(folder.path());
        std::fs::remove_file(folder.path().join("scheduler")).unwrap();
        assert!(of(&dir, &state, folder.path()).unwrap_err().to_string().contains("scheduler is missing"));
    }

    #[test]
    fn loopback_is_always_allowed() {
        let folder = tempfile::tempdir().unwrap();
        let (dir, state) = started(folder.path());
        assert_eq!(environment(&dir, &state, Some(" "))["OUTBOUND_ALLOW"], LOOPBACK);
        assert_eq!(environment(&dir, &state, Some("10.0.0.0/8"))["OUTBOUND_ALLOW"], format!("{LOOPBACK},10.0.0.0/8"));
    }
}
