//! The names that a template uses, collected during parsing.

use std::collections::{BTreeSet, HashMap, HashSet};

#[derive(Debug, Default)]
pub(super) struct Names {
    slots: HashMap<String, usize>,
    assigned: HashSet<usize>,
    loops: Vec<usize>,
    looped: bool,
    used: BTreeSet<String>,
}

impl Names {
    /// Returns the slot of a name, always the same for the same name.
    pub(super) fn slot(&mut self, name: &str) -> usize {
        if let Some(slot) = self.slots.get(name) {
            return *slot;
        }
        let slot = self.slots.len();
        self.slots.insert(name.to_owned(), slot);
        slot
    }

    pub(super) fn assign(&mut self, slot: usize) {
        self.assigned.insert(slot);
    }

    pub(super) fn enter_loop(&mut self, slot: usize) {
        self.loops.push(slot);
        self.looped = true;
    }

    pub(super) fn leave_loop(&mut self) {
        self.loops.pop();
    }

    pub(super) fn in_loop(&self) -> bool {
        !self.loops.is_empty()
    }

    /// Records that `path`, whose root has this slot, is read. Paths into the template's own variables are ignored.
    pub(super) fn read(&mut self, slot: usize, path: &str) {
        if !self.assigned.contains(&slot) && !self.loops.contains(&slot) && !self.used.contains(path) {
            self.used.insert(path.to_owned());
        }
    }

    /// Returns whether any tag stores a value under a name.
    pub(super) fn binds_values(&self) -> bool {
        self.looped || !self.assigned.is_empty()
    }

    pub(super) fn slot_count(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn into_used(self) -> Vec<String> {
        self.used.into_iter().collect()
    }
}
