//! Segments: files that hold the oldest rows of the chain, one part each, when the database has become large.
//!
//! ```text
//! HOME/segments/000000000001-000000050000.jsonl.gz   rows 1 to 50,000, as `evidence export` writes them
//! HOME/segments/000000050001-000000100000.jsonl.gz
//! HOME/ledger.db                                     the rows from 100,001 on
//! ```
//! A thread beside the loop writes a segment, syncs it, reads it back and verifies it. Only then does the loop append a
//! row `rotated`, which names the segment and its digest, and deletes the rows a few at a time. A crash at any point
//! leaves each row in the database, in a segment, or in both.

use crate::Transaction;
use crate::View;
use crate::ledger::chain::{Draft, Head, Row, RowKind};
use crate::ledger::export;
use crate::ledger::verifier::{Break, Verifier};
use crate::state::intents;
use crate::{StoreError, at, open};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use rusqlite::{OptionalExtension as _, params};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use shared::digest::Digest;
use shared::{Timestamp, limits};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{BufRead as _, BufReader, BufWriter, Error, ErrorKind, Read, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The directory of segments in the home.
pub const DIRECTORY: &str = "segments";
/// The number of rows in one segment.
pub const ROWS: i64 = 50_000;
/// The most rows that are deleted at once, so that the loop does not block: two milliseconds of work if the pages of
/// the database are in memory.
const DELETED_MAX: usize = 500;
/// The time of a deletion if they are not in memory. Every so many rows the deletion checks the time.
const DELETION: Duration = Duration::from_millis(3);
const DELETED_STEP: i64 = 10;
/// The most rows that are read in one transaction: SQLite cannot restart its log while a reader is active.
const READ_MAX: usize = 1_000;

/// A part of the chain that is stored in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// The number of its first row.
    pub first: i64,
    /// Its last row.
    pub last: Head,
}

/// A segment that was written and verified, and that no row names yet.
#[derive(Debug, Clone)]
pub struct Written {
    segment: Segment,
    sha256: Digest,
    bytes: u64,
}

/// Rows that may go into a segment now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// The row before the first one.
    pub after: Head,
    /// The number of the last one.
    pub last: i64,
}

impl Segment {
    /// Returns the name of its file.
    pub fn name(&self) -> String {
        format!("{:012}-{:012}.jsonl.gz", self.first, self.last.seq)
    }

    /// Returns the path of its file.
    pub fn path(&self, home: &Path) -> PathBuf {
        home.join(DIRECTORY).join(self.name())
    }

    /// Calls `each` with every row, in order.
    ///
    /// # Errors
    /// [`StoreError::Segment`] if the file cannot be read to its end, or the error of `each`.
    pub fn each<E: From<StoreError>>(&self, home: &Path, mut each: impl FnMut(Row) -> Result<(), E>) -> Result<(), E> {
        let path = self.path(home);
        let failed =
            |source| StoreError::Segment { path: path.clone(), first: self.first, last: self.last.seq, source };
        let lines = BufReader::new(GzDecoder::new(File::open(&path).map_err(failed)?)).lines();
        let mut next = self.first;
        for line in lines {
            let row = export::parse_line(&line.map_err(failed)?).map_err(|fault| failed(fault.into()))?;
            next = row.seq.saturating_add(1);
            each(row)?;
        }
        // The chain shows a row that is wrong, but not that the last ones are missing.
        let expected = self.last.seq.saturating_add(1);
        if next == expected { Ok(()) } else { Err(failed(Error::new(ErrorKind::UnexpectedEof, "it is cut")).into()) }
    }
}

/// Returns the segments, oldest first.
///
/// # Errors
/// [`StoreError`] if they cannot be read.
pub fn list(view: &View) -> Result<Vec<Segment>, StoreError> {
    view.prepare("SELECT first, last, last_hash, last_ts FROM segments ORDER BY first")
        .and_then(|mut s| s.query_map([], read)?.collect())
        .map_err(at("list the segments"))
}

/// Returns the newest segment.
fn newest(view: &View) -> Result<Option<Segment>, StoreError> {
    view.prepare_cached("SELECT first, last, last_hash, last_ts FROM segments ORDER BY first DESC LIMIT 1")
        .and_then(|mut s| s.query_row([], read).optional())
        .map_err(at("look for the newest segment"))
}

fn read(row: &rusqlite::Row<'_>) -> Result<Segment, rusqlite::Error> {
    let last = Head { seq: row.get(1)?, hash: Digest::from_bytes(row.get(2)?), ts: row.get(3)? };
    Ok(Segment { first: row.get(0)?, last })
}

/// Returns the last row that is in a segment; [`Head::EMPTY`] if there is none.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn end(view: &View) -> Result<Head, StoreError> {
    Ok(newest(view)?.map_or(Head::EMPTY, |segment| segment.last))
}

