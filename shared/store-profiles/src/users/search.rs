//! The search index of users: one row for each user who has an external ID, an email address or a name.

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use tokio_postgres::{Row, Statement};
use uuid::Uuid;

use super::position::{FoundPage, ListPosition, counted_page, start_position};
use super::record::ProjectUserId;
use database::StoreError;
use database::by_project::{self, ByProject};
use database::filter::{ForcedPlan, MAX_COUNTED, PageStart, Total, like_pattern};
use kernel::ids::ProjectId;

/// Separator before each text, so that a prefix search is a substring search in the whole.
const SEPARATOR: char = '\u{1}';
/// Number of newest users scanned before the trigram index is used.
const SCAN_LIMIT: i64 = 2_000;
/// If at least one in `MIN_SHARE_DIVISOR` scanned users matches, matches are counted by a scan: the trigram index
/// would read all matches before it returns the first.
const MIN_SHARE_DIVISOR: i64 = 10;

/// Returns the string to search for in the texts; none if it cannot match. The search must be in lower case.
pub(super) fn needle(text: &str) -> Option<String> {
    (!text.contains(SEPARATOR))
        .then(|| if is_prefix_search(text) { format!("{SEPARATOR}{text}") } else { text.to_owned() })
}

/// Reports whether a search matches only at the start of a text. One or two characters occur in most texts.
fn is_prefix_search(text: &str) -> bool {
    text.chars().count() <= 2
}

/// Returns a user's text as stored, in lower case; none if all parts are missing.
pub fn index_text(external_id: Option<&str>, email: Option<&str>, name: Option<&str>) -> Option<String> {
    let mut text = String::new();
    for part in [external_id, email, name].into_iter().flatten() {
        text.push(SEPARATOR);
        text.push_str(&part.to_lowercase().replace(SEPARATOR, " "));
    }
    (!text.is_empty()).then_some(text)
}

/// Stores users' texts that are new or have changed. The users must exist; keys must be sorted and unique.
pub async fn put(tx: &Transaction<'_>, users: &[(ProjectUserId, String)]) -> Result<(), StoreError> {
    let sql = ByProject::new(
        "INSERT INTO user_search (project_id, id, created_at, text) SELECT u.project_id, u.id, u.created_at, v.t \
         FROM unnest($1::uuid[], $2::uuid[], $3::text[]) AS v(p, i, t) JOIN users u ON u.project_id = v.p \
         AND u.id = v.i ORDER BY u.project_id, u.id ON CONFLICT (project_id, id) DO UPDATE SET text = excluded.text \
         WHERE user_search.text <> excluded.text",
        &["v.p"],
    );
    let write = async |statement: Statement, part: &[(ProjectUserId, String)]| {
        let (projects, ids): (Vec<ProjectId>, Vec<Uuid>) = part.iter().map(|(key, _)| *key).unzip();
        let texts: Vec<&str> = part.iter().map(|(_, text)| text.as_str()).collect();
        Ok(tx.execute(&statement, &[&projects, &ids, &texts]).await?)
    };
    by_project::each(tx, users, |(key, _)| key.0, sql, write).await?;
    Ok(())
}

/// Stores the texts of all users who have none, for tables that were filled by other means; returns how many.
///
/// The database converts to lower case and knows fewer letters than [`index_text`].
pub async fn write_missing(db: &impl GenericClient) -> Result<u64, StoreError> {
    let sql = "INSERT INTO user_search (project_id, id, created_at, text) \
               SELECT project_id, id, created_at, coalesce(chr(1) || lower(replace(external_id, chr(1), ' ')), \
               '') || coalesce(chr(1) || lower(replace(email, chr(1), ' ')), \
               '') || coalesce(chr(1) || lower(replace(name, chr(1), ' ')), '') FROM users WHERE merged_into IS NULL \
               AND coalesce(external_id, email, name) IS NOT NULL ON CONFLICT (project_id, id) DO NOTHING";
    Ok(db.execute(sql, &[]).await?)
}

