//! The log files, and the way to open one.
//!
//! SECURITY: the writers of logs are not trusted: a service that owns its log directory may put anything there. The
//! part of a pattern before its first wildcard is the operator's word and may go through links. Below it no link is
//! followed. Files with several names are left alone (the other name may lie elsewhere). Only regular files are opened,
//! without waiting.

use crate::position::StreamKey;
use crate::search::Skipped;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Statx, StatxFlags};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How many files one set of patterns may match; more are not looked at.
const FILES_MAX: usize = 4096;
/// The longest name of a service.
const NAME_MAX: usize = 64;

/// A pattern such as `/var/log/nginx/*.log*`.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    glob: String,
    base: PathBuf,
}

/// The text is no pattern of log files.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{path}` is no pattern of log files: {fault}")]
pub struct BadPattern {
    path: String,
    fault: String,
}

impl Pattern {
    /// The pattern; it must be absolute.
    ///
    /// # Errors
    /// [`BadPattern`].
    pub(super) fn new(path: &str) -> Result<Self, BadPattern> {
        let bad = |fault: String| BadPattern { path: path.to_owned(), fault };
        glob::Pattern::new(path).map_err(|e| bad(e.to_string()))?;
        if !path.starts_with('/') || Path::new(path).components().any(|c| c.as_os_str() == "..") {
            return Err(bad("it must be absolute and without `..`".into()));
        }
        let literal = path.split(['*', '?', '[']).next().unwrap_or(path);
        let base = literal.rsplit_once('/').map_or("/", |(base, _)| if base.is_empty() { "/" } else { base });
        Ok(Self { glob: path.to_owned(), base: PathBuf::from(base) })
    }
}

/// One file as it was listed.
#[derive(Debug, Clone)]
pub(super) struct FileRef {
    base: Arc<OwnedFd>,
    path: PathBuf,
    identity: Identity,
    /// When it last changed, in milliseconds since 1970.
    pub(super) changed: i64,
}

/// Why a listed file is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OpenError {
    /// Its name belongs to another file now, or to none.
    Replaced,
    /// It cannot or must not be read; the text is public.
    Refused(&'static str),
}

impl FileRef {
    /// Opens exactly this file.
    ///
    /// # Errors
    /// [`OpenError`].
    pub(super) fn open(&self) -> Result<File, OpenError> {
        use rustix::io::Errno;
        // NONBLOCK: a FIFO that took the file's place, or a write lease on it, must not hold us up.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let opened = rustix::fs::openat2(&*self.base, &self.path, flags, Mode::empty(), resolve);
        let file = opened.map_err(|errno| match errno {
            Errno::NOENT => OpenError::Replaced,
            Errno::LOOP | Errno::XDEV => OpenError::Refused("a file is behind a symbolic link"),
            Errno::NOSYS => OpenError::Refused("this kernel cannot open files without following links"),
            Errno::ACCESS | Errno::PERM => OpenError::Refused("the broker may not read a file"),
            _ => OpenError::Refused("a file cannot be opened"),
        })?;
        let stat = rustix::fs::statx(&file, c"", AtFlags::EMPTY_PATH, KNOWN)
            .map_err(|_errno| OpenError::Refused("a file cannot be opened"))?;
        if identity(&stat) != self.identity {
            return Err(OpenError::Replaced);
        }
        refusal(&stat).map_or(Ok(File::from(file)), |reason| Err(OpenError::Refused(reason)))
    }
}

/// The requested properties of a file.
const KNOWN: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::BTIME);

/// The identity of a file, also against a later one that got its inode: device, inode, time of birth (zero on file
/// systems that do not keep it).
type Identity = (u32, u32, u64, i64, u32);

fn identity(stat: &Statx) -> Identity {
    let born = stat.stx_btime;
    (stat.stx_dev_major, stat.stx_dev_minor, stat.stx_ino, born.tv_sec, born.tv_nsec)
}

fn kind(stat: &Statx) -> FileType {
    FileType::from_raw_mode(stat.stx_mode.into())
}

fn refusal(stat: &Statx) -> Option<&'static str> {
    let kind = kind(stat);
    if kind == FileType::Symlink {
        Some("a file is a symbolic link")
    } else if kind != FileType::RegularFile {
        Some("a file is not a regular file")
    } else if stat.stx_nlink > 1 {
        Some("a file has several names (hard links)")
    } else {
        None
    }
}

