//! Disks that must not become full.

pub mod observe;

use std::path::Path;

use super::finding::Finding;

/// Space of a file system in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    pub free: u64,
    pub total: u64,
}

/// Judges the free space of a directory's disk. `min_percent` is the required free space in percent.
pub fn judge(dir: &Path, space: Result<DiskSpace, String>, min_percent: u8) -> Finding {
    const CHECK: &str = "disk";
    let dir = dir.display();
    let DiskSpace { free, total } = match space {
        Ok(space) => space,
        Err(error) => {
            return Finding::wrong(CHECK, format!("{dir}: {error}"), "pass an existing directory with --disk");
        }
    };
    let percent = u128::from(free) * 100 / u128::from(total.max(1));
    let what = format!("{dir}: {percent} % of {} GiB are free", total >> 30);
    let remedy = "free space or enlarge the disk: once it is full, PostgreSQL stops and NATS accepts no messages";
    if percent < u128::from(min_percent) {
        Finding::wrong(CHECK, what, remedy)
    } else if percent < u128::from(min_percent) * 2 {
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
    fn disk_is_judged_by_free_space() {
        let verdict = |free| judge(Path::new("/d"), Ok(DiskSpace { free, total: 100 << 30 }), 10).verdict;
        assert_eq!(verdict(50 << 30), Verdict::Well);
        assert_eq!(verdict(15 << 30), Verdict::Notable);
        assert_eq!(verdict(9 << 30), Verdict::Wrong);
        assert_eq!(judge(Path::new("/d"), Err("gone".to_owned()), 10).verdict, Verdict::Wrong);
    }
}