/// Removes users who were merged into other users.
pub async fn remove(tx: &Transaction<'_>, users: &[ProjectUserId]) -> Result<(), StoreError> {
    let sql = ByProject::new(
        "DELETE FROM user_search s USING unnest($1::uuid[], $2::uuid[]) AS v(p, i) WHERE s.project_id = v.p \
         AND s.id = v.i",
        &["v.p"],
    );
    let remove = async |statement: Statement, part: &[ProjectUserId]| {
        let (projects, ids): (Vec<ProjectId>, Vec<Uuid>) = part.iter().copied().unzip();
        Ok(tx.execute(&statement, &[&projects, &ids]).await?)
    };
    by_project::each(tx, users, |user| user.0, sql, remove).await?;
    Ok(())
}

/// Moves recent writes into the trigram index; until then every search scans them.
pub async fn settle_index(db: &impl GenericClient) -> Result<(), StoreError> {
    db.execute("SELECT gin_clean_pending_list('user_search_text')", &[]).await?;
    Ok(())
}

// The statements below contain these numbers.
const _: () = assert!(SCAN_LIMIT == 2_000 && MAX_COUNTED + 1 == 10_001);

/// A search and the requested page of its results.
#[derive(Debug)]
pub(super) struct Search<'a> {
    pub project: ProjectId,
    /// In lower case, not empty. One or two characters match only at the start, more anywhere.
    pub text: &'a str,
    /// Last seen at or after (true) or before (false) a time.
    pub seen_since: Option<(bool, Timestamp)>,
    /// Whether an earlier request has found more matches than totals count.
    pub is_many: bool,
    pub start: &'a PageStart<ListPosition>,
    pub limit: i64,
}

/// The result of scanning the newest users.
struct Scan {
    found: Vec<ListPosition>,
    scanned: i64,
}

