//! Egress of a sandbox: connections to the configured hosts, and nothing else.
//!
//! The sandbox has a network namespace with only a loopback interface. Each host has an address there, and the broker
//! listens on it. [`init`] is the first program in the namespace: it creates the listeners and passes them to the broker
//! before a program of the provider starts. The broker forwards each connection to the host of that address, by the name
//! in the configuration. It forwards bytes unchanged, so TLS is end to end. The program needs no proxy settings: it finds
//! its hosts in its own `/etc/hosts`.

mod host;
pub mod init;
mod route;

pub use host::{Host, MAX as HOSTS_MAX};

use route::Route;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::{AsyncWrite, Interest, copy_bidirectional};
use tokio::net::unix::pipe;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// The connections of one sandbox at a time. Others wait.
const CONNECTIONS_MAX: usize = 64;
/// The connections of all sandboxes at a time.
const CONNECTIONS_ALL: usize = 256;
static CONNECTIONS: Semaphore = Semaphore::const_new(CONNECTIONS_ALL);
/// The time for a connection to a host.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The broker's end of its socket to `sandbox-init`. The other end is the standard input of `sandbox-init`.
#[derive(Debug)]
pub(super) struct EgressProxy {
    ours: UnixStream,
}

/// The write end of the standard input of the sandboxed program.
pub(super) type Input = Box<dyn AsyncWrite + Send + Unpin>;

impl EgressProxy {
    /// Creates the socket pair. Returns the standard input of `sandbox-init` and, if the program `reads` its own standard
    /// input, the write end of that pipe.
    pub(super) fn new(reads: bool) -> io::Result<(Self, OwnedFd, Option<Input>)> {
        let (ours, theirs) = UnixStream::pair()?;
        if reads {
            let (reader, writer) = io::pipe()?;
            send(&ours, &[reader.as_fd()])?;
            let input = pipe::Sender::from_owned_fd(writer.into())?;
            return Ok((Self { ours }, theirs.into(), Some(Box::new(input))));
        }
        send(&ours, &[std::fs::File::open("/dev/null")?.as_fd()])?;
        Ok((Self { ours }, theirs.into(), None))
    }

    /// Creates the socket pair for a program that uses this input itself, such as a terminal. Returns the standard input of
    /// `sandbox-init`.
    pub(super) fn with_input(input: impl AsFd) -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = UnixStream::pair()?;
        send(&ours, &[input.as_fd()])?;
        Ok((Self { ours }, theirs.into()))
    }

    /// Forwards connections to these hosts until it is dropped.
    pub(super) async fn serve(self, hosts: Vec<Host>) {
        let listeners = match self.listeners(hosts.len()).await {
            Ok(listeners) => listeners,
            // `sandbox-init` ended early; its own exit says why.
            Err(error) => {
                return tracing::debug!(%error, "a sandbox ended before its listeners were passed to the broker");
            }
        };
        let of_sandbox = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let mut open = JoinSet::new();
        for (listener, host) in listeners.into_iter().zip(hosts) {
            open.spawn(accept(listener, Route::new(host), Arc::clone(&of_sandbox)));
        }
        open.join_all().await;
    }

    async fn listeners(self, count: usize) -> io::Result<Vec<TcpListener>> {
        self.ours.set_nonblocking(true)?;
        let ours = tokio::net::UnixStream::from_std(self.ours)?;
        let handed = loop {
            ours.readable().await?;
            match ours.try_io(Interest::READABLE, || receive(&ours)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                handed => break handed?,
            }
        };
        if handed.len() != count {
            return Err(io::Error::other("sandbox-init passed too few listeners"));
        }
        let listening = |handed: OwnedFd| {
            let listener = std::net::TcpListener::from(handed);
            listener.set_nonblocking(true)?;
            TcpListener::from_std(listener)
        };
        handed.into_iter().map(listening).collect()
    }
}

