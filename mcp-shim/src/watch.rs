//! Kernel notification for the mailbox: the only Linux-specific file of this crate.
//!
//! A watch says nothing but "look". A waiting call hears when a document of its name arrives, and then looks for
//! itself. So a lost, merged or spurious notice does no harm. Without a watch everything still works by polling:
//! inotify instances are limited for each user, and some mounts pass no notices on.

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

/// One inotify instance for the whole process.
///
/// Must be made inside the runtime, whose task reads it.
#[derive(Debug, Clone)]
pub struct Watch {
    inotify: Option<Arc<AsyncFd<OwnedFd>>>,
    waiting: Arc<Waiting>,
}

/// Notices of certain documents that arrive from now on.
#[derive(Debug)]
pub struct Arrivals {
    stems: Vec<String>,
    notice: Arc<Notify>,
    waiting: Arc<Waiting>,
}

/// The calls that wait for each document. With many calls under way, each is woken by its own reply only.
#[derive(Debug, Default)]
struct Waiting(Mutex<HashMap<String, Vec<Arc<Notify>>>>);

impl Watch {
    /// A watch on nothing yet; without an inotify instance to be had, the same as [`Watch::blind`].
    pub fn new() -> Self {
        let mut watch = Self::blind();
        let fd = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok();
        #[expect(deprecated, reason = "its successor is unsafe; what it asks of a descriptor, an `OwnedFd` promises")]
        let fd = fd.and_then(|fd| AsyncFd::new(fd).ok());
        watch.inotify = fd.map(Arc::new);
        if let Some(inotify) = &watch.inotify {
            tokio::spawn(pass_on(Arc::clone(inotify), Arc::clone(&watch.waiting)));
        }
        watch
    }

    /// A watch that never notices anything.
    pub fn blind() -> Self {
        Self { inotify: None, waiting: Arc::default() }
    }

    /// Watches a directory for documents that are put into it.
    ///
    /// Repeating this costs one system call and changes nothing, unless the directory was replaced in between: then
    /// the new one is watched. So it is simply done before every wait.
    pub fn add(&self, directory: &Path) {
        if let Some(inotify) = &self.inotify {
            // A document appears by a rename or by a link (`CREATE`). Closing covers hosts that write in place.
            let appears = WatchFlags::MOVED_TO | WatchFlags::CREATE | WatchFlags::CLOSE_WRITE;
            let flags = appears | WatchFlags::ONLYDIR;
            // Without a watch there is polling.
            inotify::add_watch(&**inotify, directory, flags).ok();
        }
    }

    /// Wakes the calls that wait for a document of this name.
    pub fn tell(&self, name: &str) {
        self.waiting.tell(Some(name));
    }

    /// Notices, from now on, of documents with one of these stems: their names up to the first dot.
    pub fn arrivals(&self, stems: Vec<String>) -> Arrivals {
        let notice = Arc::new(Notify::new());
        let mut waiting = self.waiting.lock();
        for stem in &stems {
            waiting.entry(stem.clone()).or_default().push(Arc::clone(&notice));
        }
        drop(waiting);
        Arrivals { stems, notice, waiting: Arc::clone(&self.waiting) }
    }
}

impl Default for Watch {
    fn default() -> Self {
        Self::new()
    }
}

impl Arrivals {
    /// Waits until something has arrived since the last time.
    pub async fn next(&mut self) {
        self.notice.notified().await;
    }
}

impl Drop for Arrivals {
    fn drop(&mut self) {
        let mut waiting = self.waiting.lock();
        for stem in &self.stems {
            let Some(notices) = waiting.get_mut(stem) else { continue };
            notices.retain(|notice| !Arc::ptr_eq(notice, &self.notice));
            if notices.is_empty() {
                waiting.remove(stem);
            }
        }
    }
}

impl Waiting {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Vec<Arc<Notify>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the calls that wait for a document of this name, or all if the name is unknown.
    fn tell(&self, name: Option<&str>) {
        let waiting = self.lock();
        match name.map(stem) {
            Some(stem) => waiting.get(stem).into_iter().flatten().for_each(|notice| notice.notify_one()),
            None => waiting.values().flatten().for_each(|notice| notice.notify_one()),
        }
    }
}