/// Calls `each` with every present row from this number on, in order: those in segments first.
///
/// # Errors
/// [`StoreError`] if a row cannot be read, or the error of `each`.
pub fn each(
    home: &Path,
    view: &View,
    from: i64,
    each: impl FnMut(Row) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let last: Option<i64> =
        view.query_row("SELECT max(seq) FROM ledger", [], |row| row.get(0)).map_err(at("look for the last row"))?;
    between(home, view, from, last.unwrap_or(0), each)
}

/// Calls `each` with every row from this number to that one, in order: those in segments first. No transaction is open
/// while `each` runs, because SQLite cannot restart its log during one.
///
/// # Errors
/// As [`each`].
pub fn between<E: From<StoreError>>(
    home: &Path,
    view: &View,
    from: i64,
    to: i64,
    mut each: impl FnMut(Row) -> Result<(), E>,
) -> Result<(), E> {
    let mut next = from;
    loop {
        for segment in list(view)?.into_iter().filter(|segment| segment.first <= to) {
            if segment.last.seq >= next {
                segment.each(home, |row| if (next..=to).contains(&row.seq) { each(row) } else { Ok(()) })?;
                next = segment.last.seq.saturating_add(1);
            }
        }
        loop {
            if next > to {
                return Ok(());
            }
            let (rows, error) = export::some(view, next, to, READ_MAX);
            // The daemon deletes rows that went into a segment during the read.
            let begins_late = rows.first().is_none_or(|row| row.seq != next);
            if begins_late && list(view)?.iter().any(|segment| segment.first <= to && segment.last.seq >= next) {
                break;
            }
            let is_over = rows.is_empty();
            for row in rows {
                next = row.seq.saturating_add(1);
                each(row)?;
            }
            match error {
                Some(error) => return Err(error.into()),
                None if is_over => return Ok(()),
                None => {}
            }
        }
    }
}

/// Verifies the rows that are in a segment and still in the database: each follows from the one before, up to the last
/// row of the newest segment.
///
/// # Errors
/// [`StoreError::Broken`] at the first that is wrong, or another one if they cannot be read.
pub fn verify_copies(view: &View) -> Result<(), StoreError> {
    let Some(end) = list(view)?.last().map(|segment| segment.last) else { return Ok(()) };
    let mut verifier = None;
    export::between(view, i64::MIN, end.seq, |row| {
        if row.seq < 1 {
            return Err(Break::Gap { expected: 1, found: row.seq }.into());
        }
        let before = Head { seq: row.seq - 1, hash: row.prev_hash, ts: row.ts };
        verifier.get_or_insert_with(|| Verifier::after(before)).take(&row).map_err(StoreError::from)
    })?;
    match verifier.map(|verifier| verifier.head()) {
        // The hash of the last row covers every row before it.
        Some(found) if found != end => Err(Break::Link { seq: found.seq + 1 }.into()),
        Some(_) | None => Ok(()),
    }
}

/// Returns the row before this number, if the chain can be followed from there: it is in the database or ends a
/// segment.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn before(view: &View, from: i64) -> Result<Option<Head>, StoreError> {
    const ENDS: &str =
        "SELECT first, last, last_hash, last_ts FROM segments WHERE first < ?1 ORDER BY first DESC LIMIT 1";
    if from <= 1 {
        return Ok(Some(Head::EMPTY));
    }
    let segment = view
        .prepare_cached(ENDS)
        .and_then(|mut s| s.query_row(params![from], read).optional())
        .map_err(at("look for a segment"))?;
    if let Some(segment) = segment.filter(|segment| segment.last.seq == from - 1) {
        return Ok(Some(segment.last));
    }
    let row = export::row(view, from - 1)?;
    Ok(row.map(|row| Head { seq: row.seq, hash: row.event_hash, ts: row.ts }))
}

