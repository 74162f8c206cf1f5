//! Logs in files: plain, rotated, compressed with gzip.
//!
//! [`listing`] finds the files, and opens them without being led astray. [`lines`] reads bytes as lines within limits.
//! [`head`] finds how the lines of a file are read. [`scan`] looks through one file, and [`gather`] makes entries of
//! lines. This module joins them.
//!
//! All of it is blocking work and runs on a blocking thread. It stops by itself at the deadline, and when its
//! caller stops waiting.

mod gather;
mod head;
mod lines;
mod listing;
mod scan;

use crate::backend::{Access, Backend, BackendError, Found, Source, Sources};
use crate::format::Format;
use crate::position::EntryId;
use crate::search::{Newest, Search, Skipped};
use crate::time::Zone;
use lines::Meter;
pub use listing::BadPattern;
use listing::{FileRef, Listing, OpenError, Pattern, Stream, Unsteady};
use model::Clock;
use provider::contract::Running;
use scan::{Counts, Depth, LogFile, Looked, ScanError};
use shared::Timestamp;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How often a search starts again because files were rotated under it.
const ATTEMPTS: u32 = 5;
/// The most bytes of a compressed file that are unpacked before the rest of it is left alone.
const UNPACKED_MAX: u64 = 512 * 1024 * 1024;

/// The log files that some patterns match.
#[derive(Clone)]
pub(crate) struct Files {
    service: Option<String>,
    patterns: Vec<Pattern>,
    format: Format,
    zone: Zone,
    clock: Arc<dyn Clock>,
}

impl Files {
    /// The files that match the patterns; their service is the given one, else each file's name.
    ///
    /// # Errors
    /// [`BadPattern`].
    pub(crate) fn new(
        service: Option<String>,
        paths: &[String],
        format: Format,
        zone: Zone,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, BadPattern> {
        let patterns = paths.iter().map(|path| Pattern::new(path)).collect::<Result<_, _>>()?;
        Ok(Self { service, patterns, format, zone, clock })
    }

    fn list(&self) -> Result<Listing, Stop> {
        Listing::steady(&self.patterns, self.service.as_deref()).map_err(|Unsteady| Stop::Rotated)
    }

    fn open(&self, file: &FileRef) -> Result<LogFile, OpenError> {
        let now = self.clock.now();
        Ok(LogFile::new(file.open()?, file, self.format, self.zone, now))
    }

    fn search(&self, search: &Search, meter: &Meter) -> Result<Found, Stop> {
        let mut listing = self.list()?;
        let mut newest = Newest::new(search.limit);
        let mut unplaced = Unplaced::default();
        for stream in &listing.streams {
            self.search_stream(stream, search, meter, &mut newest, &mut listing.skipped, &mut unplaced)?;
        }
        let mut skipped = listing.skipped;
        skipped.extend(unplaced.notes());
        if let Some(service) = &search.service
            && listing.streams.iter().any(|stream| stream.service == *service)
        {
            // Otherwise it is a program's name, and any file that was not read may have held its entries.
            skipped.retain(|note| note.service == *service);
        }
        Ok(Found { records: newest.into_records(), skipped })
    }

    fn search_stream(
        &self,
        stream: &Stream,
        search: &Search,
        meter: &Meter,
        newest: &mut Newest,
        skipped: &mut Vec<Skipped>,
        unplaced: &mut Unplaced,
    ) -> Result<(), Stop> {
        for file in &stream.files {
            let Some(mut log) = self.opened(stream, file, skipped)? else { continue };
            let whole_stream = search.service.as_deref().is_none_or(|service| service == stream.service);
            match log.newest(stream, search, whole_stream, meter, newest) {
                Ok(Looked { depth, counts }) => {
                    if whole_stream || depth != Depth::NoTimes {
                        skipped.extend(depth_note(depth).map(|reason| Skipped::new(&stream.service, reason)));
                    }
                    let leading = if whole_stream { counts.leading } else { 0 };
                    unplaced.add(&stream.service, Counts { leading, ..counts });
                }
                Err(fault) => note(fault, stream, skipped)?,
            }
        }
        Ok(())
    }

    fn find(&self, id: EntryId, meter: &Meter) -> Result<Found, Stop> {
        let listing = self.list()?;
        let mut found = Found::default();
        for stream in listing.streams.iter().filter(|stream| stream.key == id.stream) {
            for file in &stream.files {
                let Some(mut log) = self.opened(stream, file, &mut found.skipped)? else { continue };
                match log.entry(stream, id, meter) {
                    Ok(Some(record)) => return Ok(Found { records: vec![record], ..Found::default() }),
                    Ok(None) => {}
                    Err(fault) => note(fault, stream, &mut found.skipped)?,
                }
            }
        }
        Ok(found)
    }

    fn list_services(&self, meter: &Meter) -> Result<Sources, Stop> {
        let mut listing = self.list()?;
        let mut services: Vec<Source> = Vec::new();
        for stream in &listing.streams {
            let mut span: Option<(i64, i64)> = None;
            for file in &stream.files {
                let Some(mut log) = self.opened(stream, file, &mut listing.skipped)? else { continue };
                match log.span(meter) {
                    Ok(Some((from, to))) => {
                        span = Some(span.map_or((from, to), |(first, last)| (first.min(from), last.max(to))));
                    }
                    Ok(None) => {}
                    Err(fault) => note(fault, stream, &mut listing.skipped)?,
                }
            }
            add_service(&mut services, &stream.service, span);
        }
        // A line of syslog names its program.
        let has_unlisted = matches!(self.format, Format::Auto | Format::Syslog);
        Ok(Sources { services, skipped: listing.skipped, has_unlisted })
    }

    /// The file, or a note why not; a file that is not the listed one any more means that the listing is out of date.
    fn opened(&self, stream: &Stream, file: &FileRef, skipped: &mut Vec<Skipped>) -> Result<Option<LogFile>, Stop> {
        match self.open(file) {
            Ok(log) => Ok(Some(log)),
            Err(OpenError::Replaced) => Err(Stop::Rotated),
            Err(OpenError::Refused(reason)) => {
                skipped.push(Skipped::new(&stream.service, reason));
                Ok(None)
            }
        }
    }

    /// Runs blocking work on its own thread, again if files were rotated in between.
    fn blocking<T, F>(&self, deadline: Instant, work: F) -> Running<Result<T, BackendError>>
    where
        T: Send + 'static,
        F: Fn(&Self, &Meter) -> Result<T, Stop> + Send + 'static,
    {
        let this = self.clone();
        let cancelled = CancellationToken::new();
        // Dropped with the future, when its caller is gone.
        let guard = cancelled.clone().drop_guard();
        Box::pin(async move {
            let work = tokio::task::spawn_blocking(move || {
                let meter = Meter::new(deadline, cancelled, UNPACKED_MAX);
                for _ in 0..ATTEMPTS {
                    let result = work(&this, &meter);
                    tracing::debug!(bytes = meter.bytes(), "log files read");
                    match result {
                        Ok(value) => return Ok(value),
                        Err(Stop::Deadline) => return Err(BackendError::Deadline),
                        Err(Stop::Rotated) => {}
                    }
                }
                let reason = "the files change faster than they can be read".to_owned();
                Err(BackendError::Unavailable { what: "files", reason })
            });
            let result = work.await;
            drop(guard);
            result.unwrap_or_else(|_panicked| {
                Err(BackendError::Unavailable { what: "files", reason: "reading them failed".into() })
            })
        })
    }
}

/// Why blocking work ends early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// No time left.
    Deadline,
    /// The listing no longer fits the directory.
    Rotated,
}

