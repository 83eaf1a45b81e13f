//! Checks the statements against the requirements of a database distributed by project: see docs/operate/citus.md.
//!
//! Reads the texts from the sources. The parts of a composed statement are checked separately. Conditions defined elsewhere are assumed to
//! name the project if their placeholders are in [`CONDITIONS`].

use std::collections::{BTreeMap, BTreeSet};

use database::migrations::MIGRATIONS;

use crate::sql_texts::{all_sources, all_texts};

/// Files with statements over all projects, and their purpose. These statements read without locks, or change rows by conditions that
/// every shard can evaluate by itself.
const ACROSS_PROJECTS: [(&str, &str); 30] = [
    ("api_keys.rs", "changed rows, for caches"),
    ("automations/read.rs", "changed and active rows, for caches"),
    ("campaigns/sending.rs", "due campaigns"),
    ("channels.rs", "changed rows, for caches"),
    ("client_ids.rs", "expired rows, page by page"),
    ("dead_letters.rs", "day-old rows without a user"),
    ("due.rs", "projects with due rows in a given table"),
    ("erasures.rs", "the latest erasures, unfinished ones, and expired ones"),
    ("events/counters.rs", "projects with counts to aggregate"),
    ("events/retention.rs", "the next project of a table"),
    ("invites.rs", "an invitation by the token in its link"),
    ("invites/mail.rs", "due mails, and obsolete ones"),
    ("messages/retention.rs", "the number of messages per project in a table"),
    ("project_removals.rs", "deleted projects"),
    ("projects.rs", "all projects, and changed ones"),
    ("projects/creators.rs", "the owners of projects, and how many projects an account created"),
    ("push_tokens.rs", "tokens removed long ago"),
    ("runs/listeners.rs", "expired listeners"),
    ("runs/resume.rs", "deleted automations"),
    ("sealed.rs", "secrets sealed with another master key"),
    ("segments/dirty.rs", "projects with segments to evaluate"),
    ("segments/follow.rs", "changed rows, and due ones"),
    ("send_chunks/ready.rs", "queues with due messages, and their sizes"),
    ("subscription_groups.rs", "a deleted group"),
    ("user_imports.rs", "expired imports"),
    ("users/removals.rs", "announced and finished erasures"),
    ("users/search.rs", "all users, once, to rebuild the search texts"),
    ("users/seen.rs", "expired days"),
    ("webhook_deliveries.rs", "expired deliveries"),
    ("webhook_endpoints.rs", "subscriptions of endpoints, and a deleted endpoint"),
];

/// Placeholders of conditions that begin with the project.
const CONDITIONS: [&str; 2] = ["WHERE {conditions}", "WHERE {}"];

/// Returns the tables with a project, and the placeholders for table names.
fn tables() -> BTreeSet<&'static str> {
    let sql = MIGRATIONS.iter().flat_map(|migration| migration.sql.split("CREATE TABLE ").skip(1));
    let named = sql.filter_map(|table| {
        let (name, rest) = table.split_once(" (")?;
        let columns = rest.split_once("\n)")?.0;
        columns.lines().any(|line| line.trim_start().starts_with("project_id ")).then_some(name)
    });
    named.chain(["event_count", "{table}"]).collect()
}

/// Returns every text, on one line, with its file, in the form for a database distributed by project.
fn texts() -> Vec<(String, String)> {
    all_texts().into_iter().map(|text| (text.file.clone(), text.distributed_text())).collect()
}

/// Returns the tables that follow one of these words.
fn after<'a>(text: &'a str, words: &[&str], tables: &BTreeSet<&str>) -> Vec<&'a str> {
    let all: Vec<&str> = text.split([' ', '(', ')']).filter(|word| !word.is_empty()).collect();
    let pairs = all.windows(2).filter(|pair| words.contains(&pair[0]) && tables.contains(pair[1]));
    pairs.map(|pair| pair[1]).collect()
}

/// Returns the statements that read or change rows of tables with a project.
fn statements() -> Vec<(String, String)> {
    let tables = tables();
    let reads = |text: &str| !after(text, &["FROM", "JOIN", "UPDATE", "USING"], &tables).is_empty();
    texts().into_iter().filter(|(_, text)| reads(text)).collect()
}

fn is_conditional(text: &str) -> bool {
    CONDITIONS.iter().any(|condition| text.contains(condition))
}

