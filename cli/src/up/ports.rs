//! The ports of a run directory: kept from start to start while they can be had.

use anyhow::Result;
use shared::local::{Process, port as loopback};

use crate::args::PortWish;
use crate::port::{self, Choice};
use crate::run_dir::RunDir;
use crate::services::{GATEWAY, MAILBOX, PROGRAMS};
use crate::state::State;

/// Chooses all ports into the state.
pub fn choose_all(dir: &RunDir, state: &mut State, wish: PortWish) -> Result<Choice> {
    let runs = |process: &str| matches!(Process::attach(&dir.pid_file(process)), Ok(Some(_)));
    let before = state.ports.gateway;
    let gateway_runs = runs(GATEWAY);
    let choice = port::choose(wish, before, |p| loopback::is_free(p) || (gateway_runs && before == Some(p)))?;
    state.ports.gateway = Some(choice.port);
    state.ports.smtp = Some(keep_or_free(state.ports.smtp, runs(MAILBOX)));
    for name in PROGRAMS {
        let port = keep_or_free(state.ports.admin.get(name).copied(), runs(name));
        state.ports.admin.insert(name.to_owned(), port);
    }
    Ok(choice)
}

fn keep_or_free(before: Option<u16>, held_by_us: bool) -> u16 {
    before.filter(|p| held_by_us || loopback::is_free(*p)).unwrap_or_else(loopback::free)
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
        choose_all(&dir, &mut state, PortWish::Exactly(gateway)).unwrap();
        let all: BTreeSet<u16> = state.ports.admin.values().copied().chain(state.ports.smtp).collect();
        assert_eq!(all.len(), 5);
        let before = state.ports.clone();
        choose_all(&dir, &mut state, PortWish::Any).unwrap();
        assert_eq!(state.ports, before);
    }

    #[test]
    fn a_port_that_somebody_took_is_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let dir = RunDir::create(folder.path()).unwrap();
        let mut state = State::load_or_create(&dir, 1).unwrap();
        let held = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let taken = held.local_addr().unwrap().port();
        state.ports.smtp = Some(taken);
        state.ports.gateway = Some(taken);
        let choice = choose_all(&dir, &mut state, PortWish::Any).unwrap();
        assert!(choice.note.is_some());
        assert_ne!(state.ports.smtp, Some(taken));
        assert!(choose_all(&dir, &mut state, PortWish::Exactly(taken)).is_err());
    }
}
