//! `evidence verify`: follows the chain from its first row to its last, and says where it is broken.

use super::Kept;
use crate::cli::Context;
use crate::cli::output::{CliError, Output, Progress};
use serde_json::json;
use shared::Timestamp;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use store::StoreError;
use store::ledger::chain::{Break, Head, Row, Verifier};
use store::ledger::{export, segments};

/// The verification so far.
struct Following {
    verifier: Verifier,
    // The number of the row that is believed.
    before: i64,
    kept: Option<Kept>,
    kept_seen: bool,
    // How many rows there seem to be, where that is known before they are read.
    total: Option<i64>,
    output: Output,
    progress: Progress,
}

/// Why it ended early.
enum Stopped {
    Break(Break),
    /// A row that cannot even be read.
    Unreadable(String),
    /// The chain holds another row where the kept head was.
    Rewritten,
}

impl Following {
    fn new(output: Output, kept: Option<Kept>, total: Option<i64>, before: Head) -> Self {
        let verifier = Verifier::after(before);
        Self { verifier, before: before.seq, kept, kept_seen: false, total, output, progress: Progress::new(output) }
    }

    fn take(&mut self, row: &Row) -> Result<(), Stopped> {
        self.verifier.take(row).map_err(Stopped::Break)?;
        if let Some(kept) = self.kept.filter(|kept| kept.seq == row.seq) {
            if kept.hash != row.event_hash {
                return Err(Stopped::Rewritten);
            }
            self.kept_seen = true;
        }
        let of = || self.total.map(|total| format!(" of {total}")).unwrap_or_default();
        self.progress.report(|| format!("verified {}{} rows …", row.seq, of()));
        Ok(())
    }

    /// The number of the row after the last good one.
    fn next(&self) -> i64 {
        self.verifier.head().seq + 1
    }

    fn finish(self, result: Result<(), Stopped>) -> Result<(), CliError> {
        let head = self.verifier.head();
        let result = match (result, self.kept) {
            (Ok(()), Some(kept)) if !self.kept_seen => {
                Err(Stopped::Break(Break::Short { found: head.seq, expected: kept.seq }))
            }
            (result, _) => result,
        };
        match result {
            Ok(()) => {
                self.whole();
                Ok(())
            }
            Err(stopped) => Err(self.broken(&stopped)),
        }
    }

    fn whole(&self) {
        let head = self.verifier.head();
        let open: Vec<i64> = self.verifier.open().collect();
        let time = (head.seq > 0).then(|| Timestamp::from_millis(head.ts));
        let document = json!({
            "ok": true,
            "rows": head.seq - self.before,
            "head": { "seq": head.seq, "event_hash": head.hash, "time": time },
            "open_intents": open,
        });
        self.output.show(&document, || {
            let open = match open.as_slice() {
                [] => "Every intent has an outcome.".to_owned(),
                some => {
                    let rows: Vec<_> = some.iter().map(ToString::to_string).collect();
                    format!(
                        "Intents without an outcome (running, or closed at the next start): row {}.",
                        rows.join(", ")
                    )
                }
            };
            let rows = head.seq - self.before;
            let from = if self.before == 0 { String::new() } else { format!(" from row {}", self.before + 1) };
            format!("The evidence is intact{from}: {rows} rows, head {}:{}. {open}", head.seq, head.hash)
        });
    }

    fn broken(&self, stopped: &Stopped) -> CliError {
        let (bad, reason) = match stopped {
            Stopped::Break(fault) => (fault.row(), fault.to_string()),
            Stopped::Unreadable(fault) => (self.next(), format!("row {} cannot be read: {fault}", self.next())),
            Stopped::Rewritten => {
                let seq = self.kept.map_or(0, |kept| kept.seq);
                (seq, format!("row {seq} is not the row whose hash was kept: the chain was rewritten"))
            }
        };
        let good = (bad - 1 - self.before).max(0);
        CliError::failed(format!(
            "the evidence is broken: {reason}. The {good} rows before it are valid. Do not change this ledger, and \
             compare it with a backup or an export"
        ))
        .with("ok", false)
        .with("rows", good)
        .with("first_bad", bad)
    }
}

/// Verifies this home's ledger.
pub(super) fn ledger(context: &Context, kept: Option<Kept>, from: i64) -> Result<(), CliError> {
    let ledger = context.ledger()?;
    let total = export::last(&ledger).ok().flatten().map(|row| row.seq);
    let Some(before) = segments::before(&ledger, from)? else {
        let starts: Vec<String> = segments::list(&ledger)?.iter().map(|segment| segment.first.to_string()).collect();
        let place = match starts.as_slice() {
            [] => "does not exist; the ledger has no segment, so omit --from".to_owned(),
            starts => {
                let starts = starts.join(", ");
                format!("is in the middle of a segment or does not exist; a segment begins with row {starts}")
            }
        };
        return Err(CliError::usage(format!("row {from} {place}")));
    };
    if let Some(kept) = kept.filter(|kept| kept.seq < from) {
        return Err(CliError::usage(format!("row {} of --kept is before row {from} of --from", kept.seq)));
    }
    let mut following = Following::new(context.output, kept, total, before);
    let mut stopped = Ok(());
    // From the first row on, rows with impossible numbers are found, too.
    let begin = if from == 1 { i64::MIN } else { from };
    let read = segments::each(context.home.path(), &ledger, begin, |row| {
        stopped = following.take(&row);
        // Any error ends the reading; which one it was is in `stopped`.
        if stopped.is_ok() { Ok(()) } else { Err(StoreError::Stored { what: "row" }) }
    });
    match read.and_then(|()| segments::verify_copies(&ledger)) {
        Ok(()) => following.finish(stopped),
        Err(_) if stopped.is_err() => following.finish(stopped),
        // A column of an impossible type shows that another program changed the row.
        Err(StoreError::Broken(fault)) => following.finish(Err(Stopped::Break(fault))),
        Err(error) => Err(error.into()),
    }
}

/// Verifies an export.
pub(super) fn file(context: &Context, path: &Path, kept: Option<Kept>) -> Result<(), CliError> {
    let unreadable = |error: std::io::Error| CliError::usage(format!("cannot read {}: {error}", path.display()));
    let mut following = Following::new(context.output, kept, None, Head::EMPTY);
    for line in BufReader::new(File::open(path).map_err(unreadable)?).lines() {
        let taken = match line {
            Ok(line) => match export::parse_line(&line) {
                Ok(row) => following.take(&row),
                Err(fault) => Err(Stopped::Unreadable(fault.to_string())),
            },
            // Not text; anything else is the file's fault and not the evidence's.
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                Err(Stopped::Unreadable(error.to_string()))
            }
            Err(error) => return Err(unreadable(error)),
        };
        if taken.is_err() {
            return following.finish(taken);
        }
    }
    following.finish(Ok(()))
}