async fn accept(listener: TcpListener, route: Arc<Route>, of_sandbox: Arc<Semaphore>) {
    let mut open = JoinSet::new();
    let is_logged = Arc::new(AtomicBool::new(false));
    loop {
        let mut inside = match listener.accept().await {
            Ok((inside, _address)) => inside,
            // File descriptors may be exhausted; the client waits.
            Err(_error) => {
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        // A place is taken after a connection, so an idle host has none. The semaphores are never closed.
        let (Ok(place), Ok(place_of_all)) =
            (Arc::clone(&of_sandbox).acquire_owned().await, CONNECTIONS.acquire().await)
        else {
            return;
        };
        while open.try_join_next().is_some() {}
        let (route, is_logged) = (Arc::clone(&route), Arc::clone(&is_logged));
        open.spawn(async move {
            let _places = (place, place_of_all);
            // ORDER: the log comes before the end of the connection, with which the sandbox may end.
            if let Err(error) = forward(&mut inside, &route).await
                && !is_logged.swap(true, Ordering::Relaxed)
            {
                // Once for each sandbox and host: the program controls how often it connects.
                tracing::warn!(host = %route.host, %error, "a sandboxed program cannot reach a host");
            }
        });
    }
}

/// Forwards one connection to its host until both sides close it.
async fn forward(inside: &mut TcpStream, route: &Arc<Route>) -> io::Result<()> {
    let reached = tokio::time::timeout(CONNECT_TIMEOUT, route.connect()).await;
    let mut outside = reached.map_err(|_elapsed| io::Error::from(io::ErrorKind::TimedOut))??;
    // Later errors concern only the two ends.
    copy_bidirectional(inside, &mut outside).await.ok();
    Ok(())
}

/// The address of each host in the sandbox: one for each name, and 127.0.0.1 for hosts on this machine.
pub(super) fn addresses(hosts: &[Host]) -> Vec<SocketAddr> {
    let mut names: Vec<&str> = Vec::new();
    let mut addresses = Vec::with_capacity(hosts.len());
    for host in hosts {
        if host.is_local() {
            addresses.push((Ipv4Addr::LOCALHOST, host.port()).into());
            continue;
        }
        let at = names.iter().position(|name| *name == host.name()).unwrap_or_else(|| {
            names.push(host.name());
            names.len() - 1
        });
        let last = u8::try_from(at).map_or(u8::MAX, |at| at.saturating_add(2));
        addresses.push((Ipv4Addr::new(127, 0, 0, last), host.port()).into());
    }
    addresses
}

fn send(to: &UnixStream, handed: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(HOSTS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(handed)) {
        return Err(io::Error::other("too many descriptors to pass"));
    }
    sendmsg(to, &[IoSlice::new(b".")], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

fn receive(from: impl AsFd) -> io::Result<Vec<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(HOSTS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let received = recvmsg(from, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    if received.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    if received.flags.contains(ReturnFlags::CTRUNC) {
        return Err(io::Error::other("more descriptors were passed than expected"));
    }
    let rights = |message| if let RecvAncillaryMessage::ScmRights(handed) = message { Some(handed) } else { None };
    Ok(control.drain().filter_map(rights).flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> Host {
        text.parse().unwrap()
    }

    #[test]
    fn each_name_has_an_address_and_its_ports_share_it() {
        let hosts = ["a.example", "b.example:993", "localhost:5432", "a.example:8443"].map(host);
        let addresses: Vec<String> = addresses(&hosts).iter().map(SocketAddr::to_string).collect();
        assert_eq!(addresses, ["127.0.0.2:443", "127.0.0.3:993", "127.0.0.1:5432", "127.0.0.2:8443"]);
        let all: Vec<Host> = (0..HOSTS_MAX).map(|at| host(&format!("h{at}.example"))).collect();
        let distinct: std::collections::BTreeSet<_> = super::addresses(&all).into_iter().collect();
        assert_eq!(distinct.len(), HOSTS_MAX);
    }

    #[tokio::test]
    async fn listeners_are_passed_and_input_arrives_through_a_pipe() {
        let (proxy, theirs, input) = EgressProxy::new(true).unwrap();
        let theirs = UnixStream::from(theirs);
        let mut pipe = receive(&theirs).unwrap();
        let pipe = std::fs::File::from(pipe.pop().unwrap());
        tokio::io::AsyncWriteExt::write_all(&mut input.unwrap(), b"hello").await.unwrap();
        assert_eq!(io::read_to_string(pipe).unwrap(), "hello");
        // The name `localhost` leads to a real server of this test.
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let inside = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = inside.local_addr().unwrap();
        send(&theirs, &[inside.as_fd()]).unwrap();
        let hosts = vec![host(&format!("localhost:{}", server.local_addr().unwrap().port()))];
        let serving = tokio::spawn(proxy.serve(hosts));
        let mut client = TcpStream::connect(address).await.unwrap();
        let (mut far, _) = server.accept().await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut client, b"ping").await.unwrap();
        let mut heard = [0; 4];
        tokio::io::AsyncReadExt::read_exact(&mut far, &mut heard).await.unwrap();
        assert_eq!(&heard, b"ping");
        // When the sandbox ends, its connections end.
        serving.abort();
        assert_eq!(tokio::io::AsyncReadExt::read(&mut far, &mut heard).await.unwrap_or(0), 0);
    }

    #[tokio::test]
    async fn too_few_listeners_are_rejected() {
        let (proxy, theirs, _input) = EgressProxy::new(false).unwrap();
        let inside = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        send(&UnixStream::from(theirs), &[inside.as_fd()]).unwrap();
        proxy.serve(["a.example", "b.example"].map(host).into()).await;
    }
}
