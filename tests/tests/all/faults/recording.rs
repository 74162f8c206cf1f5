//! The requests of a process to its disk, and the effects that a disk may keep when its power is cut.
//!
//! A file holds for certain what was written before a sync began that has succeeded. Of the rest any part may be
//! there: a beginning, a selection, half a page. What a sync has failed on may never be there: the kernel has
//! forgotten that it was still to be written.

use std::collections::BTreeMap;
use tests::fakes::CountedRandom;

/// The files whose fate is followed.
pub(super) const FILES: [&str; 2] = ["ledger.db", "ledger.db-wal"];
/// Where effects are counted.
const COUNTED: [&str; 2] = ["/charge.log", "/lossy.log"];
/// The arguments of `strace` for a trace that can be read here.
pub(super) const ARGUMENTS: [&str; 7] = [
    "-f",
    "-y",
    "-xx",
    "-s",
    "5000000",
    "-e",
    "trace=write,pwrite64,ftruncate,fsync,fdatasync,?rename,?renameat,?renameat2",
];
/// The part of a page that a disk writes as a whole.
const SECTOR: usize = 512;

/// A trace, with what the files held when it began.
pub(super) struct Recording {
    before: Vec<Vec<u8>>,
    writes: Vec<Write>,
    syncs: Vec<Sync>,
    /// When a document was put where its reader finds it: its name.
    pub(super) handed: Vec<(usize, String)>,
    /// When a line was written to a file of effects.
    pub(super) effects: Vec<(usize, String)>,
}

struct Write {
    file: usize,
    begun: usize,
    ended: usize,
    what: What,
}

enum What {
    Bytes(usize, Vec<u8>),
    Length(usize),
}

struct Sync {
    file: usize,
    begun: usize,
    ended: usize,
    succeeded: bool,
}

/// The fate of the writes that nothing makes certain.
#[derive(Debug, Clone, Copy)]
pub(super) enum Luck {
    /// None of them.
    Nothing,
    /// All of them.
    Everything,
    /// Those before some moment.
    Beginning,
    /// Any of them.
    Selection,
    /// Any part of any of them.
    Torn,
}

impl Luck {
    pub(super) const ALL: [Self; 5] = [Self::Nothing, Self::Everything, Self::Beginning, Self::Selection, Self::Torn];
}

impl Recording {
    /// Reads a trace that was made with [`ARGUMENTS`].
    pub(super) fn read(trace: &str, before: Vec<Vec<u8>>) -> Self {
        let mut recording =
            Self { before, writes: Vec::new(), syncs: Vec::new(), handed: Vec::new(), effects: Vec::new() };
        for (begun, ended, text) in calls(trace) {
            recording.take(begun, ended, &text);
        }
        recording
    }

    fn take(&mut self, begun: usize, ended: usize, text: &str) {
        let Some((call, arguments)) = text.split_once('(') else { return };
        let quoted: Vec<&str> = arguments.split('"').collect();
        let string = |n: usize| unhex(quoted.get(n).copied().unwrap_or_default());
        if call.starts_with("rename") {
            let name = String::from_utf8(string(3)).unwrap();
            self.handed.extend(name.strip_suffix(".json").map(|id| (begun, id.to_owned())));
            return;
        }
        let path = arguments.split_once('<').and_then(|(_, rest)| rest.split_once('>')).map(|(path, _)| path);
        let path = String::from_utf8(unhex(path.unwrap_or_default())).unwrap();
        if call == "write" && COUNTED.iter().any(|name| path.ends_with(name)) {
            self.effects.push((begun, String::from_utf8(string(1)).unwrap().trim().to_owned()));
        }
        let Some(file) = FILES.iter().position(|name| path.ends_with(&format!("/{name}"))) else { return };
        let numbers: Vec<usize> = quoted
            .last()
            .and_then(|rest| rest.rsplit_once('>').map_or(Some(*rest), |(_, rest)| Some(rest)))
            .map(|rest| rest.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect())
            .unwrap();
        let what = match call {
            "pwrite64" => What::Bytes(numbers[1], string(1)),
            "ftruncate" => What::Length(numbers[0]),
            "fsync" | "fdatasync" => {
                let succeeded = text.trim_end().ends_with("= 0");
                return self.syncs.push(Sync { file, begun, ended, succeeded });
            }
            other => panic!("{other} writes to {path}"),
        };
        // A failed call has written nothing.
        if !text.contains(" = -1 ") {
            self.writes.push(Write { file, begun, ended, what });
        }
    }

