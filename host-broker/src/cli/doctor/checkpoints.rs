//! The checkpoints: whether they cover the rows, whether their key can be used, and whether the last one is kept.

use super::Finding;
use crate::assembly::checkpoint_keys::KeptCheckpoint;
use crate::cli::Context;
use platform::home::Home;
use secrets::keys::{self, KeyError};
use serde::Deserialize as _;
use serde_json::Value;
use shared::Timestamp;
use shared::numbers::counted;
use store::ledger::checkpoints::{self, Coverage, Covered};
use store::ledger::health::{Health, Verification};

const CHECK: &str = "checkpoints";

const NO_DAEMON: &str = "correct the finding `daemon` first; a running daemon signs a checkpoint each minute";
const EVIDENCE: &str = "correct the finding `evidence` first; until then, the daemon signs no checkpoint";
const NOT_VERIFIED: &str =
    "wait until the daemon has verified all rows: host-broker status; then it signs the first checkpoint";
const UNFINISHED: &str = "for the row that cannot be read: host-broker evidence verify; then: host-broker reload";
const LOGS: &str = "wait a minute, if the daemon has just started; if this stays, for the reason: host-broker logs";

pub(super) fn examine(context: &Context, hello: Option<&Value>) -> Vec<Finding> {
    // A ledger that cannot be read is a finding of its own.
    let Some(ledger) = context.ledger_if_any().ok().flatten() else { return Vec::new() };
    let coverage = match checkpoints::coverage(&ledger) {
        Ok(coverage) => coverage,
        Err(error) => return vec![Finding::error(CHECK, &error.into())],
    };
    let key = match kept(&context.home, coverage.covered.is_some()) {
        Ok(size) => stored(size, coverage.covered),
        Err(error) => {
            let remedy = "correct the file, or restore it from a backup; until then, no daemon starts";
            Finding::problem(CHECK, error.to_string(), remedy)
        }
    };
    vec![judged(&coverage, context.platform.clock.now(), hello), key]
}

/// Judges the rows without a checkpoint.
fn judged(coverage: &Coverage, now: Timestamp, hello: Option<&Value>) -> Finding {
    let Some(uncovered) = coverage.uncovered else {
        return Finding::ok(CHECK, "no row is without a checkpoint");
    };
    let text =
        format!("no checkpoint covers {}, the oldest of {}", counted(uncovered.rows, "row", "rows"), uncovered.since);
    let remedy = remedy(hello, coverage.covered.is_none());
    if coverage.is_overdue(now) {
        Finding::problem(CHECK, text, remedy)
    } else if coverage.covered.is_none() {
        Finding::warning(CHECK, text, remedy)
    } else {
        Finding::ok(CHECK, format!("{text}; the daemon signs one each minute"))
    }
}

/// Returns the remedy. Only the first checkpoint needs a verification of all rows.
fn remedy(hello: Option<&Value>, is_first: bool) -> &'static str {
    let Some(hello) = hello else { return NO_DAEMON };
    let health = hello.pointer("/data/evidence").and_then(|evidence| Health::deserialize(evidence).ok());
    let Some(Health { cannot_write, verification, .. }) = health else { return LOGS };
    if cannot_write.is_some() {
        return EVIDENCE;
    }
    match verification {
        Verification::Broken { .. } => EVIDENCE,
        Verification::Waiting | Verification::Running { .. } if is_first => NOT_VERIFIED,
        Verification::Unfinished { .. } if is_first => UNFINISHED,
        Verification::Waiting
        | Verification::Running { .. }
        | Verification::Unfinished { .. }
        | Verification::Whole { .. } => LOGS,
    }
}

/// Returns the number of rows of the checkpoint that is stored beside the keys, if there is one.
///
/// # Errors
/// [`KeyError`] if a start could not use the key or that checkpoint.
fn kept(home: &Home, has_signed: bool) -> Result<Option<i64>, KeyError> {
    if has_signed || keys::signed_note(home)?.is_some() {
        keys::present_checkpoint(home)?;
    }
    Ok(KeptCheckpoint::read(home, Vec::new())?.get().map(|kept| kept.checkpoint.size()))
}

