//! The line of the last checkpoint, and the warning about rows that no checkpoint covers.

use crate::cli::output::ago;
use model::errors::chain;
use serde_json::{Value, json};
use shared::Timestamp;
use shared::numbers::counted;
use store::ledger::checkpoints::{self, Coverage, Covered, Uncovered};
use store::{StoreError, View};

/// The coverage of the ledger by checkpoints, or the error of its read. `None` if there is no ledger.
#[derive(Default)]
pub(super) struct Checkpoints(Option<Result<Coverage, StoreError>>);

impl Checkpoints {
    /// Reads it. An error is a part of the page, so that the rest is shown.
    pub(super) fn read(view: &View) -> Self {
        Self(Some(checkpoints::coverage(view)))
    }

    fn coverage(&self) -> Option<&Coverage> {
        self.0.as_ref()?.as_ref().ok()
    }

    fn covered(&self) -> Option<Covered> {
        self.coverage()?.covered
    }

    fn uncovered(&self) -> Option<Uncovered> {
        self.coverage()?.uncovered
    }

    /// Returns the document; null if there is no ledger.
    pub(super) fn document(&self, now: Timestamp) -> Value {
        if self.0.is_none() {
            return Value::Null;
        }
        let (covered, uncovered) = (self.covered(), self.uncovered());
        json!({
            "row": covered.map(|covered| covered.size.saturating_add(1)),
            "size": covered.map(|covered| covered.size),
            "time": covered.and_then(|covered| covered.at),
            "uncovered": self.coverage().map(|_known| uncovered.map_or(0, |uncovered| uncovered.rows)),
            "uncovered_since": uncovered.map(|uncovered| uncovered.since),
            "warning": self.warning(now),
        })
    }

    /// Returns the lines of the page.
    pub(super) fn text(&self, now: Timestamp) -> String {
        let mut text = String::new();
        for line in self.line(now).into_iter().chain(self.warning(now)) {
            text.push_str("\n        ");
            text.push_str(&line);
        }
        text
    }

    fn line(&self, now: Timestamp) -> Option<String> {
        let Covered { size, at } = self.covered()?;
        let signed = at.map_or_else(|| "more than a day ago".to_owned(), |at| ago(now.since(at)));
        let after = self.uncovered().map_or(0, |uncovered| uncovered.rows);
        let [size, after] = [size, after].map(|rows| counted(rows, "row", "rows"));
        Some(format!("checkpoint: {size} signed {signed}, {after} after it"))
    }

    /// Returns the warning. A ledger without any checkpoint gets one at once.
    fn warning(&self, now: Timestamp) -> Option<String> {
        let coverage = match self.0.as_ref()? {
            Ok(coverage) => coverage,
            Err(error) => return Some(format!("THE LAST CHECKPOINT CANNOT BE READ: {}", chain(error))),
        };
        let uncovered = coverage.uncovered?;
        let rows = counted(uncovered.rows, "row", "rows");
        if coverage.is_overdue(now) {
            let since = uncovered.since;
            return Some(format!(
                "NO CHECKPOINT covers {rows}, the oldest of {since}; for the remedy: host-broker doctor"
            ));
        }
        let is_first = coverage.covered.is_none();
        is_first.then(|| format!("no checkpoint covers {rows} yet; a running daemon signs one each minute"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use store::ledger::checkpoints::OVERDUE;

    const SINCE: Timestamp = Timestamp::from_millis(1_000_000);
    const COVERED: Covered = Covered { size: 12, at: Some(SINCE) };

    fn page(covered: Option<Covered>, rows: i64) -> Checkpoints {
        let uncovered = (rows > 0).then_some(Uncovered { rows, since: SINCE });
        Checkpoints(Some(Ok(Coverage { covered, uncovered })))
    }

    #[test]
    fn rows_without_a_checkpoint_are_a_warning_once_they_are_old_and_at_once_if_there_is_none() {
        let (limit, past) = (SINCE.plus(OVERDUE), SINCE.plus(OVERDUE + Duration::from_millis(1)));
        assert_eq!(page(Some(COVERED), 3).warning(limit), None);
        let old = page(Some(COVERED), 3).warning(past).unwrap();
        assert_eq!(
            old,
            format!("NO CHECKPOINT covers 3 rows, the oldest of {SINCE}; for the remedy: host-broker doctor")
        );
        assert_eq!(page(Some(COVERED), 0).warning(past), None, "all rows are covered");
        assert_eq!(page(None, 0).warning(past), None, "there are no rows");
        let first = page(None, 1).warning(SINCE).unwrap();
        assert_eq!(first, "no checkpoint covers 1 row yet; a running daemon signs one each minute");
        assert!(page(None, 1).warning(past).unwrap().starts_with("NO CHECKPOINT covers 1 row,"));
        let unread = Checkpoints(Some(Err(StoreError::Stored { what: "row" })));
        assert!(unread.warning(SINCE).unwrap().contains("the ledger holds a row that cannot be read"));
        assert_eq!((&unread.document(SINCE)["uncovered"], Checkpoints(None).warning(past)), (&Value::Null, None));
    }

    #[test]
    fn the_line_has_the_rows_the_age_and_the_rows_after_it() {
        let text = |covered: Covered, rows: i64, after: u64| {
            page(Some(covered), rows).text(SINCE.plus(Duration::from_secs(after)))
        };
        assert_eq!(text(COVERED, 1, 59), "\n        checkpoint: 12 rows signed less than a minute ago, 1 row after it");
        for (seconds, age) in [(60, "1 min"), (3_599, "59 min"), (3_600, "1 h"), (86_399, "23 h"), (172_800, "2 d")] {
            let line = format!("\n        checkpoint: 12 rows signed {age} ago, 0 rows after it");
            assert_eq!(text(COVERED, 0, seconds), line);
        }
        let rotated = text(Covered { at: None, ..COVERED }, 0, 0);
        assert!(rotated.contains("signed more than a day ago, "), "{rotated}");
    }
}
