//! SQL statements of event lists; `$2` holds the names and `$3` the user IDs. Each combination has a statement of its
//! own, so that its plan uses the index that provides the order of the list.

use super::{EventFilter, ReadOrder};
use database::months::Month;

/// Number of values in a filter.
#[derive(Clone, Copy)]
enum ValueCount {
    /// No filter.
    Any,
    One,
    Several,
}

impl ValueCount {
    fn of<T>(values: Option<&[T]>) -> Self {
        match values {
            None => Self::Any,
            Some([_]) => Self::One,
            Some(_) => Self::Several,
        }
    }
}

impl EventFilter {
    fn value_counts(&self) -> (ValueCount, ValueCount) {
        (ValueCount::of(self.names.as_deref()), ValueCount::of(self.user_ids.as_deref()))
    }

    /// Returns the SQL of a page: events older than `$4`, offset `$5`, at most `$6`. Several names or users are read
    /// one by one.
    pub(super) fn page_sql(&self, order: ReadOrder, month: Month) -> String {
        let ((names, users), within) = (self.value_counts(), month.condition("id"));
        match (order, names, users) {
            (ReadOrder::InOrder, ValueCount::Any, ValueCount::Any) => format!(
                "SELECT id, client_id, name, user_id, properties, ts, received_at, anonymous_id FROM events \
                 WHERE project_id = $1 AND $2::text[] IS NULL AND $3::uuid[] IS NULL AND id < $4 AND {within} \
                 ORDER BY id DESC OFFSET $5 LIMIT $6"
            ),
            (ReadOrder::InOrder, ValueCount::Any, ValueCount::One) => format!(
                "SELECT id, client_id, name, user_id, properties, ts, received_at, anonymous_id FROM events \
                 WHERE project_id = $1 AND $2::text[] IS NULL AND user_id = ($3::uuid[])[1] AND id < $4 AND {within} \
                 ORDER BY id DESC OFFSET $5 LIMIT $6"
            ),
            (ReadOrder::InOrder, ValueCount::One, ValueCount::Any) => format!(
                "SELECT id, client_id, name, user_id, properties, ts, received_at, anonymous_id FROM events \
                 WHERE project_id = $1 AND name = ($2::text[])[1] AND $3::uuid[] IS NULL AND id < $4 AND {within} \
                 ORDER BY id DESC OFFSET $5 LIMIT $6"
            ),
            (ReadOrder::InOrder, ValueCount::One, ValueCount::One) => format!(
                "SELECT id, client_id, name, user_id, properties, ts, received_at, anonymous_id FROM events \
                 WHERE project_id = $1 AND name = ($2::text[])[1] AND user_id = ($3::uuid[])[1] AND id < $4 \
                 AND {within} ORDER BY id DESC OFFSET $5 LIMIT $6"
            ),
            (ReadOrder::InOrder, ValueCount::Several, ValueCount::Any) => format!(
                "SELECT id, client_id, name, user_id, properties, ts, received_at, anonymous_id FROM events \
                 WHERE project_id = $1 AND name = ANY($2::text[]) AND $3::uuid[] IS NULL AND id < $4 AND {within} \
                 ORDER BY id DESC OFFSET $5 LIMIT $6"
            ),
            (ReadOrder::InOrder, ValueCount::Several, ValueCount::One) => format!(
                "SELECT id, client_id, name, user_id, properties, ts, received_at, anonymous_id FROM events \
                 WHERE project_id = $1 AND name = ANY($2::text[]) AND user_id = ($3::uuid[])[1] AND id < $4 \
                 AND {within} ORDER BY id DESC OFFSET $5 LIMIT $6"
            ),
            (ReadOrder::ByName, ..) => format!(
                "SELECT e.* FROM unnest($2::text[]) AS each(one) CROSS JOIN LATERAL \
                 (SELECT id, client_id, name, user_id, properties, ts, received_at, anonymous_id FROM events \
                 WHERE project_id = $1 AND name = each.one AND $3::uuid[] IS NULL AND id < $4 AND {within} \
                 ORDER BY id DESC LIMIT $5::bigint + $6::bigint) e ORDER BY e.id DESC OFFSET $5 LIMIT $6"
            ),
            (ReadOrder::ByUser | ReadOrder::InOrder, ValueCount::Any, _) => format!(
                "SELECT e.* FROM unnest($3::uuid[]) AS each(one) CROSS JOIN LATERAL \
                 (SELECT id, client_id, name, user_id, properties, ts, received_at, anonymous_id FROM events \
                 WHERE project_id = $1 AND $2::text[] IS NULL AND user_id = each.one AND id < $4 AND {within} \
                 ORDER BY id DESC LIMIT $5::bigint + $6::bigint) e ORDER BY e.id DESC OFFSET $5 LIMIT $6"
            ),
            (ReadOrder::ByUser | ReadOrder::InOrder, ValueCount::One, _) => format!(
                "SELECT e.* FROM unnest($3::uuid[]) AS each(one) CROSS JOIN LATERAL \
                 (SELECT id, client_id, name, user_id, properties, ts, received_at, anonymous_id FROM events \
                 WHERE project_id = $1 AND name = ($2::text[])[1] AND user_id = each.one AND id < $4 AND {within} \
                 ORDER BY id DESC LIMIT $5::bigint + $6::bigint) e ORDER BY e.id DESC OFFSET $5 LIMIT $6"
            ),
            (ReadOrder::ByUser | ReadOrder::InOrder, ValueCount::Several, _) => format!(
                "SELECT e.* FROM unnest($3::uuid[]) AS each(one) CROSS JOIN LATERAL \
                 (SELECT id, client_id, name, user_id, properties, ts, received_at, anonymous_id FROM events \
                 WHERE project_id = $1 AND name = ANY($2::text[]) AND user_id = each.one AND id < $4 AND {within} \
                 ORDER BY id DESC LIMIT $5::bigint + $6::bigint) e ORDER BY e.id DESC OFFSET $5 LIMIT $6"
            ),
        }
    }

