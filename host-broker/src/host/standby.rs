//! The control socket of a daemon that cannot start after a reload. It says why, and takes `stop` and `reload`.
//!
//! The configuration may be unknown then, so only the daemon's own user and root are heard.

use super::bind;
use crate::control::{ProcessRequest, command, fault};
use config::ROOT;
use platform::home::Home;
use serde_json::json;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinHandle;

/// How long a command may take to arrive.
const TIMEOUT: Duration = Duration::from_secs(1);

/// A wish of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// End.
    Stop,
    /// Try again at once.
    TryAgain,
}

/// The socket, until it is dropped.
pub struct Standby {
    task: JoinHandle<()>,
    wishes: Receiver<Wish>,
    fault: Arc<Mutex<String>>,
}

impl Standby {
    /// Opens the socket; `None` if it cannot be made.
    pub fn open(home: &Home, runtime: &Handle, because: &str) -> Option<Self> {
        let listener = bind(&home.socket(), None, runtime).ok()?;
        let (sender, wishes) = channel(1);
        let fault = Arc::new(Mutex::new(because.to_owned()));
        let task = runtime.spawn(listen(listener, Arc::clone(&fault), sender));
        Some(Self { task, wishes, fault })
    }

    /// Changes the reason.
    pub fn because(&self, because: &str) {
        because.clone_into(&mut self.fault.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits for a wish.
    pub async fn wish(&mut self) -> Wish {
        match self.wishes.recv().await {
            Some(wish) => wish,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Standby {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn listen(listener: UnixListener, because: Arc<Mutex<String>>, wishes: Sender<Wish>) {
    // One after the other: each has a second.
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(serve(stream, &because, &wishes).await),
            Err(_) => tokio::time::sleep(TIMEOUT).await,
        }
    }
}

async fn serve(stream: UnixStream, because: &Mutex<String>, wishes: &Sender<Wish>) -> std::io::Result<()> {
    let own = rustix::process::geteuid().as_raw();
    if !stream.peer_cred().is_ok_and(|peer| peer.uid() == own || peer.uid() == ROOT) {
        return Ok(());
    }
    let (reader, mut writer) = stream.into_split();
    let Some(line) = command(reader, TIMEOUT).await? else { return Ok(()) };
    let because = because.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let wish = match serde_json::from_slice(&line) {
        Ok(ProcessRequest::Stop) => Some(Wish::Stop),
        Ok(ProcessRequest::Reload) => Some(Wish::TryAgain),
        _ => None,
    };
    let mut answer = match wish {
        Some(Wish::Stop) => json!({ "status": "executed", "summary": "The daemon stops." }).to_string().into_bytes(),
        Some(Wish::TryAgain) | None => fault(&format!("the daemon cannot start after a reload, and waits: {because}")),
    };
    answer.push(b'\n');
    writer.write_all(&answer).await?;
    if let Some(wish) = wish {
        wishes.send(wish).await.ok();
    }
    Ok(())
}
