//! One program for all targets; `FUZZ_TARGET` names the one that it runs. What it is called with is libFuzzer's.

#![no_main]

mod targets;

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use targets::{TARGETS, Target};

static CHOSEN: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    let found = TARGETS.iter().find(|(target, _)| *target == name);
    let names = || TARGETS.map(|(target, _)| target).join(", ");
    found.unwrap_or_else(|| panic!("FUZZ_TARGET is {name:?}; there are {}", names())).1
});

fuzz_target!(|data: &[u8]| CHOSEN(data));
