//! Maps the columns of a CSV file to fields and properties, by its header line. Pure.

use serde_json::{Map, Value, json};

use super::rows::{Fields, MAX_COLUMNS};
use crate::http::error::{ApiError, Problem};

/// Columns that are not properties, in lower case, and the field that each is mapped to. `IGNORED` columns are part of `GET`
/// responses and have no effect.
const FIELDS: [(&str, &str); 15] = [
    ("user_id", "user_id"),
    ("userid", "user_id"),
    ("user id", "user_id"),
    ("external_id", "user_id"),
    ("externalid", "user_id"),
    ("external id", "user_id"),
    ("anonymous_id", "anonymous_id"),
    ("anonymousid", "anonymous_id"),
    ("email", "email"),
    ("name", "name"),
    ("createdat", IGNORED),
    ("lastseenat", IGNORED),
    ("updatedat", IGNORED),
    ("id", IGNORED),
    ("devices", IGNORED),
];
const IGNORED: &str = "";

/// The type of a column's cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Number,
    Boolean,
    Json,
}

/// The types that a column name may end with, after a colon.
const KINDS: [(&str, Kind); 4] =
    [("text", Kind::Text), ("number", Kind::Number), ("boolean", Kind::Boolean), ("json", Kind::Json)];

#[derive(Debug, PartialEq, Eq)]
enum Target {
    Field(&'static str),
    Property(String, Kind),
    Ignored,
}

impl Target {
    fn has_same_name(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Property(one, _), Self::Property(other, _)) => one == other,
            (Self::Field(one), Self::Field(other)) => one == other,
            _ => false,
        }
    }
}

/// The mapping of a file's columns.
#[derive(Debug)]
pub struct Columns {
    /// The column names of the header.
    names: Vec<String>,
    targets: Vec<Target>,
}

impl Columns {
    /// Parses the header line. Fails with 422 if it is invalid.
    pub fn of(header: Fields<'_>) -> Result<Self, ApiError> {
        let refuse = |message: String| Err(ApiError::invalid("header", message));
        if header.len() > MAX_COLUMNS {
            return refuse(format!("must have at most {MAX_COLUMNS} columns"));
        }
        let (mut names, mut targets) = (Vec::new(), Vec::new());
        for (at, bytes) in header.iter().enumerate() {
            let Ok(name) = std::str::from_utf8(bytes) else { return refuse("must be UTF-8".to_owned()) };
            let name = name.trim();
            if name.is_empty() || name.len() > 255 {
                return refuse(format!("column {} must have a name of 1 to 255 bytes", at + 1));
            }
            let target = target(name);
            if targets.iter().any(|before: &Target| before.has_same_name(&target)) {
                return refuse(format!(
                    "must name every column once; {name:?} names the same field as an earlier column"
                ));
            }
            names.push(name.to_owned());
            targets.push(target);
        }
        let has = |field| targets.contains(&Target::Field(field));
        if !has("user_id") && !has("anonymous_id") {
            return refuse(
                "must name the columns in the first line, separated by the `delimiter` (by default a comma); \
                 one must be `user_id` (or `external_id`), or else `anonymous_id`"
                    .to_owned(),
            );
        }
        Ok(Self { names, targets })
    }

