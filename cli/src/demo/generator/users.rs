//! The shop's users on that day.

use super::clocks;
use super::names::{REGIONS, Region, UNUSUAL_NAMES, very_long_name};
use super::seeded_rng::SeededRng;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserKind {
    /// Browses anonymously, then signs up.
    Member,
    /// Never signs up, but leaves an email address.
    Guest,
    /// Stays anonymous.
    Visitor,
}

pub struct ShopUser {
    pub kind: UserKind,
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
    pub is_mostly_offline: bool,
}

impl ShopUser {
    /// Returns the push token of a member who has the app. It is a token for the local push mailbox, and contains the
    /// run's ID.
    pub fn push_token(&self) -> Option<String> {
        (self.kind == UserKind::Member && self.app).then(|| format!("mailbox:{}", self.devices[0]))
    }

    /// Returns the address, if mail can be delivered to it.
    pub fn mailbox(&self) -> Option<&str> {
        self.email.as_deref().filter(|email| email.contains('@'))
    }
}

/// Users with unusual names, wrong clocks and unusual IDs come first, so that a small day includes them.
const FIRST_MEMBERS: usize = 16;
const FIRST_GUESTS: usize = 19;

pub fn user(seed: u64, run: &str, index: usize) -> ShopUser {
    let mut rng = SeededRng::for_user(seed, index);
    let mut ids = SeededRng::for_run(seed, run, index);
    let kind = match (index, rng.below(100)) {
        (0..FIRST_MEMBERS, _) => UserKind::Member,
        (FIRST_MEMBERS..FIRST_GUESTS, _) | (_, 0..2) => UserKind::Guest,
        (_, 2..12) => UserKind::Visitor,
        _ => UserKind::Member,
    };
    let region = rng.pick(REGIONS);
    let name = name(index, region, &mut rng);
    let devices = if kind == UserKind::Member && rng.chance(12) { 2 } else { 1 };
    let email = match (kind, index, rng.below(1000)) {
        // Valid as a property but not deliverable: it is stored, and no mail is due.
        (UserKind::Member, 14, _) | (UserKind::Member, FIRST_GUESTS.., 0..4) => Some(format!("not an address {run}")),
        (UserKind::Visitor, ..) | (UserKind::Member, 15, _) | (UserKind::Member, FIRST_GUESTS.., 4..10) => None,
        _ => Some(format!("{}.{index}@{run}.shop.example", rng.pick(&["anna", "x.y", "shop+news", "o'neil", "post"]))),
    };
    ShopUser {
        kind,
        external_id: external_id(run, index),
        devices: (0..devices).map(|n| format!("anon-{run}-{index}-{n}-{:016x}", ids.below(u64::MAX))).collect(),
        name,
        email,
        region,
        skew_ms: clocks::skew_ms(index),
        app: rng.chance(45),
        is_mostly_offline: index % 97 == 1,
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

fn name(index: usize, region: &Region, rng: &mut SeededRng) -> Option<String> {
    let (given, family) = (rng.pick(region.given), rng.pick(region.family));
    let nameless = rng.chance(8);
    if let Some(name) = UNUSUAL_NAMES.get(index) {
        return Some((*name).to_owned());
    }
    match index {
        12 => Some(very_long_name()),
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
    fn generated_users_are_valid() {
        for index in 0..2_000 {
            let user = user(1, "run-1", index);
            let ids = user.devices.iter().chain([&user.external_id]);
            for id in ids {
                assert!((1..=200).contains(&id.chars().count()) && !id.chars().any(char::is_control), "{id}");
            }
            assert!(user.name.as_deref().is_none_or(|n| !n.contains('\0') && n.len() < 8_000));
            // The reconciliation finds users with an address by the run's ID.
            assert!(user.mailbox().is_none_or(|email| email.contains("run-1")));
            assert!(user.skew_ms == 0 || user.kind == UserKind::Member);
        }
    }

    #[test]
    fn same_seed_generates_same_users_in_every_run() {
        for index in 0..100 {
            let (a, b) = (user(1, "aaa", index), user(1, "bbb", index));
            assert_eq!((a.name, a.kind, a.app), (b.name, b.kind, b.app));
            assert_ne!(a.devices, b.devices);
        }
    }
}
