//! Kernel notification for the mailbox: the only Linux-specific file of this crate.
//!
//! A watch tells nothing but "something arrived": whoever waits then looks for itself. So a lost, merged or
//! spurious notice does no harm, and where no watch can be had — inotify instances are limited for each user, and
//! some mounts pass no notices on — everything still works by polling.

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch::{Receiver, Sender};

/// One inotify instance for the whole process.
///
/// Must be made inside the runtime, whose task reads it.
#[derive(Debug)]
pub struct Watch {
    inotify: Option<Arc<AsyncFd<OwnedFd>>>,
    // INVARIANT: lives as long as the watch, so that a subscription never ends and nobody spins on a closed one.
    arrivals: Arc<Sender<u64>>,
}

/// Notices that arrive from now on.
#[derive(Debug)]
pub struct Arrivals(Receiver<u64>);

impl Watch {
    /// A watch on nothing yet; without an inotify instance to be had, the same as [`Watch::blind`].
    pub fn new() -> Self {
        let mut watch = Self::blind();
        let fd = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok();
        #[expect(deprecated, reason = "its successor is unsafe; what it asks of a descriptor, an `OwnedFd` promises")]
        let fd = fd.and_then(|fd| AsyncFd::new(fd).ok());
        watch.inotify = fd.map(Arc::new);
        if let Some(inotify) = &watch.inotify {
            tokio::spawn(pass_on(Arc::clone(inotify), Arc::clone(&watch.arrivals)));
        }
        watch
    }

    /// A watch that never notices anything.
    pub fn blind() -> Self {
        Self { inotify: None, arrivals: Arc::new(Sender::new(0)) }
    }

    /// Watches a directory for documents that are put into it.
    ///
    /// Repeating this costs one system call and changes nothing, unless the directory was replaced in between: then
    /// the new one is watched. So it is simply done before every wait.
    pub fn add(&self, directory: &Path) {
        if let Some(inotify) = &self.inotify {
            // A rename is how both sides write; closing covers hosts that write in place.
            let flags = WatchFlags::MOVED_TO | WatchFlags::CLOSE_WRITE | WatchFlags::ONLYDIR;
            // Without a watch there is polling.
            inotify::add_watch(&**inotify, directory, flags).ok();
        }
    }

    /// Notices that arrive after this.
    pub fn arrivals(&self) -> Arrivals {
        Arrivals(self.arrivals.subscribe())
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
        if self.0.changed().await.is_err() {
            // The watch is gone, so nothing will ever arrive: the caller's polling goes on alone.
            std::future::pending::<()>().await;
        }
    }
}

/// Turns inotify events into notices for as long as the descriptor can be read.
async fn pass_on(inotify: Arc<AsyncFd<OwnedFd>>, arrivals: Arc<Sender<u64>>) {
    while let Ok(mut ready) = inotify.readable().await {
        match drain(&inotify) {
            Errno::AGAIN => ready.clear_ready(),
            Errno::INTR => {}
            _ => return,
        }
        arrivals.send_modify(|count| *count = count.wrapping_add(1));
    }
}

/// Reads events, whichever they are, and returns why there are no more.
fn drain(inotify: &AsyncFd<OwnedFd>) -> Errno {
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut events = inotify::Reader::new(inotify.get_ref(), &mut buffer);
    loop {
        if let Err(errno) = events.next() {
            return errno;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn a_renamed_file_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let watch = Watch::new();
        watch.add(directory.path());
        let mut arrivals = watch.arrivals();
        std::fs::write(directory.path().join("a"), "x").unwrap();
        std::fs::rename(directory.path().join("a"), directory.path().join("b")).unwrap();
        tokio::time::timeout(Duration::from_secs(10), arrivals.next()).await.unwrap();
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
            let mut arrivals = watch.arrivals();
            std::fs::write(path.join("a"), "x").unwrap();
            tokio::time::timeout(Duration::from_secs(10), arrivals.next()).await.unwrap();
            std::fs::remove_dir_all(&path).unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_blind_watch_never_ends_a_wait() {
        let watch = Watch::blind();
        watch.add(Path::new("/"));
        let mut arrivals = watch.arrivals();
        drop(watch);
        assert!(tokio::time::timeout(Duration::from_secs(3600), arrivals.next()).await.is_err());
    }
}