    /// Converts a row to a JSON object. Empty cells are skipped.
    pub fn object(&self, row: Fields<'_>) -> Result<Map<String, Value>, Vec<Problem>> {
        if row.len() != self.targets.len() {
            let message = format!("must have {} columns like the header, not {}", self.targets.len(), row.len());
            return Err(vec![Problem::new("line", message)]);
        }
        let (mut object, mut properties, mut problems) = (Map::new(), Map::new(), Vec::new());
        for ((target, name), bytes) in self.targets.iter().zip(&self.names).zip(row.iter()) {
            let Ok(cell) = std::str::from_utf8(bytes) else {
                problems.push(Problem::new(name, "must be UTF-8"));
                continue;
            };
            if cell.trim().is_empty() {
                continue;
            }
            match target {
                Target::Ignored => {}
                Target::Field(field) => {
                    object.insert((*field).to_owned(), json!(cell.trim()));
                }
                Target::Property(key, kind) => match value(cell, *kind) {
                    Ok(value) => {
                        properties.insert(key.clone(), value);
                    }
                    Err(allowed) => problems.push(Problem::new(name, allowed)),
                },
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        object.insert("properties".to_owned(), Value::Object(properties));
        Ok(object)
    }
}

fn target(name: &str) -> Target {
    let lower = name.to_lowercase();
    if let Some((_, field)) = FIELDS.iter().find(|(known, _)| *known == lower) {
        return if *field == IGNORED { Target::Ignored } else { Target::Field(field) };
    }
    // The type follows the last colon; earlier colons are part of the name.
    let typed = name.rsplit_once(':').and_then(|(key, kind)| {
        let kind = kind.trim().to_lowercase();
        let (_, kind) = KINDS.iter().find(|(name, _)| *name == kind)?;
        Some((key.trim(), *kind)).filter(|(key, _)| !key.is_empty())
    });
    let (key, kind) = typed.unwrap_or((name, Kind::Text));
    Target::Property(key.to_owned(), kind)
}

fn value(cell: &str, kind: Kind) -> Result<Value, &'static str> {
    let trimmed = cell.trim();
    match kind {
        Kind::Text => Ok(json!(cell)),
        Kind::Number => {
            let allowed = "must be a number such as 12 or -0.5";
            let number = serde_json::from_str::<serde_json::Number>(trimmed).map_err(|_| allowed)?;
            Ok(Value::Number(number))
        }
        Kind::Boolean => match trimmed.to_lowercase().as_str() {
            "true" | "yes" | "1" => Ok(json!(true)),
            "false" | "no" | "0" => Ok(json!(false)),
            _ => Err("must be one of `true`, `false`, `yes`, `no`, `1`, `0`"),
        },
        Kind::Json => serde_json::from_str(trimmed).map_err(|_| "must be JSON"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::import::rows::Rows;

    /// Returns the objects of all rows, or the problems of the header or of the first bad row.
    fn read(text: &str) -> Result<Vec<Value>, Vec<String>> {
        let mut rows = Rows::new(b',');
        rows.push(text.as_bytes());
        let display = |p: &Problem| format!("{}: {}", p.field, p.message);
        let (_, header) = rows.next(true).unwrap();
        let columns = Columns::of(header.unwrap()).map_err(|e| e.details().iter().map(display).collect::<Vec<_>>())?;
        let mut found = Vec::new();
        while let Some((_, row)) = rows.next(true) {
            let object = columns.object(row.unwrap()).map_err(|e| e.iter().map(display).collect::<Vec<_>>())?;
            found.push(Value::Object(object));
        }
        Ok(found)
    }

    #[test]
    fn cells_are_text_unless_the_header_names_a_type() {
        let header = "User_ID,EMAIL, name ,zip,age:number,vip: Boolean,tags:json,utm:source,note:text,createdAt";
        let rows = format!(
            "{header}\nu1, a@b.co ,Ann,00123,42,yes,\"[\"\"a\"\"]\",ad, x ,2026-01-01\n007,,,,-0.5,FALSE,null,,,\n"
        );
        let expected = [
            json!({"user_id": "u1", "email": "a@b.co", "name": "Ann", "properties":
                {"zip": "00123", "age": 42, "vip": true, "tags": ["a"], "utm:source": "ad", "note": " x "}}),
            json!({"user_id": "007", "properties": {"age": -0.5, "vip": false, "tags": null}}),
        ];
        assert_eq!(read(&rows), Ok(expected.to_vec()));
    }

    #[test]
    fn invalid_header_is_refused() {
        for (header, part) in [
            ("email,name", "one must be `user_id`"),
            ("user_id;email", "separated by the `delimiter`"),
            ("user_id,", "column 2 must have a name"),
            ("user_id,External ID", "every column once"),
            ("user_id,a,a", "every column once"),
        ] {
            let problems = read(header).unwrap_err();
            assert!(problems[0].starts_with("header: ") && problems[0].contains(part), "{header}: {problems:?}");
        }
        // The same name with another type.
        assert!(read("user_id,a,a:number").is_err());
    }

    #[test]
    fn invalid_row_names_its_columns() {
        let header = "user_id,age:number,vip:boolean,x:json";
        for (row, expected) in [
            ("u,1,true", "line: must have 4 columns like the header, not 3"),
            ("u,1,true,1,2", "line: must have 4 columns like the header, not 5"),
            ("u,old,,", "age:number: must be a number such as 12 or -0.5"),
            ("u,1e999,,", "age:number: must be a number such as 12 or -0.5"),
            ("u,,maybe,", "vip:boolean: must be one of `true`, `false`, `yes`, `no`, `1`, `0`"),
            ("u,,,{", "x:json: must be JSON"),
        ] {
            assert_eq!(read(&format!("{header}\n{row}\n")), Err(vec![expected.to_owned()]), "{row}");
        }
    }
}