/// Returns the common part of the names of a reply and of the progress before it.
pub fn stem(name: &str) -> &str {
    name.split_once('.').map_or(name, |(stem, _)| stem)
}

/// Turns inotify events into notices for as long as the descriptor can be read.
async fn pass_on(inotify: Arc<AsyncFd<OwnedFd>>, waiting: Arc<Waiting>) {
    while let Ok(mut ready) = inotify.readable().await {
        match drain(&inotify, &waiting) {
            Errno::AGAIN => ready.clear_ready(),
            Errno::INTR => {}
            _ => return,
        }
    }
}

/// Reads events and passes them on, and returns why there are no more.
fn drain(inotify: &AsyncFd<OwnedFd>, waiting: &Waiting) -> Errno {
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut events = inotify::Reader::new(inotify.get_ref(), &mut buffer);
    loop {
        match events.next() {
            Ok(event) if event.events().contains(ReadFlags::QUEUE_OVERFLOW) => waiting.tell(None),
            Ok(event) => match event.file_name().map(|name| name.to_str()) {
                Some(Ok(name)) => waiting.tell(Some(name)),
                // A name that is not UTF-8 is no document's name.
                Some(Err(_)) => {}
                None => waiting.tell(None),
            },
            Err(errno) => return errno,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    async fn in_time(arrivals: &mut Arrivals) {
        tokio::time::timeout(Duration::from_secs(10), arrivals.next()).await.unwrap();
    }

    #[tokio::test]
    async fn each_hears_of_its_own_document_only() {
        let directory = tempfile::tempdir().unwrap();
        let watch = Watch::new();
        watch.add(directory.path());
        let [mut first, mut again, mut other] = ["a", "a", "b"].map(|stem| watch.arrivals(vec![stem.to_owned()]));
        for name in ["a.json", "a.progress.json"] {
            std::fs::write(directory.path().join(".tmp"), "x").unwrap();
            std::fs::rename(directory.path().join(".tmp"), directory.path().join(name)).unwrap();
            in_time(&mut first).await;
            in_time(&mut again).await;
        }
        drop(again);
        std::fs::write(directory.path().join("b.json"), "x").unwrap();
        in_time(&mut other).await;
        // The last was noticed after all that concerned the first, who would know by now.
        assert!(futures_are_quiet(&mut first));
        drop((first, other));
        assert!(watch.waiting.lock().is_empty());
    }

    fn futures_are_quiet(arrivals: &mut Arrivals) -> bool {
        let mut next = std::pin::pin!(arrivals.next());
        next.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop())).is_pending()
    }

    #[tokio::test]
    async fn a_renamed_file_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let watch = Watch::new();
        watch.add(directory.path());
        let mut arrivals = watch.arrivals(vec!["b".to_owned()]);
        std::fs::write(directory.path().join("a"), "x").unwrap();
        std::fs::rename(directory.path().join("a"), directory.path().join("b")).unwrap();
        in_time(&mut arrivals).await;
    }

    #[tokio::test]
    async fn a_directory_that_was_replaced_is_watched_again() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("responses");
        let watch = Watch::new();
        watch.add(&path);
        for _ in 0..2 {
            std::fs::create_dir(&path).unwrap();
            watch.add(&path);
            let mut arrivals = watch.arrivals(vec!["a".to_owned()]);
            std::fs::write(path.join("a"), "x").unwrap();
            in_time(&mut arrivals).await;
            std::fs::remove_dir_all(&path).unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_blind_watch_never_ends_a_wait() {
        let watch = Watch::blind();
        watch.add(Path::new("/"));
        let mut arrivals = watch.arrivals(vec!["a".to_owned()]);
        drop(watch);
        assert!(tokio::time::timeout(Duration::from_secs(3600), arrivals.next()).await.is_err());
    }
}
