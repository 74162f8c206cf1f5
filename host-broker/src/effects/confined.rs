//! Where rooms are started: a thread from which nobody reaches the kernel's keyrings.
//!
//! Bubblewrap leaves a child in the keyring of the session, and a user's own keyring gives everything to whoever has the
//! user's number, in whatever namespace: a program in a room would read what operators keep there. So a thread of its own
//! starts every room, and has told the kernel beforehand to refuse these calls, for itself and for all that descends from
//! it. There is no way back.
//!
//! Source: keyrings(7), user-keyring(7), seccomp(2).

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use std::io;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use tokio::process::{Child, Command};
use tokio::runtime::Handle;

/// The calls that have to do with keys.
const KEYS: [i64; 3] = [libc::SYS_add_key, libc::SYS_request_key, libc::SYS_keyctl];
/// The same calls under their other numbers, which an `x86_64` kernel may know, too.
#[cfg(target_arch = "x86_64")]
const OTHER_NUMBERS: i64 = 0x4000_0000;

type Start = Box<dyn FnOnce() + Send>;

/// Starts a child from there.
///
/// # Errors
/// It cannot be started, or nothing would keep it from the keyrings; nothing was executed.
///
/// # Panics
/// Outside of a runtime.
pub(super) fn spawn(mut command: Command) -> io::Result<Child> {
    static STARTS: Mutex<Option<Sender<Start>>> = Mutex::new(None);
    let mut starts = STARTS.lock().unwrap_or_else(PoisonError::into_inner);
    let starts = match &mut *starts {
        Some(starts) => starts.clone(),
        none @ None => none.insert(thread()?).clone(),
    };
    let (runtime, (tell, told)) = (Handle::current(), channel());
    let start = move || {
        let _entered = runtime.enter();
        // Whoever asked may have gone; then the child is dropped, and killed.
        tell.send(command.spawn()).ok();
    };
    let gone = || io::Error::other("the thread that starts rooms has ended");
    starts.send(Box::new(start)).map_err(|_gone| gone())?;
    told.recv().map_err(|_gone| gone())?
}

/// It lives as long as this process: a room dies with the thread that has started it.
fn thread() -> io::Result<Sender<Start>> {
    let filter = filter().map_err(io::Error::other)?;
    let (starts, started) = channel::<Start>();
    let (tell, told) = channel();
    thread::Builder::new().name("rooms".to_owned()).spawn(move || {
        let confined = seccompiler::apply_filter(&filter);
        let is_confined = confined.is_ok();
        tell.send(confined).ok();
        if is_confined {
            for start in started {
                start();
            }
        }
    })?;
    told.recv().map_err(io::Error::other)?.map_err(io::Error::other)?;
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