#[test]
fn statements_name_the_project_or_are_listed() {
    let statements = statements();
    assert!(statements.len() > 250, "{} statements", statements.len());
    let across = statements.iter().filter(|(_, text)| !text.contains("project_id = ") && !is_conditional(text));
    let mut found: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (file, text) in across {
        found.entry(file).or_default().push(text);
    }
    let known: BTreeSet<&str> = ACROSS_PROJECTS.iter().map(|(file, _)| *file).collect();
    assert_eq!(found.keys().copied().collect::<BTreeSet<_>>(), known, "{found:#?}");
}

/// Whether a statement concerns one project in a distributed database.
fn is_of_one_project(text: &str) -> bool {
    ["project_id = $", "project_id = ($1::uuid[])[1]"].iter().any(|of| text.contains(of)) || is_conditional(text)
}

#[test]
fn locking_statements_name_one_project() {
    let (mut locking, mut across) = (0, Vec::new());
    for (file, text) in statements() {
        if ["FOR UPDATE", "FOR SHARE", "FOR KEY SHARE"].iter().any(|lock| text.contains(lock)) {
            locking += 1;
            across.extend((!is_of_one_project(&text)).then_some((file, text)));
        }
    }
    assert!(locking > 25, "{locking} locking statements");
    assert_eq!(across, []);
}

/// The rows of an array may be of any project, and a join on them queries every shard.
#[test]
fn statements_do_not_join_arrays_of_several_projects() {
    let joined = |text: &str| {
        ["project_id = v.", "project_id = p.id", "project_id = gone.", "project_id = stale."]
            .map(|by| text.contains(by))
    };
    let across: Vec<_> = statements().into_iter().filter(|(_, text)| joined(text).contains(&true)).collect();
    assert_eq!(across, []);
    let split = all_texts().iter().filter(|text| !text.columns.is_empty()).count();
    assert!(split > 18, "{split} statements that are split by project");
}

/// A row's `ctid` is valid within one shard, and a recursion runs within one. Statements that use these over all projects have another
/// form for a distributed database.
#[test]
fn ctids_and_recursions_name_one_project_or_have_another_form() {
    let sources = all_sources();
    let check_over_all_projects = |what: &str, file: &str| {
        let texts = texts().into_iter().filter(|(_, text)| text.contains(what) && !text.contains("project_id = $1"));
        for (found, text) in texts {
            let source = sources.iter().find(|source| source.path == found).unwrap();
            assert!(found == file && source.text.contains("by_project::is_distributed()"), "{found}: {text}");
        }
    };
    check_over_all_projects("ctid", "client_ids.rs");
    check_over_all_projects("WITH RECURSIVE frozen", "runs/resume.rs");
    check_over_all_projects("WITH RECURSIVE pending", "webhook_endpoints.rs");
}

/// In `INSERT … SELECT … ON CONFLICT`, Citus allows neither parameters nor functions that are not immutable. Statements that need them
/// have another form for a distributed database.
#[test]
fn conflict_actions_need_no_parameters_or_have_another_form() {
    let (mut inserts, mut other_forms) = (0, BTreeSet::new());
    for (file, text) in texts() {
        let Some((before, rest)) = text.split_once("ON CONFLICT") else { continue };
        if !before.contains("unnest(") {
            continue;
        }
        inserts += 1;
        let own = rest.split(" AS (").next().unwrap_or_default();
        other_forms.extend((own.contains('$') || own.contains("interval '")).then_some(file));
    }
    assert!(inserts > 10, "{inserts} inserts from arrays");
    let sources: BTreeMap<String, String> =
        all_sources().into_iter().map(|source| (source.path, source.text)).collect();
    assert!(other_forms.iter().all(|file| sources[file].contains("by_project::is_distributed()")), "{other_forms:?}");
    assert_eq!(
        other_forms.into_iter().collect::<Vec<_>>(),
        ["date_due.rs", "messages/receipts.rs", "messages/settle.rs"]
    );
}

#[test]
fn inserts_start_with_the_project() {
    let tables = tables();
    let mut inserts = 0;
    for (file, text) in texts() {
        for table in after(&text, &["INTO"], &tables).into_iter().filter(|table| *table != "{table}") {
            let (_, rest) = text.split_once(&format!("INTO {table} ")).unwrap();
            let columns = rest.split_once('(').unwrap().1;
            inserts += 1;
            assert!(columns.starts_with("project_id"), "{file}: {text}");
        }
    }
    assert!(inserts > 50, "{inserts} inserts");
}
