//! `evidence verify`: follows the chain from its first row to its last, and says where it is broken.

use super::Kept;
use crate::cli::Context;
use crate::cli::output::{CliError, Output, Progress};
use secrets::keys;
use serde_json::{Value, json};
use shared::Timestamp;
use shared::numbers::counted;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use store::StoreError;
use store::ledger::chain::{Head, Row};
use store::ledger::checkpoint::{Checkpoint, Malformed, PublicKey};
use store::ledger::checkpoint_verifier::KeyChange;
use store::ledger::proof::{ConsistencyProof, InclusionProof, PROOF_MAX};
use store::ledger::verifier::{Break, Verifier};
use store::ledger::{export, segments};

/// The facts about the ledger that a person has from another place.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// An earlier head.
    pub(super) kept: Option<Kept>,
    /// An earlier checkpoint.
    pub(super) checkpoint: Option<Checkpoint>,
    /// The keys of its checkpoints.
    pub(super) keys: Vec<PublicKey>,
}

/// The verification so far.
struct Following {
    verifier: Verifier,
    // The number of the row that is believed.
    before: i64,
    known: Known,
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
    /// The rows up to this one are not those of the kept checkpoint.
    OtherRows(i64),
    /// From this row on, another key signs than the known one.
    OtherKey(i64),
    /// No checkpoint is signed with the known key, or the kept one with none of the ledger's keys.
    Unsigned(&'static str),
}

impl Following {
    fn new(output: Output, known: Known, total: Option<i64>, before: Head) -> Self {
        let verifier = Verifier::after(before);
        Self { verifier, before: before.seq, known, kept_seen: false, total, output, progress: Progress::new(output) }
    }

    fn take(&mut self, row: &Row) -> Result<(), Stopped> {
        self.verifier.take(row).map_err(Stopped::Break)?;
        if let Some(kept) = self.known.kept.filter(|kept| kept.seq == row.seq) {
            if kept.hash != row.event_hash {
                return Err(Stopped::Rewritten);
            }
            self.kept_seen = true;
        }
        if let Some(kept) = self.known.checkpoint.as_ref().filter(|kept| kept.size() == row.seq)
            && self.verifier.checkpoints().tree().is_none_or(|tree| tree.root() != kept.root())
        {
            return Err(Stopped::OtherRows(row.seq));
        }
        let of = || self.total.map(|total| format!(" of {total}")).unwrap_or_default();
        self.progress.report(|| format!("verified {}{} rows …", row.seq, of()));
        Ok(())
    }

    /// Checks the end against everything that is known.
    fn end(&self) -> Result<(), Stopped> {
        let found = self.verifier.head().seq;
        let short = |expected| Err(Stopped::Break(Break::Short { found, expected }));
        let keys = self.verifier.checkpoints().keys();
        if let Some(kept) = self.known.kept.filter(|_| !self.kept_seen) {
            return short(kept.seq);
        }
        if let Some(kept) = &self.known.checkpoint {
            if kept.size() > found {
                return short(kept.size());
            }
            if !keys.iter().any(|change| kept.is_signed_by(&change.key)) {
                return Err(Stopped::Unsigned("no checkpoint of the ledger has the key of the kept checkpoint"));
            }
        }
        if self.known.keys.is_empty() {
            return Ok(());
        }
        let is_known = |change: &&KeyChange| self.known.keys.contains(&change.key);
        let mut later = keys.iter().skip_while(|change| !is_known(change));
        if later.next().is_none() {
            return Err(Stopped::Unsigned("no checkpoint is signed with a key of --key"));
        }
        let other = later.find(|change| change.is_endorsed != Some(true) && !is_known(change));
        other.map_or(Ok(()), |change| Err(Stopped::OtherKey(change.seq)))
    }

    /// The number of the row after the last good one.
    fn next(&self) -> i64 {
        self.verifier.head().seq + 1
    }

