//! Rows of the ledger by their ids, read and changed at the cost of just those rows, whatever the planner knows of the table.
//!
//! A partition that is new has no statistics, and what lies between two ids is then taken for next to nothing: a join, or
//! `id = ANY` beside such bounds, would read all of it. A plan that was made while the partition was empty even stays for a while.
//! So each id is looked up for itself, and a change takes the way of an insert that meets the row which is there: by the
//! primary key, with no join that could be planned otherwise. Each statement is limited to one [`Month`]; the id bounds also
//! exclude the month's other partitions.

use database::by_project;
use database::months::Month;

/// What a row that meets another cannot be without, of the rows to be changed.
pub(crate) const KEPT: &str = "project_id, id, user_id, channel, lane, status, created_at, updated_at";

/// What becomes of the rows that are found.
#[derive(Clone, Copy)]
pub(crate) enum Lock {
    None,
    /// Locked in the order of `w`.
    Wait,
}

/// The ids of an array, once each and in their order, as SQL: a `w` of [`look_up`].
pub(crate) fn wanted(array: &str) -> String {
    format!("(SELECT DISTINCT unnest({array}::uuid[]) AS id ORDER BY 1) AS w")
}

/// The id of a campaign's message, as SQL: of the time its sending began in Unix milliseconds, and the MD5 of the sending's key
/// (`campaign:occurrence`) followed by the user's id.
pub(crate) fn of_sending(ms: &str, hash: &str) -> String {
    format!(
        "(lpad(to_hex({ms}::bigint), 12, '0') || '7' || substr({hash}, 1, 3) || '8' || substr({hash}, 4, 15))::uuid"
    )
}

/// Returns a `FROM` item that joins each row `w` to the project's (`$1`) message `m` with that id in the month.
pub(crate) fn look_up(month: Month, w: &str, columns: &str, conditions: &str, lock: Lock) -> String {
    let lock = match lock {
        Lock::None => "",
        Lock::Wait => "FOR UPDATE OF m",
    };
    // `OFFSET 0` keeps it a look-up of its own, and conditions from outside out of it.
    format!(
        "{w} CROSS JOIN LATERAL (SELECT {columns} FROM message m WHERE m.project_id = $1 AND m.id = w.id AND {month} \
         AND {conditions} OFFSET 0 {lock}) AS m",
        month = month.condition("m.id")
    )
}

/// Returns SQL that updates locked rows `m` of the month. `rows` supplies the columns [`KEPT`] and `more` (`", status_reason"`); `set` reads
/// them as `excluded`. Ids must be unique.
pub(crate) fn change(month: Month, rows: &str, more: &str, set: &str) -> String {
    if by_project::is_spread() {
        // The way of the insert takes neither parameters nor sums of times on a distributed store; there the rows' own ids make up for it.
        return format!(
            "UPDATE message AS m SET {set} FROM (SELECT {KEPT}{more} FROM {rows}) AS excluded \
             WHERE m.project_id = $1 AND m.id = excluded.id AND {month}",
            month = month.condition("m.id")
        );
    }
    format!(
        "INSERT INTO message AS m ({KEPT}{more}) SELECT {KEPT}{more} FROM {rows} ON CONFLICT (project_id, id) DO UPDATE SET {set}"
    )
}
