//! The files of replies, which are used again.
//!
//! A reply is written into a spare file, which then gets the name of the reply as a second name. When the shim has read
//! the reply and removed that name, the file is free for a later reply. A file system without a journal does not use a
//! freed inode again at once, so new files get slower with each removed one.

use rustix::io::Errno;
use shared::mailbox::{Directory, MailboxError, Step, temporary_name};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Replies are world-readable, because the sandbox's user may be another one; the directory above is not.
pub const MODE: u32 = 0o644;
/// The most spare files of one group.
const FILES_MAX: usize = 64;
/// A write looks at so many of them for a free one. The oldest come first.
const LOOKS_MAX: usize = 4;

/// The files of one group.
#[derive(Debug, Default)]
pub struct ReplyFiles(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The files, in the order in which they were written.
    spare: VecDeque<Spare>,
    /// Whether a reply was written since the last look at the time.
    is_used: bool,
    /// Whether the file system gives a file no second name.
    cannot_link: bool,
}

/// A file for later replies.
#[derive(Debug)]
struct Spare {
    name: String,
    /// Whether the bytes of its last reply are gone.
    is_wiped: bool,
}

impl ReplyFiles {
    /// Writes a reply for a reader that accepts a file with two names, and replaces an earlier one of that name.
    ///
    /// # Errors
    /// [`MailboxError`]; the name then holds the same as before.
    pub fn write(&self, responses: &Directory, name: &str, bytes: &[u8]) -> Result<(), MailboxError> {
        let mut state = self.state();
        state.is_used = true;
        if let Some(spare) = state.written(responses, bytes) {
            match responses.link(&spare, name) {
                Ok(()) => {
                    state.spare.push_back(Spare { name: spare, is_wiped: false });
                    return Ok(());
                }
                Err(error) => {
                    state.cannot_link = is_unsupported(&error);
                    responses.remove(&spare).ok();
                }
            }
        }
        responses.write(name, bytes, MODE)
    }

    /// Removes the files if no reply was written since the last time. Otherwise it wipes those whose reply was removed.
    pub fn on_time(&self, responses: &Directory) {
        let mut state = self.state();
        if std::mem::take(&mut state.is_used) {
            state.wipe(responses);
        } else {
            state.clear(responses);
        }
    }