    fn finish(self, result: Result<(), Stopped>) -> Result<(), CliError> {
        let result = result.and_then(|()| self.end());
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
            "checkpoint": self.checkpoint(),
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
            let rows = counted(head.seq - self.before, "row", "rows");
            let from = if self.before == 0 { String::new() } else { format!(" from row {}", self.before + 1) };
            let checkpoints = self.checkpoints();
            format!("The evidence is intact{from}: {rows}, head {}:{}. {open}{checkpoints}", head.seq, head.hash)
        });
    }

    /// The last checkpoint, and the key that signed it.
    fn checkpoint(&self) -> Value {
        let checkpoints = self.verifier.checkpoints();
        let keys = checkpoints.keys();
        let is_endorsed = match keys.iter().map(|change| change.is_endorsed).min() {
            Some(Some(true)) => json!(true),
            Some(Some(false)) => json!(false),
            Some(None) | None => Value::Null,
        };
        let (key, head) = (keys.last().map(|change| change.key.to_string()), self.verifier.head().seq);
        checkpoints.latest().map_or(Value::Null, |(row, latest)| {
            json!({ "row": row, "size": latest.size(), "unsigned": head - row, "key": key, "endorsed": is_endorsed })
        })
    }

    fn checkpoints(&self) -> String {
        let checkpoints = self.verifier.checkpoints();
        let Some((row, latest)) = checkpoints.latest() else { return String::new() };
        let mut text =
            format!("\nThe last checkpoint is row {row} and covers {}.", counted(latest.size(), "row", "rows"));
        match checkpoints.keys().last() {
            Some(_) if !self.known.keys.is_empty() => {
                text.push_str(" Its key is one of --key, or a key of --key endorses it.");
            }
            Some(change) => {
                write!(text, " Compare its key with the one that you keep elsewhere: {}", change.key).ok();
            }
            None => text.push_str(" Its signature is not verified, because its key is named in an earlier row."),
        }
        let unsigned = self.verifier.head().seq - row;
        if unsigned > 0 {
            write!(text, "\nNo signature covers the {} after it.", counted(unsigned, "row", "rows")).ok();
        }
        for change in checkpoints.keys().iter().filter(|change| change.is_endorsed == Some(false)) {
            let seq = change.seq;
            write!(text, "\nFrom row {seq} on, a new key signs, and the earlier key does not endorse it.").ok();
        }
        text
    }

    fn broken(&self, stopped: &Stopped) -> CliError {
        if let Stopped::Unsigned(fault) = stopped {
            return CliError::failed(format!("the rows are linked, but {fault}; compare the ledger with a backup"))
                .with("ok", false);
        }
        let (bad, reason) = match stopped {
            Stopped::Break(fault) => (fault.row(), fault.to_string()),
            Stopped::Unreadable(fault) => (self.next(), format!("row {} cannot be read: {fault}", self.next())),
            Stopped::OtherRows(seq) => {
                (*seq, format!("the first {seq} rows are not those of the kept checkpoint: the chain was rewritten"))
            }
            Stopped::OtherKey(seq) => {
                let reason = "the checkpoints are signed with a key that the earlier key does not endorse";
                (*seq, format!("from row {seq} on, {reason}"))
            }
            Stopped::Unsigned(fault) => (self.next(), fault.to_string()),
            Stopped::Rewritten => {
                let seq = self.known.kept.map_or(0, |kept| kept.seq);
                (seq, format!("row {seq} is not the row whose hash was kept: the chain was rewritten"))
            }
        };
        let good = (bad - 1 - self.before).max(0);
        CliError::failed(format!(
            "the evidence is broken: {reason}. The {} valid. Do not change this ledger, and compare it with a backup or an \
             export",
            counted(good, "row before it is", "rows before it are")
        ))
        .with("ok", false)
        .with("rows", good)
        .with("first_bad", bad)
    }
}

/// Verifies this home's ledger.
pub(super) fn ledger(context: &Context, known: Known, from: i64) -> Result<(), CliError> {
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
    let known = if from == 1 { with_signed(context, known)? } else { known };
    if let Some(kept) = known.kept.filter(|kept| kept.seq < from) {
        return Err(CliError::usage(format!("row {} of --kept is before row {from} of --from", kept.seq)));
    }
    let mut following = Following::new(context.output, known, total, before);
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

/// Adds the last checkpoint that this home has signed, unless another one is given. A user without the rights to the keys
/// verifies without it.
fn with_signed(context: &Context, known: Known) -> Result<Known, CliError> {
    let signed = if known.checkpoint.is_none() { keys::signed_note(&context.home).ok().flatten() } else { None };
    let Some(note) = signed else { return Ok(known) };
    let path = context.home.keys();
    let checkpoint = note
        .parse()
        .map_err(|fault: Malformed| CliError::failed(format!("{}/checkpoint.note: {fault}", path.display())))?;
    Ok(Known { checkpoint: Some(checkpoint), ..known })
}

/// Verifies an export.
pub(super) fn file(context: &Context, path: &Path, known: Known) -> Result<(), CliError> {
    let unreadable = |error: std::io::Error| CliError::usage(format!("cannot read {}: {error}", path.display()));
    let mut following = Following::new(context.output, known, None, Head::EMPTY);
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

/// Verifies the proof of one row.
pub(super) fn proof(context: &Context, path: &Path, keys: &[PublicKey]) -> Result<(), CliError> {
    let text = text(path, PROOF_MAX)?;
    let proof: InclusionProof =
        text.parse().map_err(|fault| CliError::usage(format!("{}: {fault}", path.display())))?;
    let row = &proof.row;
    proof.verify(keys).map_err(|fault| {
        CliError::failed(format!("the proof of row {} is invalid: {fault}", row.seq)).with("ok", false)
    })?;
    let size = proof.checkpoint.size();
    context.output.show(&json!({ "ok": true, "row": row, "size": size }), || {
        let (ledger, rows) = (proof.checkpoint.origin(), counted(size, "row", "rows"));
        format!("Row {} is in the ledger {ledger}, which has {rows}:\n{}", row.seq, export::line(row))
    });
    Ok(())
}

/// Verifies the proof that a ledger continues a kept checkpoint.
pub(super) fn consistency(
    context: &Context,
    path: &Path,
    kept: &Checkpoint,
    keys: &[PublicKey],
) -> Result<(), CliError> {
    let text = text(path, PROOF_MAX)?;
    let proof: ConsistencyProof =
        text.parse().map_err(|fault| CliError::usage(format!("{}: {fault}", path.display())))?;
    proof
        .verify(kept, keys)
        .map_err(|fault| CliError::failed(format!("the proof is invalid: {fault}")).with("ok", false))?;
    let (old, size) = (proof.old, proof.checkpoint.size());
    context.output.show(&json!({ "ok": true, "old": old, "size": size }), || {
        let (old, size) = (counted(old, "row", "rows"), counted(size, "row", "rows"));
        format!("The ledger {}, which has {size}, continues the kept checkpoint of {old}.", kept.origin())
    });
    Ok(())
}

/// Reads a small text file.
pub(super) fn text(path: &Path, most: usize) -> Result<String, CliError> {
    let unreadable = |error: std::io::Error| CliError::usage(format!("cannot read {}: {error}", path.display()));
    let file = File::open(path).map_err(unreadable)?;
    let mut text = String::new();
    let bound = u64::try_from(most).unwrap_or(u64::MAX);
    file.take(bound.saturating_add(1)).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() > most {
        return Err(CliError::usage(format!("{} is longer than {most} bytes", path.display())));
    }
    Ok(text)
}
