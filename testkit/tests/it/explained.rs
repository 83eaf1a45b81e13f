//! Every statement that is written out in the stores' sources, planned by PostgreSQL on the migrated schema: a renamed or misspelt
//! column or table fails here and not at run time.

use std::path::Path;

use testkit::TestDatabase;

use crate::texts::{Texts, all_texts};

/// Of the tables that only Citus has.
const OF_CITUS: &str = "citus.rs";

const VERBS: [&str; 4] = ["SELECT", "INSERT", "UPDATE", "DELETE"];

/// Whether a word is outside of all parentheses: a WITH clause alone is no statement.
fn is_outside(text: &str, word: &str) -> bool {
    let mut depth = 0;
    text.split(' ').any(|part| {
        let is_found = depth == 0 && part == word;
        depth += part.matches('(').count();
        depth -= part.matches(')').count().min(depth);
        is_found
    })
}

/// Statements whose parts are all constants of their own file or of the module that it belongs to, with their files.
fn whole() -> Vec<(String, String)> {
    let sources = all_texts();
    let mut whole = Vec::new();
    for Texts { file, all, named } in &sources {
        let parent = Path::new(file).parent().map(|folder| format!("{}.rs", folder.display()));
        let inherited = sources.iter().find(|other| Some(&other.file) == parent.as_ref()).map(|other| &other.named);
        for text in all {
            let mut text = text.clone();
            for (name, value) in [named].into_iter().chain(inherited).flatten() {
                text = text.replace(&format!("{{{name}}}"), value);
            }
            let verb = text.split(' ').next().unwrap_or_default();
            let is_statement =
                VERBS.contains(&verb) || (verb == "WITH" && VERBS.iter().any(|verb| is_outside(&text, verb)));
            if is_statement && text.contains(' ') && !text.contains(['{', ';']) && file != OF_CITUS {
                whole.push((file.clone(), text));
            }
        }
    }
    whole
}

#[tokio::test]
async fn every_whole_statement_can_be_planned() {
    let database = TestDatabase::create().await;
    let db = database.client().await;
    let statements = whole();
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
    assert!(statements.len() > 300, "{} whole statements", statements.len());
}

fn described(error: &tokio_postgres::Error) -> String {
    error.as_db_error().map_or_else(|| error.to_string(), |db| db.message().to_owned())
}
