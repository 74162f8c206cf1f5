//! The thread that starts sandboxes. Its children cannot use the kernel's keyrings.
//!
//! Bubblewrap leaves a child in the session keyring. A user keyring is open to every process with the user's number, in
//! every namespace. So a sandboxed program could read the operators' keys. A dedicated thread starts every sandbox. It
//! first installs a seccomp filter that refuses the keyring calls for itself and its descendants. The filter is
//! irreversible.
//!
//! Source: keyrings(7), user-keyring(7), seccomp(2).

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use std::io;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use tokio::process::{Child, Command};
use tokio::runtime::Handle;

/// The system calls of the keyrings.
const KEYS: [i64; 3] = [libc::SYS_add_key, libc::SYS_request_key, libc::SYS_keyctl];
/// The x32 numbers of the same calls, which an `x86_64` kernel may accept.
#[cfg(target_arch = "x86_64")]
const OTHER_NUMBERS: i64 = 0x4000_0000;

type Start = Box<dyn FnOnce() + Send>;

/// Starts a child from the confined thread.
///
/// # Errors
/// The child cannot be started, or the filter cannot be installed. Nothing was executed.
///
/// # Panics
/// Outside a Tokio runtime.
pub(super) fn spawn(mut command: Command) -> io::Result<Child> {
    static STARTS: Mutex<Option<Sender<Start>>> = Mutex::new(None);
    let mut starts = STARTS.lock().unwrap_or_else(PoisonError::into_inner);
    let starts = match &mut *starts {
        Some(starts) => starts.clone(),
        none @ None => none.insert(thread()?).clone(),
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
fn thread() -> io::Result<Sender<Start>> {
    let filter = filter().map_err(io::Error::other)?;
    let (starts, started) = channel::<Start>();
    let (sender, receiver) = channel();
    thread::Builder::new().name("sandboxes".to_owned()).spawn(move || {
        let confined = seccompiler::apply_filter(&filter);
        let is_confined = confined.is_ok();
        sender.send(confined).ok();
        if is_confined {
            for start in started {
                start();
            }
        }
    })?;
    receiver.recv().map_err(io::Error::other)?.map_err(io::Error::other)?;
    Ok(starts)
}

fn filter() -> Result<BpfProgram, seccompiler::BackendError> {
    let numbers = KEYS.into_iter();
    #[cfg(target_arch = "x86_64")]
    let numbers = numbers.flat_map(|number| [number, number | OTHER_NUMBERS]);
    let refused = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let rules = numbers.map(|number| (number, Vec::new())).collect();
    SeccompFilter::new(rules, SeccompAction::Allow, refused, std::env::consts::ARCH.try_into()?)?.try_into()
}
