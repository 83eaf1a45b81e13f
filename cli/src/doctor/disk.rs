//! Disks that must not become full.

pub mod look;

use std::path::Path;

use super::finding::Finding;

/// Space of a file system in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    pub free: u64,
    pub whole: u64,
}

/// Judges the free space of a directory's disk. `least` is the required free space in percent.
pub fn judge(dir: &Path, room: Result<Room, String>, least: u8) -> Finding {
    const CHECK: &str = "disk";
    let dir = dir.display();
    let Room { free, whole } = match room {
        Ok(room) => room,
        Err(error) => {
            return Finding::wrong(CHECK, format!("{dir}: {error}"), "pass an existing directory with --disk");
        }
    };
    let percent = u128::from(free) * 100 / u128::from(whole.max(1));
    let what = format!("{dir}: {percent} % of {} GiB are free", whole >> 30);
    let remedy = "free space or enlarge the disk: once it is full, PostgreSQL stops and NATS accepts no messages";
    if percent < u128::from(least) {
        Finding::wrong(CHECK, what, remedy)
    } else if percent < u128::from(least) * 2 {
        Finding::notable(CHECK, what, remedy)
    } else {
        Finding::well(CHECK, what)
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict;
    use super::*;

    #[test]
    fn a_disk_is_judged_by_what_is_free() {
        let verdict = |free| judge(Path::new("/d"), Ok(Room { free, whole: 100 << 30 }), 10).verdict;
        assert_eq!(verdict(50 << 30), Verdict::Well);
        assert_eq!(verdict(15 << 30), Verdict::Notable);
        assert_eq!(verdict(9 << 30), Verdict::Wrong);
        assert_eq!(judge(Path::new("/d"), Err("gone".to_owned()), 10).verdict, Verdict::Wrong);
    }
}