    /// Every moment before and after which something is different.
    pub(super) fn moments(&self) -> Vec<usize> {
        let writes = self.writes.iter().flat_map(|write| [write.begun, write.ended]);
        let syncs = self.syncs.iter().flat_map(|sync| [sync.begun, sync.ended]);
        let others = self.handed.iter().chain(&self.effects).map(|(at, _)| *at);
        let mut moments: Vec<usize> =
            writes.chain(syncs).chain(others).filter(|at| *at < usize::MAX).flat_map(|at| [at, at + 1]).collect();
        moments.sort_unstable();
        moments.dedup();
        moments
    }

    /// The content of the files after the power was cut at that moment.
    pub(super) fn files_after(&self, cut: usize, luck: Luck, ids: &CountedRandom) -> Vec<Vec<u8>> {
        let begun: Vec<&Write> = self.writes.iter().filter(|write| write.begun < cut).collect();
        let uncertain = begun.iter().filter(|write| !self.is_certain(write, cut)).count();
        let mut left = ids.below(u64::try_from(uncertain).unwrap() + 1);
        let mut files = self.before.clone();
        for write in begun {
            let file = &mut files[write.file];
            if self.is_certain(write, cut) {
                apply(file, &write.what, || true);
                continue;
            }
            let chosen = match luck {
                Luck::Nothing => false,
                Luck::Everything | Luck::Torn => true,
                Luck::Selection => ids.below(2) == 0,
                Luck::Beginning => {
                    let chosen = left > 0;
                    left = left.saturating_sub(1);
                    chosen
                }
            };
            if chosen {
                apply(file, &write.what, || !matches!(luck, Luck::Torn) || ids.below(2) == 0);
            }
        }
        files
    }

    /// Whether the first sync after the write has succeeded by then.
    fn is_certain(&self, write: &Write, cut: usize) -> bool {
        let first = self.syncs.iter().find(|sync| sync.file == write.file && sync.begun >= write.ended);
        first.is_some_and(|sync| sync.succeeded && sync.ended < cut)
    }
}

fn apply(file: &mut Vec<u8>, what: &What, mut is_there: impl FnMut() -> bool) {
    match what {
        What::Length(length) => file.resize(*length, 0),
        What::Bytes(at, bytes) => {
            if file.len() < at + bytes.len() {
                file.resize(at + bytes.len(), 0);
            }
            for (n, sector) in bytes.chunks(SECTOR).enumerate() {
                let at = at + n * SECTOR;
                if is_there() {
                    file[at..at + sector.len()].copy_from_slice(sector);
                }
            }
        }
    }
}

/// The calls of a trace: the lines in which each begins and ends, and its text.
fn calls(trace: &str) -> Vec<(usize, usize, String)> {
    let mut calls = Vec::new();
    let mut unfinished: BTreeMap<&str, (usize, String)> = BTreeMap::new();
    for (n, line) in trace.lines().enumerate() {
        let Some((thread, text)) = line.split_once(' ') else { continue };
        let text = text.trim_start();
        // The second is a call under way when the trace ended.
        if let Some(text) = text.strip_suffix("<unfinished ...>").or_else(|| text.strip_suffix("<detached ...>")) {
            unfinished.insert(thread, (n, text.to_owned()));
        } else if text.starts_with("<... ") {
            let Some((begun, first)) = unfinished.remove(thread) else { continue };
            let rest = text.split_once("resumed>").map_or("", |(_, rest)| rest);
            calls.push((begun, n, first + rest));
        } else {
            calls.push((n, n, text.to_owned()));
        }
    }
    // A call that had not ended when the trace ended never did.
    calls.extend(unfinished.into_values().map(|(begun, text)| (begun, usize::MAX, text)));
    calls.sort_by_key(|(begun, ..)| *begun);
    calls
}

/// The bytes of a text in which each is written `\x2f`.
fn unhex(text: &str) -> Vec<u8> {
    text.split("\\x").skip(1).map(|digits| u8::from_str_radix(digits, 16).unwrap()).collect()
}