/// A log file and its rotated predecessors.
#[derive(Debug)]
pub(super) struct Stream {
    /// Its name in ids.
    pub(super) key: StreamKey,
    /// The service it belongs to.
    pub(super) service: String,
    /// Its files, the last changed first.
    pub(super) files: Vec<FileRef>,
}

/// The directories changed while they were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unsteady;

/// The files that some patterns match now.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// The streams.
    pub(super) streams: Vec<Stream>,
    /// The files that were left alone.
    pub(super) skipped: Vec<Skipped>,
}

impl Listing {
    /// Lists the files of the patterns: twice, because a directory that is rotated while it is read may show a file
    /// under neither of its names.
    ///
    /// # Errors
    /// [`Unsteady`] if the two lists differ.
    pub(super) fn steady(patterns: &[Pattern], service: Option<&str>) -> Result<Self, Unsteady> {
        let (before, after) = (Self::of(patterns, service), Self::of(patterns, service));
        if before.names() == after.names() { Ok(after) } else { Err(Unsteady) }
    }

    fn names(&self) -> BTreeSet<(&Path, Identity)> {
        let files = self.streams.iter().flat_map(|stream| &stream.files);
        files.map(|file| (file.path.as_path(), file.identity)).collect()
    }

    fn of(patterns: &[Pattern], service: Option<&str>) -> Self {
        let mut found = Collected { service, streams: BTreeMap::new(), skipped: Vec::new(), seen: BTreeSet::new() };
        for pattern in patterns {
            found.collect(pattern);
        }
        let mut streams: Vec<Stream> = found.streams.into_values().collect();
        for stream in &mut streams {
            stream.files.sort_by_key(|file| std::cmp::Reverse(file.changed));
        }
        let mut skipped = found.skipped;
        if let Some(service) = service
            && streams.is_empty()
            && skipped.is_empty()
        {
            skipped.push(Skipped::new(service, "there are no files of it"));
        }
        Self { streams, skipped }
    }
}

/// The files listed so far.
struct Collected<'a> {
    service: Option<&'a str>,
    streams: BTreeMap<PathBuf, Stream>,
    skipped: Vec<Skipped>,
    seen: BTreeSet<Identity>,
}

impl Collected<'_> {
    fn collect(&mut self, pattern: &Pattern) {
        let base = match directory(&pattern.base) {
            Ok(base) => Arc::new(base),
            // Of the usual places most machines lack some.
            Err(rustix::io::Errno::NOENT) => return,
            Err(_errno) => return self.skip("a directory cannot be read"),
        };
        // The pattern was checked when it was made.
        let Ok(paths) = glob::glob(&pattern.glob) else { return };
        for path in paths {
            if self.seen.len() >= FILES_MAX {
                return self.skip("there are too many files");
            }
            match path {
                Ok(path) => self.add(pattern, &base, &path),
                Err(_unreadable) => self.skip("a directory cannot be read"),
            }
        }
    }

    fn skip(&mut self, reason: &str) {
        self.skipped.push(Skipped::new(self.service.unwrap_or("files"), reason));
    }

    fn add(&mut self, pattern: &Pattern, base: &Arc<OwnedFd>, path: &Path) {
        let Ok(relative) = path.strip_prefix(&pattern.base) else { return };
        // Gone since it was listed.
        let Ok(stat) = rustix::fs::statx(&**base, relative, AtFlags::SYMLINK_NOFOLLOW, KNOWN) else { return };
        if kind(&stat) == FileType::Directory || !self.seen.insert(identity(&stat)) {
            return;
        }
        let family = family(relative);
        let service = self.service.map_or_else(|| service_name(&family), str::to_owned);
        if let Some(reason) = refusal(&stat) {
            self.skipped.push(Skipped::new(&service, reason));
            return;
        }
        let family = pattern.base.join(family);
        let file = FileRef {
            base: Arc::clone(base),
            path: relative.to_owned(),
            identity: identity(&stat),
            changed: changed(&stat),
        };
        let key = StreamKey::of(family.as_os_str().as_encoded_bytes());
        let new = || Stream { key, service, files: Vec::new() };
        self.streams.entry(family).or_insert_with(new).files.push(file);
    }
}