    /// Removes the files.
    pub fn clear(&self, responses: &Directory) {
        self.state().clear(responses);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Writes the bytes into a free file or a new one. Returns its name; `None` if there is no such file.
    fn written(&mut self, responses: &Directory, bytes: &[u8]) -> Option<String> {
        if self.cannot_link {
            return None;
        }
        for _ in 0..LOOKS_MAX.min(self.spare.len()) {
            let spare = self.spare.pop_front()?;
            match responses.rewrite(&spare.name, bytes) {
                Ok(()) => return Some(spare.name),
                // The reply in it is not read yet.
                Err(error) if error.step == Step::Look => self.spare.push_back(spare),
                Err(_) => drop(responses.remove(&spare.name)),
            }
        }
        if self.spare.len() >= FILES_MAX {
            return None;
        }
        let name = temporary_name();
        responses.write_new(&name, bytes, MODE).is_ok().then_some(name)
    }

    /// Wipes the files whose reply was removed, so that nobody reads it later.
    fn wipe(&mut self, responses: &Directory) {
        self.spare.retain_mut(|spare| {
            if spare.is_wiped {
                return true;
            }
            match responses.wipe(&spare.name) {
                Ok(()) => spare.is_wiped = true,
                Err(error) if error.step == Step::Look => {}
                Err(_) => {
                    responses.remove(&spare.name).ok();
                    return false;
                }
            }
            true
        });
    }

    fn clear(&mut self, responses: &Directory) {
        for spare in self.spare.drain(..) {
            // The name of an unread reply stays.
            responses.remove(&spare.name).ok();
        }
    }
}

/// Returns whether the file system gives a file no second name.
fn is_unsupported(error: &MailboxError) -> bool {
    let lasting = [Errno::PERM, Errno::OPNOTSUPP, Errno::XDEV, Errno::NOSYS, Errno::MLINK];
    Errno::from_io_error(&error.source).is_some_and(|errno| lasting.contains(&errno))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt as _;
    use std::path::Path;

    fn inode(path: &Path, name: &str) -> u64 {
        path.join(name).metadata().unwrap().ino()
    }

    fn names(path: &Path) -> usize {
        std::fs::read_dir(path).unwrap().count()
    }

    #[test]
    fn a_file_is_used_again_only_after_its_reply_was_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, responses) = (folder.path(), Directory::open(folder.path()).unwrap());
        let files = ReplyFiles::default();
        files.write(&responses, "a.json", b"first and long").unwrap();
        files.write(&responses, "b.json", b"second").unwrap();
        let first = inode(path, "a.json");
        assert_ne!(first, inode(path, "b.json"), "the first is not read yet");
        assert_eq!(std::fs::read(path.join("a.json")).unwrap(), b"first and long");
        responses.remove("a.json").unwrap();
        files.write(&responses, "c.json", b"third").unwrap();
        assert_eq!(first, inode(path, "c.json"));
        for (name, bytes) in [("b.json", "second"), ("c.json", "third")] {
            assert_eq!(responses.read_reply(name, 100).unwrap().bytes, bytes.as_bytes());
        }
        files.on_time(&responses);
        assert_eq!(names(path), 4, "it was used since the last time");
        files.on_time(&responses);
        assert_eq!(names(path), 2);
        assert_eq!(responses.read_reply("b.json", 100).unwrap().bytes, b"second");
    }

    #[test]
    fn a_reply_that_was_removed_is_soon_gone_from_the_disk() {
        let folder = tempfile::tempdir().unwrap();
        let (path, responses) = (folder.path(), Directory::open(folder.path()).unwrap());
        let files = ReplyFiles::default();
        let long = vec![b'x'; 70_000];
        for (name, bytes) in [("a.json", &b"first"[..]), ("b.json", b"second"), ("long.json", &long)] {
            files.write(&responses, name, bytes).unwrap();
        }
        responses.remove("a.json").unwrap();
        responses.remove("long.json").unwrap();
        files.on_time(&responses);
        let contents = |path: &Path| {
            let files = std::fs::read_dir(path).unwrap().map(|entry| std::fs::read(entry.unwrap().path()).unwrap());
            let mut contents: Vec<_> = files.collect();
            contents.sort();
            contents
        };
        assert_eq!(contents(path), [vec![0; 5], b"second".to_vec(), b"second".to_vec()]);
        files.write(&responses, "c.json", b"the third").unwrap();
        assert_eq!(responses.read_reply("c.json", 100).unwrap().bytes, b"the third");
    }

    #[test]
    fn a_reply_replaces_an_earlier_one_and_unread_ones_take_a_bounded_number_of_names() {
        let folder = tempfile::tempdir().unwrap();
        let (path, responses) = (folder.path(), Directory::open(folder.path()).unwrap());
        let files = ReplyFiles::default();
        files.write(&responses, "a.json", b"pending").unwrap();
        files.write(&responses, "a.json", b"executed").unwrap();
        assert_eq!(std::fs::read(path.join("a.json")).unwrap(), b"executed");
        for n in 0..2 * FILES_MAX {
            files.write(&responses, &format!("n-{n}.json"), b"{}").unwrap();
        }
        assert!(names(path) <= 1 + 2 * FILES_MAX + FILES_MAX, "{}", names(path));
        files.clear(&responses);
        assert_eq!(names(path), 1 + 2 * FILES_MAX);
    }

    /// Attack (Files in the group's directory): A sandbox changes a file that the host uses again
    /// for replies: a link, a directory, a pipe, a huge file.
    /// Defence: `Directory::rewrite` writes only into a regular file of a usual size with one link.
    #[test]
    fn a_spare_file_that_the_sandbox_has_changed_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let (path, responses) = (folder.path(), Directory::open(folder.path()).unwrap());
        let outside = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(outside.path(), "untouched").unwrap();
        let files = ReplyFiles::default();
        let spare = |path: &Path| {
            let mut names = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
            names.find(|path| path.file_name().unwrap().to_str().unwrap().starts_with(".tmp-")).unwrap()
        };
        let changes: [&dyn Fn(&Path); 4] = [
            &|spare| std::os::unix::fs::symlink(outside.path(), spare).unwrap(),
            &|spare| std::fs::hard_link(outside.path(), spare).unwrap(),
            &|spare| std::fs::create_dir(spare).unwrap(),
            &|spare| rustix::fs::mknodat(rustix::fs::CWD, spare, rustix::fs::FileType::Fifo, 0o666.into(), 0).unwrap(),
        ];
        for (n, change) in changes.iter().enumerate() {
            let (first, second) = (format!("{n}-a.json"), format!("{n}-b.json"));
            files.write(&responses, &first, b"reply").unwrap();
            let name = spare(path);
            responses.remove(&first).unwrap();
            std::fs::remove_file(&name).unwrap();
            change(&name);
            files.write(&responses, &second, b"reply").unwrap();
            assert_eq!(responses.read_reply(&second, 100).unwrap().bytes, b"reply");
            assert_eq!(std::fs::read_to_string(outside.path()).unwrap(), "untouched");
            files.clear(&responses);
            std::fs::remove_file(&name).or_else(|_| std::fs::remove_dir(&name)).ok();
        }
    }
}