/// Returns the rows that go into the next segment, if the database holds more bytes than this: so many of the oldest
/// rows. They are a day old, and nothing that is still open refers to them.
///
/// # Errors
/// [`StoreError`] if the ledger cannot be read.
pub fn due(view: &View, now: Timestamp, bytes: u64, rows: i64) -> Result<Option<Due>, StoreError> {
    // These are all rows that may still be looked up: effects under way, approval requests, outcomes that are probed,
    // replies, and withheld results. An approval request that is never closed does not block rotation permanently.
    const NEEDED: &str = "SELECT min(seq) FROM (
        SELECT min(seq) AS seq FROM open_intents
        UNION ALL SELECT min(asked_seq) FROM approvals WHERE state <> 'closed' AND expires_at > ?1
        UNION ALL SELECT min(seq) FROM unknown_outcomes WHERE since > ?1
        UNION ALL SELECT min(seq) FROM replies
        UNION ALL SELECT min(seq) FROM quarantine)";
    if used(view)? <= bytes {
        return Ok(None);
    }
    let after = end(view)?;
    if has_deletable(view)? {
        return Ok(None);
    }
    let last = after.seq.saturating_add(rows);
    let Some(row) = export::row(view, last)? else { return Ok(None) };
    let needed: Option<i64> = view
        .prepare_cached(NEEDED)
        .and_then(|mut s| s.query_row(params![now.minus(intents::ASKED_FOR).millis()], |row| row.get(0)))
        .map_err(at("look for rows that are needed"))?;
    // The last row of the chain stays: the next one is linked to it.
    let is_last = open::head(view)?.seq <= last;
    let is_old = row.time() < now.minus(limits::REPEAT_KEEP);
    Ok((is_old && !is_last && needed.is_none_or(|needed| needed > last)).then_some(Due { after, last }))
}

/// Returns the bytes that the database uses, without its free pages.
pub(super) fn used(view: &View) -> Result<u64, StoreError> {
    let pragma = |name: &str| -> Result<u64, rusqlite::Error> {
        let number: i64 = view.query_row(&format!("PRAGMA {name}"), [], |row| row.get(0))?;
        Ok(u64::try_from(number).unwrap_or(0))
    };
    let bytes =
        || Ok(pragma("page_count")?.saturating_sub(pragma("freelist_count")?).saturating_mul(pragma("page_size")?));
    bytes().map_err(at("measure the ledger"))
}

/// Writes the segment: the file is complete, synced and verified when this returns.
///
/// # Errors
/// [`StoreError`]; the file may be there, no row names it, and the next try writes it again.
pub fn write(home: &Path, due: Due) -> Result<Written, StoreError> {
    let directory = home.join(DIRECTORY);
    let (first, last) = (due.after.seq + 1, due.last);
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| StoreError::Segment { path, first, last, source }
    };
    match DirBuilder::new().mode(0o700).create(&directory) {
        Ok(()) => File::open(home).and_then(|home| home.sync_all()).map_err(failed(&directory))?,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(failed(&directory)(error)),
    }
    // One name for every try, so that a try that was killed leaves one file at most.
    let draft = directory.join("next.tmp");
    let head = write_draft(home, &draft, due).inspect_err(|_failed| {
        // On a full disk its space is needed.
        std::fs::remove_file(&draft).ok();
    })?;
    let segment = Segment { first, last: head };
    let path = segment.path(home);
    std::fs::rename(&draft, &path).map_err(failed(&path))?;
    File::open(&directory).and_then(|directory| directory.sync_all()).map_err(failed(&directory))?;
    verified(home, segment, due.after)
}

/// Writes the rows to a file and syncs it. Returns the last row.
fn write_draft(home: &Path, draft: &Path, due: Due) -> Result<Head, StoreError> {
    let (first, last) = (due.after.seq + 1, due.last);
    let failed = |source| StoreError::Segment { path: draft.to_owned(), first, last, source };
    let view = open::reader(home)?;
    let mut verifier = Verifier::after(due.after);
    let file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(draft);
    let mut lines = GzEncoder::new(BufWriter::new(file.map_err(failed)?), Compression::default());
    let mut begin = first;
    while begin <= last {
        let (rows, error) = export::some(&view, begin, last, READ_MAX);
        if let (None, true) = (&error, rows.is_empty()) {
            return Err(Break::Short { found: begin - 1, expected: last }.into());
        }
        for row in rows {
            verifier.take(&row)?;
            writeln!(lines, "{}", export::line(&row)).map_err(failed)?;
            begin = row.seq + 1;
        }
        if let Some(error) = error {
            return Err(error);
        }
    }
    let file = lines.finish().and_then(|buffered| buffered.into_inner().map_err(std::io::IntoInnerError::into_error));
    file.and_then(|file| file.sync_all()).map_err(failed)?;
    Ok(verifier.head())
}

/// Reads a segment back.
fn verified(home: &Path, segment: Segment, after: Head) -> Result<Written, StoreError> {
    let mut verifier = Verifier::after(after);
    segment.each(home, |row| verifier.take(&row).map_err(StoreError::from))?;
    let path = segment.path(home);
    let failed =
        |source| StoreError::Segment { path: path.clone(), first: segment.first, last: segment.last.seq, source };
    if verifier.head() != segment.last {
        return Err(failed(Error::new(ErrorKind::InvalidData, "its content differs from the rows that were written")));
    }
    let (mut file, mut hasher, mut bytes) = (File::open(&path).map_err(failed)?, Sha256::new(), 0_u64);
    let mut piece = vec![0; 64 * 1024];
    loop {
        let count = file.read(&mut piece).map_err(failed)?;
        let Some(read) = piece.get(..count).filter(|read| !read.is_empty()) else { break };
        hasher.update(read);
        bytes = bytes.saturating_add(u64::try_from(count).unwrap_or(0));
    }
    Ok(Written { segment, sha256: Digest::from_bytes(hasher.finalize().into()), bytes })
}

