//! The listener of a group's socket.
//!
//! A user who may write in `tasks/` may connect: the socket has the owner and the mode of that directory. It is made
//! under a temporary name, gets its mode, listens, and is then renamed, so it is never half made.
//!
//! SECURITY: the sandbox may own the directory and exchange names in it. The socket is made through a handle to the
//! directory, follows no link, and its mode is set through a handle to the very file.

use crate::mailboxes::Handles;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use shared::mailbox::{SOCKET, temporary_name};
use std::os::fd::{AsRawFd as _, OwnedFd};

/// How many connections wait to be accepted.
const BACKLOG: i32 = 64;

/// A socket that takes connections.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) fd: OwnedFd,
    // The device and the inode of its name.
    identity: (u64, u64),
    /// Whether its connections wait unaccepted.
    pub(super) rests: bool,
}

/// The socket cannot be made.
#[derive(Debug, thiserror::Error)]
pub(super) enum ListenerError {
    #[error("{SOCKET} is no socket; remove it")]
    NotASocket,
    #[error("the file that was made is another one")]
    Exchanged,
    #[error("{step} failed: {errno}")]
    System { step: &'static str, errno: Errno },
    // Connections may wait in it already, so its close can block.
    #[error("renaming the socket failed: {errno}")]
    Renaming { socket: OwnedFd, errno: Errno },
}

impl ListenerError {
    /// Returns the socket, which the caller closes elsewhere.
    pub(super) fn into_socket(self) -> Option<OwnedFd> {
        if let Self::Renaming { socket, .. } = self { Some(socket) } else { None }
    }
}

fn at(step: &'static str) -> impl Fn(Errno) -> ListenerError {
    move |errno| ListenerError::System { step, errno }
}

impl Listener {
    /// Makes the socket in a group's directory. It replaces one that is there already.
    pub(super) fn make(handles: &Handles) -> Result<Self, ListenerError> {
        if let Some(there) = look(handles)
            && FileType::from_raw_mode(there.st_mode) != FileType::Socket
        {
            return Err(ListenerError::NotASocket);
        }
        let temporary = temporary_name();
        let made = make(handles, &temporary);
        if made.is_err() {
            // It may not be there at all.
            rustix::fs::unlinkat(&handles.root, &temporary, AtFlags::empty()).ok();
        }
        made
    }

    /// Returns whether the name still leads to this socket.
    pub(super) fn is_in_place(&self, handles: &Handles) -> bool {
        look(handles).is_some_and(|there| (there.st_dev, there.st_ino) == self.identity)
    }

    /// Removes the name, if it is still the name of this socket.
    pub(super) fn remove(&self, handles: &Handles) {
        if self.is_in_place(handles) {
            // A name that stays leads to nothing; a shim then uses files.
            rustix::fs::unlinkat(&handles.root, SOCKET, AtFlags::empty()).ok();
        }
    }
}

fn look(handles: &Handles) -> Option<Stat> {
    rustix::fs::statat(&handles.root, SOCKET, AtFlags::SYMLINK_NOFOLLOW).ok()
}

fn make(handles: &Handles, temporary: &str) -> Result<Listener, ListenerError> {
    let tasks = rustix::fs::fstat(&handles.tasks).map_err(at("looking at tasks"))?;
    let mode = Mode::from_raw_mode(tasks.st_mode & 0o777);
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).map_err(at("socket"))?;
    // Until the mode is set, only the broker itself can connect.
    rustix::fs::fchmod(&fd, Mode::RUSR | Mode::WUSR).map_err(at("setting the mode"))?;
    // The path of a home can be longer than an address; that of the handle never is.
    let path = format!("/proc/self/fd/{}/{temporary}", rustix::fd::AsFd::as_fd(&handles.root).as_raw_fd());
    let address = SocketAddrUnix::new(path.as_str()).map_err(at("naming the socket"))?;
    rustix::net::bind(&fd, &address).map_err(at("bind"))?;
    let name =
        rustix::fs::openat(&handles.root, temporary, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
            .map_err(at("looking at the socket"))?;
    let socket = rustix::fs::fstat(&name).map_err(at("looking at the socket"))?;
    let is_ours = FileType::from_raw_mode(socket.st_mode) == FileType::Socket
        && socket.st_uid == rustix::process::geteuid().as_raw()
        && socket.st_nlink == 1;
    if !is_ours {
        return Err(ListenerError::Exchanged);
    }
    let by_handle = format!("/proc/self/fd/{}", name.as_raw_fd());
    rustix::fs::chmod(by_handle.as_str(), mode).map_err(at("setting the mode"))?;
    if (socket.st_uid, socket.st_gid) != (tasks.st_uid, tasks.st_gid) {
        let (owner, group) = (rustix::fs::Uid::from_raw(tasks.st_uid), rustix::fs::Gid::from_raw(tasks.st_gid));
        rustix::fs::chownat(&name, "", Some(owner), Some(group), AtFlags::EMPTY_PATH)
            .map_err(at("setting the owner"))?;
    }
    rustix::net::listen(&fd, BACKLOG).map_err(at("listen"))?;
    if let Err(errno) = rustix::fs::renameat(&handles.root, temporary, &handles.root, SOCKET) {
        return Err(ListenerError::Renaming { socket: fd, errno });
    }
    Ok(Listener { fd, identity: (socket.st_dev, socket.st_ino), rests: false })
}