impl Search<'_> {
    /// Scans from the newest user if many match, and uses the index if few do.
    pub(super) async fn run(&self, db: &mut impl GenericClient) -> Result<FoundPage, StoreError> {
        if needle(self.text).is_none() {
            return Ok(FoundPage { page: Vec::new(), total: Total::exact(0) });
        }
        let (offset, limit) = (self.start.offset(), self.limit);
        let scan = self.scan_newest(db).await?;
        let found = scan.found.len() as i64;
        let page = scan.found.into_iter().skip(offset as usize).take(limit as usize).collect();
        if scan.scanned < SCAN_LIMIT && matches!(self.start, PageStart::Offset(_)) {
            return Ok(FoundPage { page, total: Total::exact(found) });
        }
        let page = (found >= offset + limit || scan.scanned < SCAN_LIMIT).then_some(page);
        let is_many = self.is_many || self.has_many_prefix_matches(db).await?;
        let is_dense = found * MIN_SHARE_DIVISOR >= scan.scanned && scan.scanned == SCAN_LIMIT;
        if is_many || is_dense {
            let total = if is_many { Total::above_limit() } else { self.count_by_scan(db).await? };
            let page = match page {
                Some(page) => page,
                None => self.page_by_scan(db).await?,
            };
            return Ok(FoundPage { page, total });
        }
        let few = self.by_index(db).await?;
        let page = match page {
            Some(page) => page,
            None if few.total.capped => self.page_by_scan(db).await?,
            None => few.page,
        };
        Ok(FoundPage { page, total: few.total })
    }

    fn needle(&self) -> String {
        needle(self.text).unwrap_or_default()
    }

    fn time(&self) -> Option<Timestamp> {
        self.seen_since.map(|(_, time)| time)
    }

    /// Scans the newest users after the start, at most [`SCAN_LIMIT`].
    async fn scan_newest(&self, db: &impl GenericClient) -> Result<Scan, StoreError> {
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
        let (at, id) = start_position(self.start);
        let statement = db.prepare_cached(sql).await?;
        let row = db.query_one(&statement, &[&self.project, &self.needle(), &self.time(), &at, &id]).await?;
        let times: Option<Vec<Timestamp>> = row.try_get("times")?;
        let ids: Option<Vec<Uuid>> = row.try_get("ids")?;
        let found = times.into_iter().flatten().zip(ids.into_iter().flatten()).collect();
        Ok(Scan { found, scanned: row.try_get("looked_at")? })
    }

    /// Reports whether one of the three texts alone starts with the search for more users than totals count.
    ///
    /// Uses small indexes. Returns false for searches that do not match only at the start, or that filter by last
    /// activity.
    async fn has_many_prefix_matches(&self, db: &mut impl GenericClient) -> Result<bool, StoreError> {
        if !is_prefix_search(self.text) || self.seen_since.is_some() {
            return Ok(false);
        }
        // `begin_1` to `begin_3` hold the first two characters of each text; the upper bound appends the greatest code
        // point.
        let sql = "SELECT greatest((SELECT count(*) FROM (SELECT 1 FROM user_search s WHERE project_id = $1 \
                   AND s.begin_1 BETWEEN $2 AND $2 || chr(1114111) LIMIT 10001) f), (SELECT count(*) FROM (SELECT 1 \
                   FROM user_search s WHERE project_id = $1 AND s.begin_2 BETWEEN $2 AND $2 || chr(1114111) \
                   LIMIT 10001) f), (SELECT count(*) FROM (SELECT 1 FROM user_search s WHERE project_id = $1 \
                   AND s.begin_3 BETWEEN $2 AND $2 || chr(1114111) LIMIT 10001) f)) AS most";
        let tx = ForcedPlan::Indexed.begin(db).await?;
        let max: i64 =
            tx.query_one(&tx.prepare_cached(sql).await?, &[&self.project, &self.text]).await?.try_get("most")?;
        tx.commit().await?;
        Ok(max > MAX_COUNTED)
    }

    /// Counts a frequent match by scanning from the newest user, up to one more than totals count.
    async fn count_by_scan(&self, db: &mut impl GenericClient) -> Result<Total, StoreError> {
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
        let tx = ForcedPlan::Ordered.begin(db).await?;
        let row = tx.query_one(&tx.prepare_cached(sql).await?, &[&self.project, &self.needle(), &self.time()]).await?;
        tx.commit().await?;
        Ok(Total::from_count(row.try_get("total")?))
    }

    /// Returns the page of a frequent match by scanning from the newest user.
    async fn page_by_scan(&self, db: &mut impl GenericClient) -> Result<Vec<ListPosition>, StoreError> {
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
        let tx = ForcedPlan::Ordered.begin(db).await?;
        let rows = self.query_page(&tx, sql, &self.needle()).await?;
        tx.commit().await?;
        rows.iter().map(|row| Ok((row.try_get("created_at")?, row.try_get("id")?))).collect()
    }

    /// Finds all matches, up to one more than totals count, by the trigram or prefix indexes; returns the page and the
    /// total.
    async fn by_index(&self, db: &mut impl GenericClient) -> Result<FoundPage, StoreError> {
        let is_prefix = is_prefix_search(self.text);
        let text = if is_prefix { self.text.to_owned() } else { like_pattern(&self.needle()) };
        let sql = match (is_prefix, self.seen_since) {
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
        let tx = ForcedPlan::Bitmap.begin(db).await?;
        let rows = self.query_page(&tx, sql, &text).await?;
        tx.commit().await?;
        counted_page(&rows)
    }

    async fn query_page(&self, tx: &Transaction<'_>, sql: &str, text: &str) -> Result<Vec<Row>, StoreError> {
        let (at, id) = start_position(self.start);
        let statement = tx.prepare_cached(sql).await?;
        let offset = self.start.offset();
        Ok(tx.query(&statement, &[&self.project, &text, &self.time(), &at, &id, &offset, &self.limit]).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_follows_a_separator() {
        let text = index_text(Some("U-1"), None, Some("Ünal\u{1}Öz")).unwrap();
        assert_eq!(text, "\u{1}u-1\u{1}ünal öz");
        assert_eq!(index_text(None, None, None), None);
        assert!(is_prefix_search("ün") && !is_prefix_search("üna"));
    }
}
