//! The shop's users on that day.

use super::clocks;
use super::dice::Dice;
use super::names::{AWKWARD, REGIONS, Region, very_long};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Browses anonymously, then signs up.
    Member,
    /// Never signs up, but leaves an email address.
    Guest,
    /// Stays anonymous.
    Visitor,
}

pub struct Person {
    pub kind: Kind,
    /// The shop's own ID, used only for members.
    pub external_id: String,
    /// One anonymous ID per device, for one or two devices.
    pub devices: Vec<String>,
    pub name: Option<String>,
    /// As the user enters it.
    pub email: Option<String>,
    pub region: &'static Region,
    pub skew_ms: i64,
    pub app: bool,
    /// Views many products, offline for most of the day.
    pub on_the_train: bool,
}

impl Person {
    /// Returns the push token of a member who has the app. It is a token for the local push mailbox, and contains the
    /// run's ID.
    pub fn push_token(&self) -> Option<String> {
        (self.kind == Kind::Member && self.app).then(|| format!("mailbox:{}", self.devices[0]))
    }

    /// Returns the address, if mail can be delivered to it.
    pub fn mailbox(&self) -> Option<&str> {
        self.email.as_deref().filter(|email| email.contains('@'))
    }
}

/// Users with unusual names, wrong clocks and unusual IDs come first, so that a small day includes them.
const FIRST_MEMBERS: usize = 16;
const FIRST_GUESTS: usize = 19;

pub fn person(seed: u64, run: &str, index: usize) -> Person {
    let mut dice = Dice::of_person(seed, index);
    let mut ids = Dice::of_run(seed, run, index);
    let kind = match (index, dice.below(100)) {
        (0..FIRST_MEMBERS, _) => Kind::Member,
        (FIRST_MEMBERS..FIRST_GUESTS, _) | (_, 0..2) => Kind::Guest,
        (_, 2..12) => Kind::Visitor,
        _ => Kind::Member,
    };
    let region = dice.pick(REGIONS);
    let name = name(index, region, &mut dice);
    let devices = if kind == Kind::Member && dice.chance(12) { 2 } else { 1 };
    let email = match (kind, index, dice.below(1000)) {
        // Valid as a property but not deliverable: it is stored, and no mail is due.
        (Kind::Member, 14, _) | (Kind::Member, FIRST_GUESTS.., 0..4) => Some(format!("not an address {run}")),
        (Kind::Visitor, ..) | (Kind::Member, 15, _) | (Kind::Member, FIRST_GUESTS.., 4..10) => None,
        _ => Some(format!("{}.{index}@{run}.shop.example", dice.pick(&["anna", "x.y", "shop+news", "o'neil", "post"]))),
    };
    Person {
        kind,
        external_id: external_id(run, index),
        devices: (0..devices).map(|n| format!("anon-{run}-{index}-{n}-{:016x}", ids.below(u64::MAX))).collect(),
        name,
        email,
        region,
        skew_ms: clocks::skew_ms(index),
        app: dice.chance(45),
        on_the_train: index % 97 == 1,
    }
}

/// Returns an external ID. Callers choose these freely: any text without control characters, even if it has a meaning
/// in a URL.
fn external_id(run: &str, index: usize) -> String {
    match index {
        2 => format!("zoë/42?{run}#a%2Fb"),
        4 => format!("{run} with spaces & 🌻"),
        5 => format!("someone+{run}@shop.example"),
        6 => format!("{}-{run}", "long".repeat(40)),
        _ => format!("usr_{run}_{index}"),
    }
}

fn name(index: usize, region: &Region, dice: &mut Dice) -> Option<String> {
    let (given, family) = (dice.pick(region.given), dice.pick(region.family));
    let nameless = dice.chance(8);
    if let Some(name) = AWKWARD.get(index) {
        return Some((*name).to_owned());
    }
    match index {
        12 => Some(very_long()),
        13 => None,
        _ if nameless => None,
        _ if region.joined => Some(format!("{family}{given}")),
        _ => Some(format!("{given} {family}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_is_as_the_service_allows() {
        for index in 0..2_000 {
            let person = person(1, "run-1", index);
            let ids = person.devices.iter().chain([&person.external_id]);
            for id in ids {
                assert!((1..=200).contains(&id.chars().count()) && !id.chars().any(char::is_control), "{id}");
            }
            assert!(person.name.as_deref().is_none_or(|n| !n.contains('\0') && n.len() < 8_000));
            // The reconciliation finds users with an address by the run's ID.
            assert!(person.mailbox().is_none_or(|email| email.contains("run-1")));
            assert!(person.skew_ms == 0 || person.kind == Kind::Member);
        }
    }

    #[test]
    fn the_same_seed_is_the_same_crowd_whatever_the_run() {
        for index in 0..100 {
            let (a, b) = (person(1, "aaa", index), person(1, "bbb", index));
            assert_eq!((a.name, a.kind, a.app), (b.name, b.kind, b.app));
            assert_ne!(a.devices, b.devices);
        }
    }
}