/// Notes a segment: a row names it, and its rows may be deleted from now on.
///
/// # Errors
/// [`StoreError`]; nothing was written.
pub fn note(tx: &Transaction<'_>, written: &Written) -> Result<(), StoreError> {
    let Segment { first, last } = written.segment;
    tx.append(&Draft {
        body: json!({
            "first": first,
            "last": last.seq,
            "last_hash": last.hash,
            "file": written.segment.name(),
            "sha256": written.sha256,
            "bytes": written.bytes,
        }),
        ..Draft::new(RowKind::Rotated, "broker")
    })?;
    tx.view()
        .prepare_cached("INSERT INTO segments VALUES (?1, ?2, ?3, ?4)")
        .and_then(|mut s| s.execute(params![first, last.seq, last.hash.as_bytes(), last.ts]))
        .map_err(at("note a segment"))?;
    Ok(())
}

/// Returns whether the database holds rows that are also in a segment.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn has_deletable(view: &View) -> Result<bool, StoreError> {
    let end = end(view)?.seq;
    view.prepare_cached("SELECT 1 FROM ledger WHERE seq BETWEEN 1 AND ?1 LIMIT 1")
        .and_then(|mut s| s.exists(params![end]))
        .map_err(at("look for rows that are in segments"))
}

/// Deletes the oldest rows that are in a segment, and burns their request ids, for a few milliseconds. The rest is left
/// for the next call.
///
/// # Errors
/// [`StoreError`]; nothing was deleted.
pub fn delete_rows(tx: &Transaction<'_>) -> Result<(), StoreError> {
    let end = end(tx.view())?.seq;
    let (began, mut rows) = (Instant::now(), 0);
    while rows < DELETED_MAX && (rows == 0 || began.elapsed() < DELETION) {
        let deleted = delete_some(tx.view(), end).map_err(at("delete rows that are in segments"))?;
        if deleted == 0 {
            break;
        }
        rows += deleted;
    }
    Ok(())
}

/// Deletes a few rows, and returns how many.
fn delete_some(view: &View, end: i64) -> Result<usize, rusqlite::Error> {
    const OLDEST: &str = "SELECT seq, caller, request_id FROM ledger
        WHERE seq BETWEEN 1 AND ?1 ORDER BY seq LIMIT ?2";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let rows: Vec<(i64, String, Option<String>)> =
        view.prepare_cached(OLDEST)?.query_map(params![end, DELETED_STEP], read)?.collect::<Result<_, _>>()?;
    let Some((last, ..)) = rows.last() else { return Ok(0) };
    let mut burn = view.prepare_cached("INSERT OR IGNORE INTO burnt_ids VALUES (?1)")?;
    for (_, caller, id) in &rows {
        if let Some(id) = id {
            burn.execute(params![burnt(caller, id)])?;
        }
    }
    view.prepare_cached("DELETE FROM ledger WHERE seq BETWEEN 1 AND ?1")?.execute(params![last])?;
    Ok(rows.len())
}

/// Returns whether a row that is in a segment has this caller and request id.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn is_burnt(view: &View, caller: &str, id: &str) -> Result<bool, StoreError> {
    let has_any = view.kept(
        |cache| *cache.has_burnt_ids.facts(),
        has_burnt_ids,
        |cache, has| cache.has_burnt_ids.keep(|facts| *facts = Some(*has)),
    )?;
    if !has_any {
        return Ok(false);
    }
    view.prepare_cached("SELECT 1 FROM burnt_ids WHERE digest = ?1")
        .and_then(|mut s| s.exists(params![burnt(caller, id)]))
        .map_err(at("look for a burnt id"))
}

pub(crate) fn has_burnt_ids(view: &View) -> Result<bool, StoreError> {
    view.prepare_cached("SELECT 1 FROM burnt_ids LIMIT 1")
        .and_then(|mut s| s.exists([]))
        .map_err(at("look for a burnt id"))
}

/// Hashes a caller and an id. Half a digest is enough: a caller that finds two equal ones has burnt one more id of its
/// own.
fn burnt(caller: &str, id: &str) -> [u8; 16] {
    let digest = Sha256::new_with_prefix(caller).chain_update([0]).chain_update(id).finalize();
    let mut half = [0; 16];
    half.iter_mut().zip(digest).for_each(|(byte, of)| *byte = of);
    half
}