fn note(fault: ScanError, stream: &Stream, skipped: &mut Vec<Skipped>) -> Result<(), Stop> {
    match fault {
        ScanError::Stopped => return Err(Stop::Deadline),
        ScanError::Read => skipped.push(Skipped::new(&stream.service, "a file cannot be read to its end")),
        ScanError::Damaged => skipped.push(Skipped::new(&stream.service, "a compressed file is damaged")),
        ScanError::Compression(name) => {
            skipped
                .push(Skipped::new(&stream.service, &format!("a file is compressed with {name}, which is not read")));
        }
    }
    Ok(())
}

/// Returns the note on the part of a file that was not looked at.
fn depth_note(depth: Depth) -> Option<&'static str> {
    match depth {
        Depth::AsAsked => None,
        Depth::Sampled => {
            Some("a file is too big to be read whole, so entries that are not in the order of time may be missing")
        }
        Depth::NoTimes => Some("has no time stamps"),
        Depth::Unordered => Some("a file is not in the order of time, and too big to be read whole"),
        Depth::Capped => Some("a compressed file is too big to be read to its end"),
    }
}

/// The counts over the files of each service.
#[derive(Debug, Default)]
struct Unplaced(BTreeMap<String, Counts>);

impl Unplaced {
    fn add(&mut self, service: &str, counts: Counts) {
        if counts != Counts::default() {
            let sum = self.0.entry(service.to_owned()).or_default();
            sum.leading += counts.leading;
            sum.misplaced += counts.misplaced;
            sum.unsearched += counts.unsearched;
        }
    }

    fn notes(self) -> Vec<Skipped> {
        let mut notes = Vec::new();
        for (service, counts) in self.0 {
            let mut note = |count: u64, one: &str, many: &str| match count {
                0 => {}
                1 => notes.push(Skipped::new(&service, &format!("1 {one}"))),
                _ => notes.push(Skipped::new(&service, &format!("{count} {many}"))),
            };
            let (one, many) = ("line before the first time stamp belongs", "lines before the first time stamp belong");
            note(counts.leading, &format!("{one} to no entry"), &format!("{many} to no entry"));
            let (one, many) = ("line with a time stamp stands in an entry", "lines with a time stamp stand in entries");
            let missing = "not in the answer";
            note(counts.misplaced, &format!("{one} that is {missing}"), &format!("{many} that are {missing}"));
            let (one, many) = ("entry is too long", "entries are too long");
            let end = "to be searched to";
            note(counts.unsearched, &format!("{one} {end} its end"), &format!("{many} {end} their end"));
        }
        notes
    }
}

fn add_service(services: &mut Vec<Source>, name: &str, span: Option<(i64, i64)>) {
    let written = |millis| Timestamp::from_millis(millis).to_string();
    let (earliest, latest) = span.map_or((None, None), |(from, to)| (Some(written(from)), Some(written(to))));
    match services.iter_mut().find(|known| known.service == name) {
        // RFC 3339 in UTC with a fixed number of digits is in the order of time.
        Some(known) => {
            known.latest = known.latest.take().max(latest);
            known.earliest = [known.earliest.take(), earliest].into_iter().flatten().min();
        }
        None => services.push(Source { service: name.to_owned(), kind: "files".into(), earliest, latest }),
    }
}

impl Backend for Files {
    fn query(&self, search: Arc<Search>, access: Access) -> Running<Result<Found, BackendError>> {
        self.blocking(access.deadline, move |files, meter| files.search(&search, meter))
    }

    fn entry(&self, id: EntryId, access: Access) -> Running<Result<Found, BackendError>> {
        self.blocking(access.deadline, move |files, meter| files.find(id, meter))
    }

    fn services(&self, access: Access) -> Running<Result<Sources, BackendError>> {
        self.blocking(access.deadline, Self::list_services)
    }
}

#[cfg(test)]
mod tests;