    /// Returns the SQL of an export page: events older than `$4`, down to `$5`, at most `$6`. Several names or users
    /// are read one by one.
    pub(in crate::events) fn export_page_sql(&self, order: ReadOrder, month: Month) -> String {
        let ((names, users), within) = (self.value_counts(), month.condition("id"));
        match (order, names, users) {
            (ReadOrder::InOrder, ValueCount::Any, ValueCount::Any) => format!(
                "SELECT id, client_id, name, user_id, properties, ts, received_at, anonymous_id FROM events \
                 WHERE project_id = $1 AND $2::text[] IS NULL AND $3::uuid[] IS NULL AND id < $4 AND id >= $5::uuid \
                 AND {within} ORDER BY id DESC LIMIT $6"
            ),
            (ReadOrder::InOrder, ValueCount::Any, ValueCount::One) => format!(
                "SELECT id, client_id, name, user_id, properties, ts, received_at, anonymous_id FROM events \
                 WHERE project_id = $1 AND $2::text[] IS NULL AND user_id = ($3::uuid[])[1] AND id < $4 \
                 AND id >= $5::uuid AND {within} ORDER BY id DESC LIMIT $6"
            ),
            (ReadOrder::InOrder, ValueCount::One, ValueCount::Any) => format!(
                "SELECT id, client_id, name, user_id, properties, ts, received_at, anonymous_id FROM events \
                 WHERE project_id = $1 AND name = ($2::text[])[1] AND $3::uuid[] IS NULL AND id < $4 \
                 AND id >= $5::uuid AND {within} ORDER BY id DESC LIMIT $6"
            ),
            (ReadOrder::InOrder, ValueCount::One, ValueCount::One) => format!(
                "SELECT id, client_id, name, user_id, properties, ts, received_at, anonymous_id FROM events \
                 WHERE project_id = $1 AND name = ($2::text[])[1] AND user_id = ($3::uuid[])[1] AND id < $4 \
                 AND id >= $5::uuid AND {within} ORDER BY id DESC LIMIT $6"
            ),
            (ReadOrder::InOrder, ValueCount::Several, ValueCount::Any) => format!(
                "SELECT id, client_id, name, user_id, properties, ts, received_at, anonymous_id FROM events \
                 WHERE project_id = $1 AND name = ANY($2::text[]) AND $3::uuid[] IS NULL AND id < $4 \
                 AND id >= $5::uuid AND {within} ORDER BY id DESC LIMIT $6"
            ),
            (ReadOrder::InOrder, ValueCount::Several, ValueCount::One) => format!(
                "SELECT id, client_id, name, user_id, properties, ts, received_at, anonymous_id FROM events \
                 WHERE project_id = $1 AND name = ANY($2::text[]) AND user_id = ($3::uuid[])[1] AND id < $4 \
                 AND id >= $5::uuid AND {within} ORDER BY id DESC LIMIT $6"
            ),
            (ReadOrder::ByName, ..) => format!(
                "SELECT e.* FROM unnest($2::text[]) AS each(one) CROSS JOIN LATERAL \
                 (SELECT id, client_id, name, user_id, properties, ts, received_at, anonymous_id FROM events \
                 WHERE project_id = $1 AND name = each.one AND $3::uuid[] IS NULL AND id < $4 AND id >= $5::uuid \
                 AND {within} ORDER BY id DESC LIMIT $6::bigint) e ORDER BY e.id DESC LIMIT $6"
            ),
            (ReadOrder::ByUser | ReadOrder::InOrder, ValueCount::Any, _) => format!(
                "SELECT e.* FROM unnest($3::uuid[]) AS each(one) CROSS JOIN LATERAL \
                 (SELECT id, client_id, name, user_id, properties, ts, received_at, anonymous_id FROM events \
                 WHERE project_id = $1 AND $2::text[] IS NULL AND user_id = each.one AND id < $4 AND id >= $5::uuid \
                 AND {within} ORDER BY id DESC LIMIT $6::bigint) e ORDER BY e.id DESC LIMIT $6"
            ),
            (ReadOrder::ByUser | ReadOrder::InOrder, ValueCount::One, _) => format!(
                "SELECT e.* FROM unnest($3::uuid[]) AS each(one) CROSS JOIN LATERAL \
                 (SELECT id, client_id, name, user_id, properties, ts, received_at, anonymous_id FROM events \
                 WHERE project_id = $1 AND name = ($2::text[])[1] AND user_id = each.one AND id < $4 \
                 AND id >= $5::uuid AND {within} ORDER BY id DESC LIMIT $6::bigint) e ORDER BY e.id DESC LIMIT $6"
            ),
            (ReadOrder::ByUser | ReadOrder::InOrder, ValueCount::Several, _) => format!(
                "SELECT e.* FROM unnest($3::uuid[]) AS each(one) CROSS JOIN LATERAL \
                 (SELECT id, client_id, name, user_id, properties, ts, received_at, anonymous_id FROM events \
                 WHERE project_id = $1 AND name = ANY($2::text[]) AND user_id = each.one AND id < $4 \
                 AND id >= $5::uuid AND {within} ORDER BY id DESC LIMIT $6::bigint) e ORDER BY e.id DESC LIMIT $6"
            ),
        }
    }