/// Compares the last checkpoint with the one that is stored beside the keys.
fn stored(size: Option<i64>, covered: Option<Covered>) -> Finding {
    let is_stored = covered.is_none_or(|covered| size.is_some_and(|size| size >= covered.size));
    if is_stored {
        return Finding::ok(CHECK, "their key can be used");
    }
    Finding::warning(
        CHECK,
        "the last checkpoint is not stored in keys/checkpoint.note, so a replaced ledger may not be found",
        "the daemon stores the next one there; if it cannot, for the reason: host-broker logs",
    )
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;
    use serde_json::json;
    use std::time::Duration;
    use store::ledger::checkpoints::{OVERDUE, Uncovered};
    use store::ledger::health::{CannotWrite, Reason};

    const SINCE: Timestamp = Timestamp::from_millis(1_000_000);
    const COVERED: Covered = Covered { size: 12, at: Some(SINCE) };

    fn found(covered: Option<Covered>, rows: i64, after: Duration) -> Finding {
        let uncovered = (rows > 0).then_some(Uncovered { rows, since: SINCE });
        judged(&Coverage { covered, uncovered }, SINCE.plus(after), None)
    }

    #[test]
    fn old_rows_without_a_checkpoint_are_a_problem_and_young_ones_only_if_there_is_no_checkpoint() {
        let past = OVERDUE + Duration::from_millis(1);
        let state = |covered, rows, after| found(covered, rows, after).state;
        assert_eq!(state(Some(COVERED), 3, OVERDUE), State::Ok);
        assert_eq!([Some(COVERED), None].map(|covered| state(covered, 3, past)), [State::Problem; 2]);
        assert_eq!([Some(COVERED), None].map(|covered| state(covered, 0, past)), [State::Ok; 2]);
        assert_eq!(state(None, 1, Duration::ZERO), State::Warning);
        let finding = found(Some(COVERED), 3, past);
        assert_eq!(finding.text, format!("no checkpoint covers 3 rows, the oldest of {SINCE}"));
        assert_eq!(finding.remedy.as_deref(), Some(NO_DAEMON));
    }

    #[test]
    fn the_remedy_depends_on_the_state_of_the_evidence() {
        let of = |health: Health, is_first: bool| remedy(Some(&json!({ "data": { "evidence": health } })), is_first);
        let says =
            |verification: Verification, is_first: bool| of(Health { verification, ..Health::default() }, is_first);
        let error = || "an error".to_owned();
        assert_eq!(says(Verification::Broken { row: 1, error: error() }, false), EVIDENCE);
        assert_eq!([true, false].map(|is_first| says(Verification::Waiting, is_first)), [NOT_VERIFIED, LOGS]);
        let unfinished = |is_first| says(Verification::Unfinished { row: 1, error: error() }, is_first);
        assert_eq!([true, false].map(unfinished), [UNFINISHED, LOGS]);
        assert_eq!(says(Verification::Whole { row: 9 }, true), LOGS);
        let cannot_write = Some(CannotWrite { since: SINCE, reason: Reason::DiskFull, error: error() });
        assert_eq!(of(Health { cannot_write, ..Health::default() }, true), EVIDENCE);
        assert_eq!((remedy(None, true), remedy(Some(&json!({})), true)), (NO_DAEMON, LOGS));
    }

    #[test]
    fn a_checkpoint_that_is_not_stored_beside_the_keys_is_a_warning() {
        let state = |size| stored(size, Some(COVERED)).state;
        assert_eq!([Some(12), Some(11), None].map(state), [State::Ok, State::Warning, State::Warning]);
        assert_eq!(stored(None, None).state, State::Ok, "none was signed");
    }
}
