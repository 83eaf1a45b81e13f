//! The string literals in the sources of the crates that contain statements.

use testkit::sources::{self, Source};

/// The crates that contain statements.
const CRATES: [&str; 4] = ["database", "store-projects", "store-profiles", "store-sending"];

/// Condition of a statement that gets the rows of one project at a time.
const ONE_PROJECT_CONDITION: &str = "project_id = ($1::uuid[])[1]";

/// Placeholder of a month's bounds in the sources' statements.
const MONTH_PLACEHOLDER: &str = "{within}";

/// A string literal, on one line.
#[derive(Clone, Debug)]
pub struct SqlText {
    /// Path of the source in its crate.
    pub file: String,
    pub text: String,
    /// Columns with the project of each row, in a statement over rows of several projects (`ByProject`).
    pub columns: Vec<String>,
    /// Whether anything other than a month's bounds is inserted at run time.
    pub is_composed: bool,
}

impl SqlText {
    /// Returns the text for a database distributed by project: with the project of a part's rows.
    pub fn distributed_text(&self) -> String {
        let named =
            |text: String, column: &String| text.replace(&format!("project_id = {column}"), ONE_PROJECT_CONDITION);
        self.columns.iter().fold(self.text.clone(), named)
    }
}

/// Returns every source of these crates, by its path in its crate.
pub fn all_sources() -> Vec<Source> {
    CRATES.iter().flat_map(|name| sources::in_directory(&format!("shared/{name}/src"))).collect()
}

/// Returns every string literal of the sources, except in unit tests.
pub fn all_texts() -> Vec<SqlText> {
    all_sources().iter().flat_map(|source| texts(&source.path, source.code())).collect()
}

fn texts(file: &str, code: &str) -> Vec<SqlText> {
    let pieces = pieces(code);
    let mut texts = Vec::new();
    for (at, piece) in pieces.iter().enumerate() {
        let is_of_each = piece.before.ends_with("ByProject::new(");
        let listed = pieces[at + 1..].iter().take_while(|next| is_of_each && !next.before.contains(']'));
        let columns = listed.map(|next| next.text.clone()).collect();
        let is_format = ["format!(", "format_args!("].iter().any(|call| piece.before.ends_with(call));
        let is_part = ["concat!(", "push_str("].iter().any(|call| piece.before.ends_with(call));
        let (text, has_holes) = if is_format { fill_in(&piece.text) } else { (piece.text.clone(), false) };
        texts.push(SqlText { file: file.to_owned(), text, columns, is_composed: has_holes || is_part });
    }
    texts
}

/// Fills in a month's bounds, and returns whether the format has other placeholders.
fn fill_in(format: &str) -> (String, bool) {
    const BRACES: [(&str, &str, &str); 2] = [("{{", "\u{1}", "{"), ("}}", "\u{2}", "}")];
    let is_called_m = ["message m ", "message AS m "].iter().any(|name| format.contains(name));
    let id = if is_called_m { "m.id" } else { "id" };
    let month = format!("{id} >= '{}'::uuid AND {id} < '{}'::uuid", uuid::Uuid::nil(), uuid::Uuid::max());
    let marked = BRACES.iter().fold(format.to_owned(), |text, (twice, mark, _)| text.replace(twice, mark));
    let text = marked.replace(MONTH_PLACEHOLDER, &month);
    let has_holes = text.contains('{');
    (BRACES.iter().fold(text, |text, (_, mark, brace)| text.replace(mark, brace)), has_holes)
}

/// A string literal, and the code since the previous one without trailing spaces.
struct Piece {
    before: String,
    text: String,
}

/// Extracts the string literals of a valid source.
fn pieces(source: &str) -> Vec<Piece> {
    let (mut pieces, mut before) = (Vec::new(), String::new());
    let mut rest = source;
    while let Some(c) = rest.chars().next() {
        if rest.starts_with("//") {
            rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
        } else if let Some(length) = character(rest) {
            rest = &rest[length..];
        } else if c == '"' {
            let end = end_of_text(&rest[1..]);
            let text = unescaped(&rest[1..=end]);
            let words: Vec<&str> = text.split_whitespace().collect();
            pieces.push(Piece { before: before.trim_end().to_owned(), text: words.join(" ") });
            before.clear();
            rest = &rest[end + 2..];
        } else {
            before.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    pieces
}

/// Returns the length of the character literal at the start, if any.
fn character(rest: &str) -> Option<usize> {
    let inner = rest.strip_prefix('\'')?;
    let length = match inner.chars().next()? {
        '\\' => inner[2..].find('\'')? + 2,
        c => c.len_utf8(),
    };
    inner[length..].starts_with('\'').then_some(length + 2)
}

/// Returns the length of the string literal that starts here.
fn end_of_text(rest: &str) -> usize {
    let mut is_escaped = false;
    let is_end = |(_, c): &(usize, char)| {
        let is_end = *c == '"' && !is_escaped;
        is_escaped = *c == '\\' && !is_escaped;
        is_end
    };
    let (at, _) = rest.char_indices().find(is_end).unwrap();
    at
}

fn unescaped(text: &str) -> String {
    let (mut plain, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once('\\') {
        plain.push_str(before);
        rest = match after.chars().next() {
            Some('\n') => after.trim_start(),
            Some(c) => {
                plain.push(c);
                &after[c.len_utf8()..]
            }
            None => after,
        };
    }
    plain + rest
}

#[test]
fn string_literals_are_extracted_completely() {
    let source = r#"
        // "no text"
        const A: char = '"';
        fn a<'a>(b: &'a str) {
            b.split('\''); // it's "none"
            let sql = "SELECT a FROM \"b\" \
                       WHERE c = 'it''s'";
            let sql = format!("SELECT '{{}}' FROM message m WHERE {within} AND {more}");
            let sql = ByProject::new("SELECT 1 FROM a JOIN b ON b.project_id = v.p", &["v.p"]);
        }"#;
    let found = texts("a.rs", source);
    let month =
        "m.id >= '00000000-0000-0000-0000-000000000000'::uuid AND m.id < 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid";
    let format = format!("SELECT '{{}}' FROM message m WHERE {month} AND {{more}}");
    let whole = "SELECT a FROM \"b\" WHERE c = 'it''s'";
    let of_each = "SELECT 1 FROM a JOIN b ON b.project_id = v.p";
    assert_eq!(found.iter().map(|text| text.text.as_str()).collect::<Vec<_>>(), [whole, &format, of_each, "v.p"]);
    assert_eq!(found.iter().map(|text| text.is_composed).collect::<Vec<_>>(), [false, true, false, false]);
    assert_eq!(found[2].columns, ["v.p"]);
    assert_eq!(found[2].distributed_text(), "SELECT 1 FROM a JOIN b ON b.project_id = ($1::uuid[])[1]");
}