    /// Returns the SQL that counts a month's events older than `$4`, up to `$5`.
    pub(super) fn count_sql(&self, month: Month) -> String {
        let within = month.condition("id");
        match self.value_counts() {
            (ValueCount::Any, ValueCount::Any) => format!(
                "SELECT count(*) AS total FROM (SELECT 1 FROM events WHERE project_id = $1 AND $2::text[] IS NULL \
                 AND $3::uuid[] IS NULL AND id < $4 AND {within} LIMIT $5) AS found"
            ),
            (ValueCount::Any, ValueCount::One) => format!(
                "SELECT count(*) AS total FROM (SELECT 1 FROM events WHERE project_id = $1 AND $2::text[] IS NULL \
                 AND user_id = ($3::uuid[])[1] AND id < $4 AND {within} LIMIT $5) AS found"
            ),
            (ValueCount::Any, ValueCount::Several) => format!(
                "SELECT count(*) AS total FROM (SELECT 1 FROM events WHERE project_id = $1 AND $2::text[] IS NULL \
                 AND user_id = ANY($3::uuid[]) AND id < $4 AND {within} LIMIT $5) AS found"
            ),
            (ValueCount::One, ValueCount::Any) => format!(
                "SELECT count(*) AS total FROM (SELECT 1 FROM events WHERE project_id = $1 \
                 AND name = ($2::text[])[1] AND $3::uuid[] IS NULL AND id < $4 AND {within} LIMIT $5) AS found"
            ),
            (ValueCount::One, ValueCount::One) => format!(
                "SELECT count(*) AS total FROM (SELECT 1 FROM events WHERE project_id = $1 \
                 AND name = ($2::text[])[1] AND user_id = ($3::uuid[])[1] AND id < $4 AND {within} LIMIT $5) AS found"
            ),
            (ValueCount::One, ValueCount::Several) => format!(
                "SELECT count(*) AS total FROM (SELECT 1 FROM events WHERE project_id = $1 \
                 AND name = ($2::text[])[1] AND user_id = ANY($3::uuid[]) AND id < $4 AND {within} LIMIT $5) AS found"
            ),
            (ValueCount::Several, ValueCount::Any) => format!(
                "SELECT count(*) AS total FROM (SELECT 1 FROM events WHERE project_id = $1 \
                 AND name = ANY($2::text[]) AND $3::uuid[] IS NULL AND id < $4 AND {within} LIMIT $5) AS found"
            ),
            (ValueCount::Several, ValueCount::One) => format!(
                "SELECT count(*) AS total FROM (SELECT 1 FROM events WHERE project_id = $1 \
                 AND name = ANY($2::text[]) AND user_id = ($3::uuid[])[1] AND id < $4 AND {within} LIMIT $5) AS found"
            ),
            (ValueCount::Several, ValueCount::Several) => format!(
                "SELECT count(*) AS total FROM (SELECT 1 FROM events WHERE project_id = $1 \
                 AND name = ANY($2::text[]) AND user_id = ANY($3::uuid[]) AND id < $4 AND {within} LIMIT $5) AS found"
            ),
        }
    }
}
