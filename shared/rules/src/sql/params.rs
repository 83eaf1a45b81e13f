//! The parameters of a compiled query.

use std::error::Error;

use bytes::BytesMut;
use jiff::Timestamp;
use postgres_types::{IsNull, ToSql, Type, to_sql_checked};
use serde_json::Value;
use uuid::Uuid;

use kernel::ids::ProjectId;

/// A value to bind.
#[derive(Clone, Debug, PartialEq)]
pub enum Param {
    Project(ProjectId),
    Ids(Vec<Uuid>),
    Id(Uuid),
    Text(String),
    Texts(Vec<String>),
    Json(Value),
    Jsons(Vec<Value>),
    Time(Timestamp),
}

impl Param {
    fn inner(&self) -> &(dyn ToSql + Sync) {
        match self {
            Self::Project(value) => value,
            Self::Ids(value) => value,
            Self::Id(value) => value,
            Self::Text(value) => value,
            Self::Texts(value) => value,
            Self::Json(value) => value,
            Self::Jsons(value) => value,
            Self::Time(value) => value,
        }
    }
}

impl ToSql for Param {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        self.inner().to_sql_checked(ty, out)
    }

    fn accepts(_: &Type) -> bool {
        // The inner values check their types.
        true
    }

    to_sql_checked!();
}

/// The parameters added so far; the first is the project.
pub(super) struct Params(Vec<Param>);

impl Params {
    pub(super) fn of(project: ProjectId) -> Self {
        Self(vec![Param::Project(project)])
    }

    /// Adds a value and returns its placeholder, such as `$3`.
    pub(super) fn add(&mut self, value: Param) -> String {
        self.0.push(value);
        format!("${}", self.0.len())
    }

    pub(super) fn into_vec(self) -> Vec<Param> {
        self.0
    }
}
