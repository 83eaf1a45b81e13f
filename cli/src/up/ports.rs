//! The ports of a run directory, kept across starts while they are available.

use anyhow::Result;
use local_servers::{Process, port as loopback};

use crate::args::RequestedPort;
use crate::port::{self, Choice};
use crate::run_dir::RunDir;
use crate::services::{GATEWAY, MAILBOX, PROGRAMS};
use crate::state::State;

/// Chooses the gateway's port and stores it in the state.
pub fn choose_gateway(dir: &RunDir, state: &mut State, requested: RequestedPort) -> Result<Choice> {
    let before = state.ports.gateway;
    let runs = runs(dir, GATEWAY);
    let choice = port::choose(requested, before, |p| loopback::is_free(p) || (runs && before == Some(p)))?;
    state.ports.gateway = Some(choice.port);
    Ok(choice)
}

/// Chooses all other ports and stores them in the state.
pub fn choose_others(dir: &RunDir, state: &mut State) {
    state.ports.smtp = Some(keep_or_free(state.ports.smtp, runs(dir, MAILBOX)));
    for name in PROGRAMS {
        let port = keep_or_free(state.ports.admin.get(name).copied(), runs(dir, name));
        state.ports.admin.insert(name.to_owned(), port);
    }
}

fn runs(dir: &RunDir, process: &str) -> bool {
    matches!(Process::attach(&dir.pid_file(process)), Ok(Some(_)))
}

fn keep_or_free(before: Option<u16>, is_ours: bool) -> u16 {
    before.filter(|p| is_ours || loopback::is_free(*p)).unwrap_or_else(loopback::free)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn ports_differ_and_stay() {
        let folder = tempfile::tempdir().unwrap();
        let dir = RunDir::create(folder.path()).unwrap();
        let mut state = State::load_or_create(&dir, 1).unwrap();
        let gateway = loopback::free();
        choose_gateway(&dir, &mut state, RequestedPort::Exactly(gateway)).unwrap();
        choose_others(&dir, &mut state);
        let all: BTreeSet<u16> = state.ports.admin.values().copied().chain(state.ports.smtp).collect();
        assert_eq!(all.len(), 5);
        let before = state.ports.clone();
        choose_gateway(&dir, &mut state, RequestedPort::Any).unwrap();
        choose_others(&dir, &mut state);
        assert_eq!(state.ports, before);
    }

    #[test]
    fn taken_port_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let dir = RunDir::create(folder.path()).unwrap();
        let mut state = State::load_or_create(&dir, 1).unwrap();
        let held = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let taken = held.local_addr().unwrap().port();
        state.ports.smtp = Some(taken);
        state.ports.gateway = Some(taken);
        let choice = choose_gateway(&dir, &mut state, RequestedPort::Any).unwrap();
        choose_others(&dir, &mut state);
        assert!(choice.note.is_some());
        assert_ne!(state.ports.smtp, Some(taken));
        assert!(choose_gateway(&dir, &mut state, RequestedPort::Exactly(taken)).is_err());
    }
}
