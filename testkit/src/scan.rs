//! Searches a database for values that must not be in it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use tokio_postgres::Client;

use crate::must;

/// A row of any table, as text; bytes are hexadecimal digits.
#[derive(Clone, Debug)]
pub struct Row {
    /// Of a partition, the partition's name.
    pub table: String,
    pub text: String,
}

/// Reads every row of every table.
pub async fn rows(db: &Client) -> Vec<Row> {
    let tables = "SELECT relname::text AS relname FROM pg_class \
                  WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace";
    let mut all = Vec::new();
    for table in must("reading the names of tables", db.query(tables, &[]).await) {
        let table: String = table.get("relname");
        let sql = format!("SELECT t::text AS text FROM \"{table}\" t");
        let rows = must("reading a table", db.query(&sql, &[]).await);
        all.extend(rows.iter().map(|row| Row { table: table.clone(), text: row.get("text") }));
    }
    all
}

/// Reads every row of every table into one text.
pub async fn dump(db: &Client) -> String {
    rows(db).await.into_iter().map(|row| row.text + "\n").collect()
}

/// Returns the forms in which a value may appear: plain, in hexadecimal digits, in Rust's debug format of bytes, in base64 at any offset,
/// and percent-encoded.
pub fn forms(value: &str) -> Vec<String> {
    let digits = value.bytes().fold(String::new(), |digits, byte| digits + &format!("{byte:02x}"));
    let bytes = format!("{:?}", value.as_bytes());
    let percent: String = form_urlencoded::byte_serialize(value.as_bytes()).collect();
    let mut forms = vec![value.to_owned(), digits, bytes.trim_matches(['[', ']']).to_owned(), percent];
    forms.extend((0..3).map(|offset| base64_at(value, offset)));
    forms
}

/// Returns the base64 digits that depend only on the value, for a value that begins at this offset within three bytes.
fn base64_at(value: &str, offset: usize) -> String {
    let bytes: Vec<u8> = std::iter::repeat_n(0, offset).chain(value.bytes()).collect();
    let (first, end) = ((offset * 8).div_ceil(6), bytes.len() * 8 / 6);
    STANDARD_NO_PAD.encode(&bytes)[first..end].to_owned()
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    #[test]
    fn value_is_found_in_every_encoding() {
        let mut texts = vec!["a ann@b.c!".to_owned(), "\\x616e6e40622e63".to_owned(), "?to=ann%40b.c".to_owned()];
        texts.push("[1, 97, 110, 110, 64, 98, 46, 99]".to_owned());
        texts.extend(["", "x", "xy", "xyz"].map(|before| STANDARD.encode(format!("{before}ann@b.c and more"))));
        for text in texts {
            assert!(forms("ann@b.c").iter().any(|form| text.contains(form)), "{text}");
        }
        assert!(forms("ann@b.c").iter().all(|form| !"Ann@B.C bnn@b.c".contains(form)));
    }
}
