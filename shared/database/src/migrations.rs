//! The schema's SQL files in order, each unchanged since its release. Pure.
//!
//! A file begins with `-- min-reader: N`: the oldest schema version whose programs still work with it. A migration that
//! expands the schema names the version before its own, or an older one. One that removes what programs use names the
//! first version that does without it. Comments in old files use the module names of their time. `-- index:
//! concurrently` on the second line is for a file with a single index, which is created without blocking writers.

use sha2::{Digest, Sha256};

/// One file of `migrations/`.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    pub version: i32,
    pub name: &'static str,
    pub sql: &'static str,
}

/// Every migration, in order.
pub const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, name: "core", sql: include_str!("../migrations/0001_core.sql") },
    Migration { version: 2, name: "accounts_and_caps", sql: include_str!("../migrations/0002_accounts_and_caps.sql") },
    Migration { version: 3, name: "limits", sql: include_str!("../migrations/0003_limits.sql") },
    Migration { version: 4, name: "erasure", sql: include_str!("../migrations/0004_erasure.sql") },
    Migration {
        version: 5,
        name: "announced_erasures",
        sql: include_str!("../migrations/0005_announced_erasures.sql"),
    },
    Migration { version: 6, name: "send_chunks", sql: include_str!("../migrations/0006_send_chunks.sql") },
];

/// Returns the schema version that this program was written for.
pub fn known_version() -> i32 {
    MIGRATIONS.last().map_or(0, |m| m.version)
}

/// How a migration is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// In one transaction.
    Transaction(&'a str),
    /// Concurrently, which PostgreSQL refuses within a transaction.
    Index(Index<'a>),
}

/// `CREATE [UNIQUE] INDEX name ON table definition`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Index<'a> {
    pub unique: bool,
    pub name: &'a str,
    pub table: &'a str,
    /// Columns and conditions.
    pub definition: &'a str,
}

impl Migration {
    /// Returns the hexadecimal SHA-256 of the text.
    pub fn checksum(&self) -> String {
        hex::encode(Sha256::digest(self.sql.as_bytes()))
    }

    /// Returns the oldest schema version whose programs work with this migration. Without a `min-reader` line, only its
    /// own version does.
    pub fn min_reader(&self) -> i32 {
        let first = self.sql.lines().next().unwrap_or("");
        first.strip_prefix("-- min-reader:").and_then(|n| n.trim().parse().ok()).unwrap_or(self.version)
    }

    /// Returns how to apply the migration. Fails if the text does not match its header.
    pub fn step(&self) -> Result<Step<'static>, &'static str> {
        if self.sql.lines().nth(1) != Some("-- index: concurrently") {
            return Ok(Step::Transaction(self.sql));
        }
        let rest = self.sql.trim_start_matches(|c: char| c.is_whitespace());
        let body = skip_comments(rest).trim_end();
        parse_index(body)
            .map(Step::Index)
            .ok_or("-- index: concurrently is for one CREATE INDEX name ON table (…); alone")
    }
}

/// Returns the text after its leading comments.
fn skip_comments(mut text: &str) -> &str {
    while text.starts_with("--") {
        text = text.split_once('\n').map_or("", |(_, rest)| rest.trim_start());
    }
    text
}

fn parse_index(statement: &str) -> Option<Index<'_>> {
    let statement = statement.strip_suffix(';')?;
    let rest = statement.strip_prefix("CREATE ")?;
    let (unique, rest) = rest.strip_prefix("UNIQUE ").map_or((false, rest), |rest| (true, rest));
    let (name, rest) = rest.strip_prefix("INDEX ")?.split_once(" ON ")?;
    let (table, definition) = rest.split_once(' ')?;
    let plain =
        |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    let whole = plain(name) && plain(table) && !definition.contains(';');
    whole.then_some(Index { unique, name, table, definition })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    /// Databases hold these checksums: a line is added with each migration, and none is ever changed.
    const FROZEN: [(&str, &str); 6] = [
        ("0001_core.sql", "ee347fec27bd566d2c87f2a359de0ceff1b56562d997e898910672d5ab9c86e3"),
        ("0002_accounts_and_caps.sql", "40946363a9407fcce2f45b3de590431a452cef850c0919e8996a9e5cf9dce47b"),
        ("0003_limits.sql", "61a3a6c3d8ac0027a11d4684ce60785ec976f4467d04bfb47edeabe25e5e4f06"),
        ("0004_erasure.sql", "4ce1c7589b76253178756384a363042f8f070f361c0462aecb8be0fd0c77170b"),
        ("0005_announced_erasures.sql", "e3b9e35e3dadfedaff31b226de614f681e09c48772fc122c09aa975b01c19885"),
        ("0006_send_chunks.sql", "9820d3c8bbcdb12235cf99fa41ac2e3ac081d11d490c9733410ca21d8bf5dee1"),
    ];

    fn file(migration: &Migration) -> String {
        format!("{:04}_{}.sql", migration.version, migration.name)
    }

    #[test]
    fn released_migrations_never_change() {
        for (migration, (name, checksum)) in MIGRATIONS.iter().zip(FROZEN) {
            assert_eq!(file(migration), name);
            assert_eq!(migration.checksum(), checksum, "{name} is frozen: put its text back and add a new migration");
        }
        assert_eq!(MIGRATIONS.len(), FROZEN.len(), "name the new migration and its checksum in FROZEN");
    }

    #[test]
    fn every_file_is_a_migration() {
        let files = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations")).unwrap();
        let files: BTreeSet<String> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        assert_eq!(files, MIGRATIONS.iter().map(file).collect());
    }

    #[test]
    fn versions_are_consecutive_and_declare_min_reader() {
        for (i, migration) in MIGRATIONS.iter().enumerate() {
            assert_eq!(migration.version, i as i32 + 1);
            assert!(migration.sql.starts_with("-- min-reader:"), "{}", migration.name);
            assert!((1..=migration.version).contains(&migration.min_reader()));
            assert!(migration.step().is_ok(), "{}", migration.name);
        }
    }

    #[test]
    fn index_header_selects_a_concurrent_build() {
        let made = |sql| Migration { version: 2, name: "made_up", sql }.step();
        let plain = "-- min-reader: 1\nCREATE INDEX a ON b (c);\n";
        assert_eq!(made(plain), Ok(Step::Transaction(plain)));
        let index = Index { unique: false, name: "a", table: "b", definition: "(c, d) WHERE d > 0" };
        let text = "-- min-reader: 1\n-- index: concurrently\n\n-- Why.\nCREATE INDEX a ON b (c, d) WHERE d > 0;\n";
        assert_eq!(made(text), Ok(Step::Index(index)));
        let text = "-- min-reader: 1\n-- index: concurrently\nCREATE UNIQUE INDEX a ON b (c);";
        assert_eq!(made(text), Ok(Step::Index(Index { unique: true, definition: "(c)", ..index })));
        for other in [
            "CREATE INDEX a ON b (c); DROP TABLE b;",
            "DROP INDEX a;",
            "CREATE INDEX ON b (c);",
            "CREATE INDEX a ON b (c)",
            "",
        ] {
            let text: &'static str = format!("-- min-reader: 1\n-- index: concurrently\n{other}").leak();
            assert!(made(text).is_err(), "{other}");
        }
    }
}
