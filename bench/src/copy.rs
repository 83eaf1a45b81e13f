//! Loads rows with binary `COPY`.

use std::pin::pin;

use anyhow::{Context, Result, bail};
use tokio_postgres::Client;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

type Value = Box<dyn ToSql + Sync + Send>;

/// One row, in column order.
#[derive(Debug, Default)]
pub struct Row(Vec<Value>);

impl Row {
    pub fn new() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn add(mut self, value: impl ToSql + Sync + Send + 'static) -> Self {
        self.0.push(Box::new(value));
        self
    }
}

/// Copies rows into a table. `columns` lists each name with its type: `"project_id uuid, name text"`.
pub async fn rows(client: &Client, table: &str, columns: &str, rows: Vec<Row>) -> Result<()> {
    let mut writer = pin!(writer(client, table, columns).await?);
    for row in rows {
        writer.as_mut().write_raw(row.0.iter().map(|value| value.as_ref() as &(dyn ToSql + Sync))).await?;
    }
    writer.finish().await.with_context(|| format!("copying into {table}"))?;
    Ok(())
}

/// Returns a `COPY` writer for many rows, which encodes values as they are written.
pub async fn writer(client: &Client, table: &str, columns: &str) -> Result<BinaryCopyInWriter> {
    let (mut names, mut types) = (Vec::new(), Vec::new());
    for column in columns.split(", ") {
        let (name, kind) = column.split_once(' ').with_context(|| format!("{column}: missing type"))?;
        names.push(name);
        types.push(match kind {
            "uuid" => Type::UUID,
            "text" => Type::TEXT,
            "int2" => Type::INT2,
            "int4" => Type::INT4,
            "int8" => Type::INT8,
            "bool" => Type::BOOL,
            "bytea" => Type::BYTEA,
            "date" => Type::DATE,
            "jsonb" => Type::JSONB,
            "timestamptz" => Type::TIMESTAMPTZ,
            other => bail!("{other}: unsupported column type"),
        });
    }
    let sql = format!("COPY {table} ({}) FROM STDIN BINARY", names.join(", "));
    let sink = client.copy_in(&sql).await.with_context(|| format!("copying into {table}"))?;
    Ok(BinaryCopyInWriter::new(sink, &types))
}

/// JSON that is already serialized.
#[derive(Debug)]
pub struct JsonText(pub String);

impl ToSql for JsonText {
    fn to_sql(&self, _: &Type, out: &mut bytes::BytesMut) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        // The binary format of `jsonb`: a version byte, then the text.
        out.extend_from_slice(&[1]);
        out.extend_from_slice(self.0.as_bytes());
        Ok(IsNull::No)
    }
    fn accepts(kind: &Type) -> bool {
        *kind == Type::JSONB
    }
    to_sql_checked!();
}
