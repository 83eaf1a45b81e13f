//! What people are searched by: a row each for those who have an external id, an email address or a name.

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use tokio_postgres::{Row, Statement};
use uuid::Uuid;

use super::place::{Found, Place, behind, counted_page};
use super::record::PersonKey;
use database::StoreError;
use database::by_project::{self, ByProject};
use database::filter::{MOST_COUNTED, Pin, Start, Total, like_pattern};
use kernel::ids::ProjectId;

/// Begins each of the texts, so that a search for how one begins is a search within the whole.
const BEGIN: char = '\u{1}';
/// People looked through, from the newest on, before the index by trigrams is asked.
const WALK: i64 = 2_000;
/// Of whom at least one in so many was found: then there are many, and counting them by reading is faster than by the
/// index, which looks at all of them before it gives the first.
const DENSE: i64 = 10;

/// What a search (lower case) looks for in the texts; none where it can be in no text.
pub(super) fn needle(text: &str) -> Option<String> {
    (!text.contains(BEGIN)).then(|| if is_from_the_start(text) { format!("{BEGIN}{text}") } else { text.to_owned() })
}

/// Few characters are searched from the start, for they are in most texts.
fn is_from_the_start(text: &str) -> bool {
    text.chars().count() <= 2
}

/// A person's text as it is kept: lower case.
pub fn text_of(external_id: Option<&str>, email: Option<&str>, name: Option<&str>) -> Option<String> {
    let mut text = String::new();
    for part in [external_id, email, name].into_iter().flatten() {
        text.push(BEGIN);
        text.push_str(&part.to_lowercase().replace(BEGIN, " "));
    }
    (!text.is_empty()).then_some(text)
}

/// Writes people's texts where they are not there yet or have changed. The people must be there, the keys sorted and
/// different.
pub async fn put(tx: &Transaction<'_>, people: &[(PersonKey, String)]) -> Result<(), StoreError> {
    let sql = ByProject::new(
        "INSERT INTO user_search (project_id, id, created_at, text) SELECT u.project_id, u.id, u.created_at, v.t \
         FROM unnest($1::uuid[], $2::uuid[], $3::text[]) AS v(p, i, t) JOIN users u ON u.project_id = v.p \
         AND u.id = v.i ORDER BY u.project_id, u.id ON CONFLICT (project_id, id) DO UPDATE SET text = excluded.text \
         WHERE user_search.text <> excluded.text",
        &["v.p"],
    );
    let write = async |statement: Statement, part: &[(PersonKey, String)]| {
        let (projects, ids): (Vec<ProjectId>, Vec<Uuid>) = part.iter().map(|(key, _)| *key).unzip();
        let texts: Vec<&str> = part.iter().map(|(_, text)| text.as_str()).collect();
        Ok(tx.execute(&statement, &[&projects, &ids, &texts]).await?)
    };
    by_project::each(tx, people, |(key, _)| key.0, sql, write).await?;
    Ok(())
}

/// Writes the texts of everybody who has none, for tables that were filled from elsewhere. Letters are made lower case by
/// the database, which knows fewer of them.
pub async fn write_missing(db: &impl GenericClient) -> Result<u64, StoreError> {
    let sql = "INSERT INTO user_search (project_id, id, created_at, text) \
               SELECT project_id, id, created_at, coalesce(chr(1) || lower(replace(external_id, chr(1), ' ')), \
               '') || coalesce(chr(1) || lower(replace(email, chr(1), ' ')), \
               '') || coalesce(chr(1) || lower(replace(name, chr(1), ' ')), '') FROM users WHERE merged_into IS NULL \
               AND coalesce(external_id, email, name) IS NOT NULL ON CONFLICT (project_id, id) DO NOTHING";
    Ok(db.execute(sql, &[]).await?)
}

/// Takes out people who are no longer people of their own.
pub async fn remove(tx: &Transaction<'_>, people: &[PersonKey]) -> Result<(), StoreError> {
    let sql = ByProject::new(
        "DELETE FROM user_search s USING unnest($1::uuid[], $2::uuid[]) AS v(p, i) WHERE s.project_id = v.p \
         AND s.id = v.i",
        &["v.p"],
    );
    let remove = async |statement: Statement, part: &[PersonKey]| {
        let (projects, ids): (Vec<ProjectId>, Vec<Uuid>) = part.iter().copied().unzip();
        Ok(tx.execute(&statement, &[&projects, &ids]).await?)
    };
    by_project::each(tx, people, |person| person.0, sql, remove).await?;
    Ok(())
}

