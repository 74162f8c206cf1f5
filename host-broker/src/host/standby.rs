//! The control socket of a daemon that cannot start after a reload. It says why, and takes `stop` and `reload`.
//!
//! The configuration may be unknown then, so only the daemon's own user and root are heard. While the socket is open, the
//! daemon holds the lock of the home. So no other daemon starts there, and no command works in place.

use super::bind;
use crate::control::{ProcessRequest, command, fault};
use config::ROOT;
use platform::home::Home;
use platform::lock::Lock;
use serde_json::json;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinHandle;

/// How long a command may take to arrive.
const TIMEOUT: Duration = Duration::from_secs(1);

/// The socket, until it is dropped.
pub struct Standby {
    home: PathBuf,
    socket: PathBuf,
    task: JoinHandle<()>,
    // An operator has asked for an attempt, or for a stop.
    requests: Receiver<()>,
    state: Arc<State>,
    lock: Option<Lock>,
}

#[derive(Debug, Default)]
struct State {
    reason: Mutex<String>,
    attempts: AtomicU64,
    stop_requested: AtomicBool,
}

impl Standby {
    /// Opens the socket, which states this reason; `None` if another process has the home, or the socket cannot be made.
    pub fn open(home: &Home, runtime: &Handle, reason: &str) -> Option<Self> {
        let lock = store::lock(home.path()).ok()?;
        let listener = bind(&home.socket(), None, runtime).ok()?;
        let (sender, requests) = channel(1);
        let state = Arc::new(State { reason: Mutex::new(reason.to_owned()), ..State::default() });
        let task = runtime.spawn(listen(listener, Arc::clone(&state), sender));
        let (home, socket) = (home.path().to_owned(), home.socket());
        Some(Self { home, socket, task, requests, state, lock: Some(lock) })
    }

    /// Releases the home for an attempt to start.
    pub fn release(&mut self) {
        self.lock = None;
    }

    /// Holds the home again after an attempt that failed for this reason. Returns whether that is possible: another process
    /// may have it.
    pub fn hold(&mut self, reason: &str) -> bool {
        reason.clone_into(&mut self.state.reason.lock().unwrap_or_else(PoisonError::into_inner));
        self.state.attempts.fetch_add(1, Ordering::AcqRel);
        if self.lock.is_none() {
            self.lock = store::lock(&self.home).ok();
        }
        self.lock.is_some()
    }

    /// Waits until an operator asks for an attempt, or for a stop.
    pub async fn requested(&mut self) {
        if self.requests.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }

    /// Returns whether an operator has asked for a stop.
    pub fn stop_requested(&self) -> bool {
        self.state.stop_requested.load(Ordering::Acquire)
    }
}

impl Drop for Standby {
    fn drop(&mut self) {
        self.task.abort();
        // Without the lock, the socket may be that of another daemon.
        if self.lock.is_some() {
            std::fs::remove_file(&self.socket).ok();
        }
    }
}

async fn listen(listener: UnixListener, state: Arc<State>, requests: Sender<()>) {
    // One after the other: each has a second.
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(serve(stream, &state, &requests).await),
            Err(_) => tokio::time::sleep(TIMEOUT).await,
        }
    }
}

async fn serve(stream: UnixStream, state: &State, requests: &Sender<()>) -> std::io::Result<()> {
    let own = rustix::process::geteuid().as_raw();
    let is_own = stream.peer_cred().is_ok_and(|peer| peer.uid() == own || peer.uid() == ROOT);
    let (reader, mut writer) = stream.into_split();
    let reason = state.reason.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let waits = format!("the daemon cannot start after a reload, and waits: {reason}; to end it: host-broker stop");
    let request = if is_own { command(reader, TIMEOUT).await? } else { None };
    let mut answer = match request.and_then(|line| serde_json::from_slice(&line).ok()) {
        Some(ProcessRequest::Stop) => {
            state.stop_requested.store(true, Ordering::Release);
            requests.try_send(()).ok();
            json!({ "status": "executed", "summary": "The daemon stops." }).to_string().into_bytes()
        }
        Some(ProcessRequest::Reload) => {
            requests.try_send(()).ok();
            json!({ "status": "executed", "summary": "The daemon tries again." }).to_string().into_bytes()
        }
        Some(ProcessRequest::Hello) => {
            let attempts = state.attempts.load(Ordering::Acquire);
            json!({ "status": "denied", "error": waits, "attempts": attempts }).to_string().into_bytes()
        }
        _ if is_own => fault(&waits),
        _ => fault("the daemon waits after a reload, and hears its own user and root only"),
    };
    answer.push(b'\n');
    writer.write_all(&answer).await
}
