//! The thread that starts sandboxes. Its children cannot use the kernel's keyrings, nor type on a terminal.
//!
//! A dedicated thread starts every sandbox. It first [confines](confinement) itself and so its descendants, which is
//! irreversible.

pub(super) use confinement::Confinement;
use std::io;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use tokio::process::{Child, Command};
use tokio::runtime::Handle;

type Start = Box<dyn FnOnce() + Send>;

/// Starts a child from a confined thread.
///
/// # Errors
/// The child cannot be started, or the filter cannot be installed. Nothing was executed.
///
/// # Panics
/// Outside a Tokio runtime.
pub(super) fn spawn(mut command: Command, confinement: Confinement) -> io::Result<Child> {
    static PROVIDERS: Mutex<Option<Sender<Start>>> = Mutex::new(None);
    static AGENTS: Mutex<Option<Sender<Start>>> = Mutex::new(None);
    let starts = match confinement {
        Confinement::Provider => &PROVIDERS,
        Confinement::Agent => &AGENTS,
    };
    let mut starts = starts.lock().unwrap_or_else(PoisonError::into_inner);
    let starts = match &mut *starts {
        Some(starts) => starts.clone(),
        none @ None => none.insert(thread(confinement)?).clone(),
    };
    let (runtime, (sender, receiver)) = (Handle::current(), channel());
    let start = move || {
        let _entered = runtime.enter();
        // If the caller is gone, the child is dropped, which kills it.
        sender.send(command.spawn()).ok();
    };
    let gone = || io::Error::other("the thread that starts sandboxes has ended");
    starts.send(Box::new(start)).map_err(|_gone| gone())?;
    receiver.recv().map_err(|_gone| gone())?
}

/// The thread lives as long as the process: a sandbox dies with the thread that started it.
fn thread(confinement: Confinement) -> io::Result<Sender<Start>> {
    let (starts, started) = channel::<Start>();
    let (sender, receiver) = channel();
    thread::Builder::new().name("sandboxes".to_owned()).spawn(move || {
        let confined = confinement::confine(confinement);
        let is_confined = confined.is_ok();
        sender.send(confined).ok();
        if is_confined {
            for start in started {
                start();
            }
        }
    })?;
    receiver.recv().map_err(io::Error::other)??;
    Ok(starts)
}