/// Puts what was written lately into the index by trigrams; until then every search looks through it.
pub async fn settle_index(db: &impl GenericClient) -> Result<(), StoreError> {
    db.execute("SELECT gin_clean_pending_list('user_search_text')", &[]).await?;
    Ok(())
}

// The statements below say these numbers.
const _: () = assert!(WALK == 2_000 && MOST_COUNTED + 1 == 10_001);

/// Which people are looked for, and which part of those found is wanted.
#[derive(Debug)]
pub(super) struct Search<'a> {
    pub project: ProjectId,
    /// Lower case, not empty; one or two characters are searched from the start, more within.
    pub text: &'a str,
    /// Seen since (true) or not since (false) a time.
    pub seen_since: Option<(bool, Timestamp)>,
    /// Whether there are more than are counted, as was found a moment ago.
    pub is_many: bool,
    pub start: &'a Start<Place>,
    pub limit: i64,
}

/// What a look through the newest people found.
struct Walked {
    found: Vec<Place>,
    looked_at: i64,
}

impl Search<'_> {
    /// Walks from the newest on as long as many are found, and asks the index where few are.
    pub(super) async fn run(&self, db: &mut impl GenericClient) -> Result<Found, StoreError> {
        if needle(self.text).is_none() {
            return Ok(Found { page: Vec::new(), total: Total::exact(0) });
        }
        let (offset, limit) = (self.start.offset(), self.limit);
        let walked = self.walk(db).await?;
        let found = walked.found.len() as i64;
        let page = walked.found.into_iter().skip(offset as usize).take(limit as usize).collect();
        if walked.looked_at < WALK && matches!(self.start, Start::Offset(_)) {
            return Ok(Found { page, total: Total::exact(found) });
        }
        let page = (found >= offset + limit || walked.looked_at < WALK).then_some(page);
        let is_many = self.is_many || self.begin_many(db).await?;
        let is_dense = found * DENSE >= walked.looked_at && walked.looked_at == WALK;
        if is_many || is_dense {
            let total = if is_many { Total::beyond() } else { self.count_many(db).await? };
            let page = match page {
                Some(page) => page,
                None => self.page_of_many(db).await?,
            };
            return Ok(Found { page, total });
        }
        let few = self.by_index(db).await?;
        let page = match page {
            Some(page) => page,
            None if few.total.capped => self.page_of_many(db).await?,
            None => few.page,
        };
        Ok(Found { page, total: few.total })
    }

    fn needle(&self) -> String {
        needle(self.text).unwrap_or_default()
    }

    fn time(&self) -> Option<Timestamp> {
        self.seen_since.map(|(_, time)| time)
    }

    /// Looks through the newest people behind the start, at most [`WALK`].
    async fn walk(&self, db: &impl GenericClient) -> Result<Walked, StoreError> {
        let sql = match self.seen_since {
            None => {
                "SELECT array_agg(w.created_at) FILTER (WHERE w.hit) AS times, \
                 array_agg(w.id) FILTER (WHERE w.hit) AS ids, count(*) AS looked_at FROM \
                 (SELECT s.created_at, s.id, strpos(s.text, $2) > 0 AND $3::timestamptz IS NULL FROM \
                 (SELECT project_id, created_at, id, text FROM user_search WHERE project_id = $1 \
                 AND (created_at, id) < ($4, $5) ORDER BY created_at DESC, id DESC LIMIT 2000) s \
                 ORDER BY s.created_at DESC, s.id DESC) AS w(created_at, id, hit)"
            }
            Some((true, _)) => {
                "SELECT array_agg(w.created_at) FILTER (WHERE w.hit) AS times, \
                 array_agg(w.id) FILTER (WHERE w.hit) AS ids, count(*) AS looked_at FROM \
                 (SELECT s.created_at, s.id, strpos(s.text, $2) > 0 AND u.last_seen_at >= $3 FROM \
                 (SELECT project_id, created_at, id, text FROM user_search WHERE project_id = $1 \
                 AND (created_at, id) < ($4, $5) ORDER BY created_at DESC, id DESC LIMIT 2000) s JOIN users u \
                 ON u.project_id = s.project_id AND u.id = s.id \
                 ORDER BY s.created_at DESC, s.id DESC) AS w(created_at, id, hit)"
            }
            Some((false, _)) => {
                "SELECT array_agg(w.created_at) FILTER (WHERE w.hit) AS times, \
                 array_agg(w.id) FILTER (WHERE w.hit) AS ids, count(*) AS looked_at FROM \
                 (SELECT s.created_at, s.id, strpos(s.text, $2) > 0 AND u.last_seen_at < $3 FROM \
                 (SELECT project_id, created_at, id, text FROM user_search WHERE project_id = $1 \
                 AND (created_at, id) < ($4, $5) ORDER BY created_at DESC, id DESC LIMIT 2000) s JOIN users u \
                 ON u.project_id = s.project_id AND u.id = s.id \
                 ORDER BY s.created_at DESC, s.id DESC) AS w(created_at, id, hit)"
            }
        };
        let (at, id) = behind(self.start);
        let statement = db.prepare_cached(sql).await?;
        let row = db.query_one(&statement, &[&self.project, &self.needle(), &self.time(), &at, &id]).await?;
        let times: Option<Vec<Timestamp>> = row.try_get("times")?;
        let ids: Option<Vec<Uuid>> = row.try_get("ids")?;
        let found = times.into_iter().flatten().zip(ids.into_iter().flatten()).collect();
        Ok(Walked { found, looked_at: row.try_get("looked_at")? })
    }

    /// Whether one of the three texts alone begins so for more people than are counted: by indexes that hold little else. Only
    /// asked of a text that is searched from the start, and of nobody's last visit.
    async fn begin_many(&self, db: &mut impl GenericClient) -> Result<bool, StoreError> {
        if !is_from_the_start(self.text) || self.seen_since.is_some() {
            return Ok(false);
        }
        // Each text's first two characters are in a column of their own; behind them comes the last that there is.
        let sql = "SELECT greatest((SELECT count(*) FROM (SELECT 1 FROM user_search s WHERE project_id = $1 \
                   AND s.begin_1 BETWEEN $2 AND $2 || chr(1114111) LIMIT 10001) f), (SELECT count(*) FROM (SELECT 1 \
                   FROM user_search s WHERE project_id = $1 AND s.begin_2 BETWEEN $2 AND $2 || chr(1114111) \
                   LIMIT 10001) f), (SELECT count(*) FROM (SELECT 1 FROM user_search s WHERE project_id = $1 \
                   AND s.begin_3 BETWEEN $2 AND $2 || chr(1114111) LIMIT 10001) f)) AS most";
        let tx = Pin::Indexed.begin(db).await?;
        let most: i64 =
            tx.query_one(&tx.prepare_cached(sql).await?, &[&self.project, &self.text]).await?.try_get("most")?;
        tx.commit().await?;
        Ok(most > MOST_COUNTED)
    }

    /// Counts where one in a few is found, from the newest on.
    async fn count_many(&self, db: &mut impl GenericClient) -> Result<Total, StoreError> {
        let sql = match self.seen_since {
            None => {
                "SELECT count(*) AS total FROM (SELECT 1 FROM user_search s WHERE s.project_id = $1 \
                 AND strpos(s.text, $2) > 0 AND $3::timestamptz IS NULL ORDER BY s.created_at DESC, s.id DESC \
                 LIMIT 10001) AS found"
            }
            Some((true, _)) => {
                "SELECT count(*) AS total FROM (SELECT 1 FROM user_search s JOIN users u \
                 ON u.project_id = s.project_id AND u.id = s.id WHERE s.project_id = $1 AND strpos(s.text, $2) > 0 \
                 AND u.last_seen_at >= $3 ORDER BY s.created_at DESC, s.id DESC LIMIT 10001) AS found"
            }
            Some((false, _)) => {
                "SELECT count(*) AS total FROM (SELECT 1 FROM user_search s JOIN users u \
                 ON u.project_id = s.project_id AND u.id = s.id WHERE s.project_id = $1 AND strpos(s.text, $2) > 0 \
                 AND u.last_seen_at < $3 ORDER BY s.created_at DESC, s.id DESC LIMIT 10001) AS found"
            }
        };
        let tx = Pin::Ordered.begin(db).await?;
        let row = tx.query_one(&tx.prepare_cached(sql).await?, &[&self.project, &self.needle(), &self.time()]).await?;
        tx.commit().await?;
        Ok(Total::counted(row.try_get("total")?))
    }

    /// The page, where reading on from the newest must come upon it.
    async fn page_of_many(&self, db: &mut impl GenericClient) -> Result<Vec<Place>, StoreError> {
        let sql = match self.seen_since {
            None => {
                "SELECT s.created_at, s.id FROM user_search s WHERE s.project_id = $1 AND strpos(s.text, $2) > 0 \
                 AND $3::timestamptz IS NULL AND (s.created_at, s.id) < ($4, $5) \
                 ORDER BY s.created_at DESC, s.id DESC OFFSET $6 LIMIT $7"
            }
            Some((true, _)) => {
                "SELECT s.created_at, s.id FROM user_search s JOIN users u ON u.project_id = s.project_id \
                 AND u.id = s.id WHERE s.project_id = $1 AND strpos(s.text, $2) > 0 AND u.last_seen_at >= $3 \
                 AND (s.created_at, s.id) < ($4, $5) ORDER BY s.created_at DESC, s.id DESC OFFSET $6 LIMIT $7"
            }
            Some((false, _)) => {
                "SELECT s.created_at, s.id FROM user_search s JOIN users u ON u.project_id = s.project_id \
                 AND u.id = s.id WHERE s.project_id = $1 AND strpos(s.text, $2) > 0 AND u.last_seen_at < $3 \
                 AND (s.created_at, s.id) < ($4, $5) ORDER BY s.created_at DESC, s.id DESC OFFSET $6 LIMIT $7"
            }
        };
        let tx = Pin::Ordered.begin(db).await?;
        let rows = self.part(&tx, sql, &self.needle()).await?;
        tx.commit().await?;
        rows.iter().map(|row| Ok((row.try_get("created_at")?, row.try_get("id")?))).collect()
    }

    /// All that are found, up to one more than are counted, and of these the page: by trigrams, or by the beginnings.
    async fn by_index(&self, db: &mut impl GenericClient) -> Result<Found, StoreError> {
        let from_the_start = is_from_the_start(self.text);
        let text = if from_the_start { self.text.to_owned() } else { like_pattern(&self.needle()) };
        let sql = match (from_the_start, self.seen_since) {
            (true, None) => {
                "WITH f AS MATERIALIZED (SELECT s.created_at, s.id FROM user_search s WHERE s.project_id = $1 \
                 AND (s.begin_1 BETWEEN $2 AND $2 || chr(1114111) OR s.begin_2 BETWEEN $2 AND $2 || chr(1114111) \
                 OR s.begin_3 BETWEEN $2 AND $2 || chr(1114111)) AND $3::timestamptz IS NULL LIMIT 10001) \
                 SELECT n.count, p.created_at, p.id FROM (SELECT count(*) FROM f) n LEFT JOIN LATERAL (SELECT * \
                 FROM f WHERE (f.created_at, f.id) < ($4, $5) ORDER BY f.created_at DESC, f.id DESC OFFSET $6 \
                 LIMIT $7) p ON true"
            }
            (true, Some((true, _))) => {
                "WITH f AS MATERIALIZED (SELECT s.created_at, s.id FROM user_search s JOIN users u \
                 ON u.project_id = s.project_id AND u.id = s.id WHERE s.project_id = $1 \
                 AND (s.begin_1 BETWEEN $2 AND $2 || chr(1114111) OR s.begin_2 BETWEEN $2 AND $2 || chr(1114111) \
                 OR s.begin_3 BETWEEN $2 AND $2 || chr(1114111)) AND u.last_seen_at >= $3 LIMIT 10001) \
                 SELECT n.count, p.created_at, p.id FROM (SELECT count(*) FROM f) n LEFT JOIN LATERAL (SELECT * \
                 FROM f WHERE (f.created_at, f.id) < ($4, $5) ORDER BY f.created_at DESC, f.id DESC OFFSET $6 \
                 LIMIT $7) p ON true"
            }
            (true, Some((false, _))) => {
                "WITH f AS MATERIALIZED (SELECT s.created_at, s.id FROM user_search s JOIN users u \
                 ON u.project_id = s.project_id AND u.id = s.id WHERE s.project_id = $1 \
                 AND (s.begin_1 BETWEEN $2 AND $2 || chr(1114111) OR s.begin_2 BETWEEN $2 AND $2 || chr(1114111) \
                 OR s.begin_3 BETWEEN $2 AND $2 || chr(1114111)) AND u.last_seen_at < $3 LIMIT 10001) \
                 SELECT n.count, p.created_at, p.id FROM (SELECT count(*) FROM f) n LEFT JOIN LATERAL (SELECT * \
                 FROM f WHERE (f.created_at, f.id) < ($4, $5) ORDER BY f.created_at DESC, f.id DESC OFFSET $6 \
                 LIMIT $7) p ON true"
            }
            (false, None) => {
                "WITH f AS MATERIALIZED (SELECT s.created_at, s.id FROM user_search s \
                 WHERE s.project_id::text = $1::uuid::text AND s.text LIKE $2 AND $3::timestamptz IS NULL \
                 LIMIT 10001) SELECT n.count, p.created_at, p.id FROM (SELECT count(*) FROM f) n LEFT JOIN LATERAL \
                 (SELECT * FROM f WHERE (f.created_at, f.id) < ($4, $5) \
                 ORDER BY f.created_at DESC, f.id DESC OFFSET $6 LIMIT $7) p ON true"
            }
            (false, Some((true, _))) => {
                "WITH f AS MATERIALIZED (SELECT s.created_at, s.id FROM user_search s JOIN users u \
                 ON u.project_id = s.project_id AND u.id = s.id WHERE s.project_id::text = $1::uuid::text \
                 AND s.text LIKE $2 AND u.last_seen_at >= $3 LIMIT 10001) SELECT n.count, p.created_at, p.id FROM \
                 (SELECT count(*) FROM f) n LEFT JOIN LATERAL (SELECT * FROM f WHERE (f.created_at, f.id) < ($4, $5) \
                 ORDER BY f.created_at DESC, f.id DESC OFFSET $6 LIMIT $7) p ON true"
            }
            (false, Some((false, _))) => {
                "WITH f AS MATERIALIZED (SELECT s.created_at, s.id FROM user_search s JOIN users u \
                 ON u.project_id = s.project_id AND u.id = s.id WHERE s.project_id::text = $1::uuid::text \
                 AND s.text LIKE $2 AND u.last_seen_at < $3 LIMIT 10001) SELECT n.count, p.created_at, p.id FROM \
                 (SELECT count(*) FROM f) n LEFT JOIN LATERAL (SELECT * FROM f WHERE (f.created_at, f.id) < ($4, $5) \
                 ORDER BY f.created_at DESC, f.id DESC OFFSET $6 LIMIT $7) p ON true"
            }
        };
        let tx = Pin::Bitmap.begin(db).await?;
        let rows = self.part(&tx, sql, &text).await?;
        tx.commit().await?;
        counted_page(&rows)
    }

    async fn part(&self, tx: &Transaction<'_>, sql: &str, text: &str) -> Result<Vec<Row>, StoreError> {
        let (at, id) = behind(self.start);
        let statement = tx.prepare_cached(sql).await?;
        let offset = self.start.offset();
        Ok(tx.query(&statement, &[&self.project, &text, &self.time(), &at, &id, &offset, &self.limit]).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_has_a_beginning() {
        let text = text_of(Some("U-1"), None, Some("Ünal\u{1}Öz")).unwrap();
        assert_eq!(text, "\u{1}u-1\u{1}ünal öz");
        assert_eq!(text_of(None, None, None), None);
        assert!(is_from_the_start("ün") && !is_from_the_start("üna"));
    }
}
