//! One program for all targets: `FUZZ_TARGET` selects the target. libFuzzer handles the command-line arguments.

#![no_main]

mod targets;

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use targets::{TARGETS, Target};

static SELECTED_TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    let found = TARGETS.iter().find(|(target, _)| *target == name);
    let names = || TARGETS.map(|(target, _)| target).join(", ");
    found.unwrap_or_else(|| panic!("unknown FUZZ_TARGET {name:?}; available targets: {}", names())).1
});

fuzz_target!(|data: &[u8]| SELECTED_TARGET(data));
