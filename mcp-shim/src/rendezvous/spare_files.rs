//! The files of earlier requests, which are used for later ones.

use super::by_file::REQUEST_MODE;
use crate::document;
use shared::RequestId;
use shared::limits::REPLY_KEEP;
use shared::mailbox::{Directory, MailboxError, TASKS, is_spare, spare_name};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;

/// The most spare files of one shim.
const FILES_MAX: usize = 64;
/// The most names that are looked at for files of shims that were killed.
const NAMES_MAX: usize = 10_000;

/// The spare files of this shim in `tasks/`. They are removed with it.
#[derive(Debug)]
pub(super) struct SpareFiles {
    ipc: PathBuf,
    /// The requests for which the host has taken the files. The latest is used first.
    requests: Mutex<Vec<RequestId>>,
    /// The time of the last look for files of shims that were killed.
    cleaned: Mutex<Option<Instant>>,
}

impl SpareFiles {
    /// Begins without files.
    pub(super) fn new(ipc: PathBuf) -> Self {
        Self { ipc, requests: Mutex::default(), cleaned: Mutex::default() }
    }

    /// Writes a request into a spare file or a new one. From time to time it removes old files: of shims that were
    /// killed, and of requests whose replies this shim did not wait for.
    ///
    /// # Errors
    /// [`MailboxError`]; there is no such request.
    pub(super) fn write(&self, tasks: &Directory, name: &str, bytes: &[u8]) -> Result<(), MailboxError> {
        self.clean(tasks);
        let request = self.requests().pop();
        if let Some(spare) = request.as_ref().map(spare_name) {
            // A host that does not know the name of the request has removed the file.
            if tasks.rewrite(&spare, bytes).and_then(|()| tasks.rename(&spare, name)).is_ok() {
                return Ok(());
            }
        }
        tasks.write(name, bytes, REQUEST_MODE)
    }

    /// Adds the file of a request that the host has taken.
    pub(super) fn add(&self, request: &RequestId) {
        let mut requests = self.requests();
        if requests.contains(request) {
            return;
        }
        if requests.len() < FILES_MAX {
            requests.push(request.clone());
        } else if let Some(tasks) = self.tasks() {
            tasks.remove(&spare_name(request)).ok();
        }
    }

    fn clean(&self, tasks: &Directory) {
        let mut cleaned = self.cleaned.lock().unwrap_or_else(PoisonError::into_inner);
        if cleaned.is_none_or(|at| at.elapsed() >= REPLY_KEEP) {
            *cleaned = Some(Instant::now());
            remove_old(tasks);
        }
    }

    fn tasks(&self) -> Option<Directory> {
        Directory::open(&self.ipc).ok()?.open_dir(TASKS).ok()
    }

    fn requests(&self) -> MutexGuard<'_, Vec<RequestId>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SpareFiles {
    fn drop(&mut self) {
        let requests = std::mem::take(&mut *self.requests());
        if let Some(tasks) = self.tasks().filter(|_| !requests.is_empty()) {
            for request in requests {
                tasks.remove(&spare_name(&request)).ok();
            }
        }
    }
}

/// Removes spare files that were not used for a long time.
fn remove_old(tasks: &Directory) {
    let before = i128::from(document::now().minus(REPLY_KEEP).millis()) * 1_000_000;
    let (mut old, mut names) = (Vec::new(), 0);
    let listed = tasks.for_each_name(|name| {
        names += 1;
        if is_spare(name) && tasks.modified_ns(name).is_some_and(|at| at < before) {
            old.push(name.to_owned());
        }
        names < NAMES_MAX
    });
    if listed.is_ok() {
        for name in old {
            tasks.remove(&name).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared::mailbox::reusable_name;
    use std::os::unix::fs::MetadataExt as _;
    use std::path::Path;
    use std::time::Duration;

    fn mailbox() -> (tempfile::TempDir, Directory) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join(TASKS)).unwrap();
        let tasks = Directory::open(&folder.path().join(TASKS)).unwrap();
        (folder, tasks)
    }

    fn names(ipc: &Path) -> Vec<String> {
        let names = std::fs::read_dir(ipc.join(TASKS)).unwrap();
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_request_is_written_into_the_file_of_an_earlier_one_that_the_host_has_taken() {
        let (folder, tasks) = mailbox();
        let files = SpareFiles::new(folder.path().to_owned());
        let [a, b, c]: [RequestId; 3] = ["a", "b", "c"].map(|id| id.parse().unwrap());
        files.write(&tasks, &reusable_name(&a), b"first and long").unwrap();
        let inode = folder.path().join("tasks/a.reuse.json").metadata().unwrap().ino();
        assert!(tasks.retire(&reusable_name(&a)).unwrap());
        assert_eq!(names(folder.path()), [".spare-a"]);
        files.add(&a);
        files.write(&tasks, &reusable_name(&b), b"second").unwrap();
        assert_eq!(names(folder.path()), ["b.reuse.json"]);
        assert_eq!(folder.path().join("tasks/b.reuse.json").metadata().unwrap().ino(), inode);
        assert_eq!(tasks.read(&reusable_name(&b), 100, None).unwrap().bytes, b"second");
        // A host that removes the file takes nothing from a later request.
        assert!(tasks.remove(&reusable_name(&b)).unwrap());
        files.add(&b);
        files.write(&tasks, &reusable_name(&c), b"third").unwrap();
        assert_eq!(tasks.read(&reusable_name(&c), 100, None).unwrap().bytes, b"third");
        tasks.retire(&reusable_name(&c)).unwrap();
        files.add(&c);
        drop(files);
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn a_file_that_another_process_may_read_is_not_used_again() {
        let (folder, tasks) = mailbox();
        let files = SpareFiles::new(folder.path().to_owned());
        let [a, b]: [RequestId; 2] = ["a", "b"].map(|id| id.parse().unwrap());
        files.write(&tasks, &reusable_name(&a), b"first").unwrap();
        // The host answers, and the request is still there.
        files.add(&a);
        files.write(&tasks, &reusable_name(&b), b"second").unwrap();
        for (id, bytes) in [(a, "first"), (b, "second")] {
            assert_eq!(tasks.read(&reusable_name(&id), 100, None).unwrap().bytes, bytes.as_bytes());
        }
    }

    #[test]
    fn files_of_shims_that_were_killed_are_removed_once_they_are_old() {
        let (folder, tasks) = mailbox();
        for (name, age) in [(".spare-old", REPLY_KEEP * 2), (".spare-new", Duration::ZERO), ("x.json", REPLY_KEEP * 2)]
        {
            let file = std::fs::File::create(folder.path().join(TASKS).join(name)).unwrap();
            let now = file.metadata().unwrap().modified().unwrap();
            file.set_modified(now - age).unwrap();
        }
        SpareFiles::new(folder.path().to_owned()).write(&tasks, "a.reuse.json", b"{}").unwrap();
        let mut left = names(folder.path());
        left.sort();
        assert_eq!(left, [".spare-new", "a.reuse.json", "x.json"]);
    }
}