fn changed(stat: &Statx) -> i64 {
    let millis = i64::from(stat.stx_mtime.tv_nsec / 1_000_000);
    stat.stx_mtime.tv_sec.saturating_mul(1000).saturating_add(millis)
}

fn directory(path: &Path) -> Result<OwnedFd, rustix::io::Errno> {
    rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// Returns the path without the additions of rotation to its last part.
fn family(path: &Path) -> PathBuf {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    path.with_file_name(current_name(&name))
}

/// `app.log` of `app.log.2.gz`, `app.log-20260214`, `app-2026-02-14.log`, `app.log.old`.
fn current_name(name: &str) -> String {
    let unpacked =
        [".gz", ".xz", ".bz2", ".zst", ".lz4", ".Z"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
    let numbered = |(front, digits): (&str, &str)| {
        let number = (1..=4).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
        // Behind a digit it is a part of a version or an address.
        let name = front.ends_with(|c: char| !c.is_ascii_digit());
        (number && name).then(|| front.to_owned())
    };
    if let Some(front) = unpacked.rsplit_once('.').and_then(numbered) {
        return front;
    }
    let plain = unpacked.strip_suffix(".old").unwrap_or(unpacked);
    let dated = match plain.strip_suffix(".log") {
        Some(stem) => format!("{}.log", without_date(stem)),
        None => without_date(plain).to_owned(),
    };
    if dated.starts_with('.') { plain.to_owned() } else { dated }
}

/// The text before a date, and perhaps a time, at its end.
fn without_date(stem: &str) -> &str {
    let front = stem.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '-' | '_' | '.' | 'T'));
    let tail = stem.strip_prefix(front).unwrap_or("");
    let digits: String = tail.chars().filter(char::is_ascii_digit).collect();
    let separated = !tail.starts_with(|c: char| c.is_ascii_digit());
    let date = (8..=18).contains(&digits.len()) && (digits.starts_with("20") || digits.starts_with("19"));
    if separated && date && !front.is_empty() { front } else { stem }
}

/// A public name made of a path: its parts joined with `-`, without `.log`, in an alphabet that no reader trips over.
fn service_name(family: &Path) -> String {
    let parts: Vec<String> = family.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    let name = parts.join("-");
    let name = name.strip_suffix(".log").filter(|stem| !stem.is_empty()).unwrap_or(&name);
    crate::public_name(name, NAME_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotated_files_belong_to_the_file_they_came_from() {
        for name in [
            "app.log",
            "app.log.1",
            "app.log.12.gz",
            "app.log-20260214",
            "app.log-20260214.gz",
            "app.log-20260214-1771063200",
            "app-2026-02-14.log",
            "app-20260214.log.gz",
            "app-2026-02-14_000000.log",
            "app.log.old",
            "app.log.2026-02-14",
        ] {
            assert_eq!(current_name(name), "app.log", "{name}");
        }
        for name in ["syslog", "postgresql-15-main.log", "20260214.log", ".log", "v1.2.3", "host-10.0.0.1"] {
            assert_eq!(current_name(name), name, "{name}");
        }
    }

    #[test]
    fn services_are_named_after_files_in_a_tame_alphabet() {
        assert_eq!(service_name(Path::new("apt/history.log")), "apt-history");
        assert_eq!(service_name(Path::new("a\n{\"b\":1}\u{202e}.log")), "a___b_:1__");
        assert_eq!(service_name(Path::new(".log")), ".log");
        assert_eq!(service_name(Path::new(&"x".repeat(300))).len(), 64);
    }

    #[test]
    fn patterns_are_absolute() {
        for path in ["*.log", "", "/var/../etc/*", "/var/log/[", "/a/***"] {
            assert!(Pattern::new(path).is_err(), "{path}");
        }
        for (path, base) in
            [("/var/log/*/x.log", "/var/log"), ("/x.log", "/"), ("/var/log/a.log", "/var/log"), ("/va*/x", "/")]
        {
            assert_eq!(Pattern::new(path).unwrap().base, Path::new(base));
        }
    }
}
