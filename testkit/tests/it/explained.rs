//! Plans every statement of the stores with PostgreSQL on the migrated schema, with its text from the sources: a renamed or misspelt
//! column or table fails here, and not at run time.

use std::collections::BTreeMap;

use testkit::TestDatabase;

use crate::sql_texts::{SqlText, all_texts};

/// Files with statements that are composed at run time, the number of their parts, and the reason.
const COMPOSED: [(&str, usize, &str); 22] = [
    ("audit.rs", 1, "a list with optional filters"),
    ("campaigns/audience.rs", 1, "user-defined segment rules"),
    ("citus.rs", 6, "each table of the schema"),
    ("client_ids.rs", 2, "a range of a partition"),
    ("dead_letters.rs", 5, "a list with optional filters"),
    ("due.rs", 4, "a table with due rows"),
    ("events/retention.rs", 2, "a detached partition"),
    ("filter.rs", 4, "lists with optional filters"),
    ("lib.rs", 1, "timeouts of a process"),
    ("messages/read.rs", 2, "a list with optional filters"),
    ("messages/retention.rs", 2, "a partition"),
    ("migrate.rs", 2, "statements of a migration"),
    ("migrate/index.rs", 5, "an index on each table"),
    ("months.rs", 1, "the bounds that other statements contain as `{within}`"),
    ("project_removals.rs", 3, "each table with rows of projects"),
    ("push_tokens.rs", 2, "a list with optional filters"),
    ("sealed.rs", 5, "each column with secrets"),
    ("segments/evaluate.rs", 7, "user-defined segment rules"),
    ("send_chunks/campaign.rs", 1, "a limit that the planner must see"),
    ("suppressions.rs", 2, "a list with optional filters"),
    ("time_partitions.rs", 3, "a partition and its bounds"),
    ("time_partitions/expired.rs", 4, "a partition"),
];

const VERBS: [&str; 4] = ["SELECT", "INSERT", "UPDATE", "DELETE"];

/// Commands without a plan.
const COMMANDS: [&str; 9] = ["ALTER", "COPY", "CREATE", "DROP", "LOCK", "RELEASE", "ROLLBACK", "SAVEPOINT", "SET"];

/// Words that identify a part of a statement.
const WORDS: [&str; 20] = [
    "AND",
    "ANY",
    "AS",
    "ASC",
    "CASE",
    "DELETE",
    "DESC",
    "FROM",
    "IN",
    "INSERT",
    "IS",
    "JOIN",
    "LIMIT",
    "ORDER",
    "RETURNING",
    "SELECT",
    "SET",
    "UPDATE",
    "VALUES",
    "WHERE",
];

/// Functions that only Citus has.
const CITUS_FUNCTIONS: [&str; 4] = ["citus_", "create_distributed_table", "run_command_on", "pg_dist"];

/// Whether a word is outside of all parentheses: a WITH clause alone is not a statement.
fn is_outside(text: &str, word: &str) -> bool {
    let mut depth = 0;
    text.split(' ').any(|part| {
        let is_found = depth == 0 && part == word;
        depth += part.matches('(').count();
        depth -= part.matches(')').count().min(depth);
        is_found
    })
}

fn is_statement(text: &str) -> bool {
    let verb = text.split(' ').next().unwrap_or_default();
    VERBS.contains(&verb) && text.contains(' ') || verb == "WITH" && VERBS.iter().any(|verb| is_outside(text, verb))
}

fn is_command(text: &str) -> bool {
    text.split(' ').next().is_some_and(|word| COMMANDS.contains(&word))
}

/// Whether a text is SQL, complete or not.
fn is_sql(text: &str) -> bool {
    let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    is_command(text) || words.any(|word| WORDS.contains(&word))
}

/// Returns the complete statements, both for plain PostgreSQL and for a database distributed by project.
fn complete_statements() -> Vec<(String, String)> {
    let is_complete = |text: &SqlText| !text.is_composed && is_statement(&text.text);
    let mut complete = Vec::new();
    for text in all_texts().into_iter().filter(is_complete) {
        let distributed = text.distributed_text();
        if distributed != text.text {
            complete.push((text.file.clone(), distributed));
        }
        if !CITUS_FUNCTIONS.iter().any(|of| text.text.contains(of)) {
            complete.push((text.file, text.text));
        }
    }
    complete
}

#[tokio::test]
async fn every_complete_statement_can_be_planned() {
    let database = TestDatabase::create().await;
    let db = database.client().await;
    let statements = complete_statements();
    let mut wrong = Vec::new();
    for (file, text) in &statements {
        let parameters = match db.prepare(text).await {
            Ok(statement) => statement.params().len(),
            Err(error) => {
                wrong.push(format!("{file}: {}: {text}", described(&error)));
                continue;
            }
        };
        let values = if parameters == 0 { String::new() } else { format!("({})", vec!["NULL"; parameters].join(", ")) };
        let explained = format!("PREPARE planned AS {text}; EXPLAIN EXECUTE planned{values}; DEALLOCATE planned");
        if let Err(error) = db.simple_query(&explained).await {
            wrong.push(format!("{file}: {}: {text}", described(&error)));
            db.simple_query("DEALLOCATE ALL").await.unwrap();
        }
    }
    assert_eq!(wrong, [""; 0], "{} of {}", wrong.len(), statements.len());
    assert!(statements.len() > 600, "{} complete statements", statements.len());
}

fn described(error: &tokio_postgres::Error) -> String {
    error.as_db_error().map_or_else(|| error.to_string(), |db| db.message().to_owned())
}

/// Each statement is a single text, so that it is recognised by its words and planned above.
#[test]
fn incomplete_statements_are_listed() {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for SqlText { file, text, is_composed, .. } in all_texts() {
        if is_sql(&text) && (is_composed || !is_statement(&text) && !is_command(&text)) {
            found.entry(file).or_default().push(text);
        }
    }
    let counts: Vec<(&str, usize)> = found.iter().map(|(file, texts)| (file.as_str(), texts.len())).collect();
    let known: Vec<(&str, usize)> = COMPOSED.iter().map(|(file, texts, _)| (*file, *texts)).collect();
    assert_eq!(counts, known, "{found:#?}");
}
