//! The way out of a room that may reach certain hosts, and nothing else.
//!
//! Such a room has no network but a loopback of its own. There, each host has an address, at which the broker listens: the
//! [entrance], the first program in the room's network, makes the listeners and hands them over before anything
//! of the provider's is started. Whoever connects is connected with the one host that the address stands for, by the name
//! that the configuration has; what is said passes through as it is, so a TLS session is between the program and its host.
//! Nothing has to be read of what a program says, and a program needs to know nothing of it: it finds its hosts in its
//! `/etc/hosts`.

pub mod entrance;
mod host;
mod reaching;

pub use host::{Host, MAX as HOSTS_MAX};

use reaching::Way;
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

/// So many connections a room has at a time. Others wait.
const CONNECTIONS_MAX: usize = 64;
/// So many all rooms have.
const CONNECTIONS_ALL: usize = 256;
static CONNECTIONS: Semaphore = Semaphore::const_new(CONNECTIONS_ALL);
/// For so long a host may leave a connection unanswered.
const PATIENCE: Duration = Duration::from_secs(10);

/// The broker's end of what it and an entrance say to each other, which for the entrance is its standard input.
#[derive(Debug)]
pub(super) struct Exit {
    ours: UnixStream,
}

/// What the room's program is to read, while it is still to be written.
pub(super) type Input = Box<dyn AsyncWrite + Send + Unpin>;

impl Exit {
    /// One, with what the entrance gets as its standard input, and, if the room's program is to `read` anything, where to
    /// write that. The program itself gets an ordinary pipe.
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

    /// Connects whoever comes with these hosts, until it is dropped.
    pub(super) async fn serve(self, hosts: Vec<Host>) {
        let listeners = match self.listeners(hosts.len()).await {
            Ok(listeners) => listeners,
            // It was ended before, or could not make them: its own end tells why.
            Err(error) => return tracing::debug!(%error, "a room was left before it had a way out"),
        };
        let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let mut open = JoinSet::new();
        for (listener, host) in listeners.into_iter().zip(hosts) {
            open.spawn(accept(listener, Way::new(host), Arc::clone(&room)));
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
            return Err(io::Error::other("it has not handed over a listener for each host"));
        }
        let listening = |handed: OwnedFd| {
            let listener = std::net::TcpListener::from(handed);
            listener.set_nonblocking(true)?;
            TcpListener::from_std(listener)
        };
        handed.into_iter().map(listening).collect()
    }
}

async fn accept(listener: TcpListener, way: Arc<Way>, room: Arc<Semaphore>) {
    let mut open = JoinSet::new();
    let is_said = Arc::new(AtomicBool::new(false));
    loop {
        let inside = match listener.accept().await {
            Ok((inside, _address)) => inside,
            // Descriptors may be short; whoever has connected waits.
            Err(_error) => {
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        // A host that nobody comes for has no place. None of them is ever closed.
        let (Ok(place), Ok(place_of_all)) = (Arc::clone(&room).acquire_owned().await, CONNECTIONS.acquire().await)
        else {
            return;
        };
        while open.try_join_next().is_some() {}
        let (way, is_said) = (Arc::clone(&way), Arc::clone(&is_said));
        open.spawn(async move {
            let _places = (place, place_of_all);
            if let Err(error) = connected(inside, &way).await
                && !is_said.swap(true, Ordering::Relaxed)
            {
                // Once for a room and a host: how often is the program's to say.
                tracing::warn!(host = %way.host, %error, "a provider's program cannot reach a host");
            }
        });
    }
}

/// A connection from a room, connected with its host until both have ended it.
async fn connected(mut inside: TcpStream, way: &Arc<Way>) -> io::Result<()> {
    let reached = tokio::time::timeout(PATIENCE, way.reach()).await;
    let mut outside = reached.map_err(|_elapsed| io::Error::from(io::ErrorKind::TimedOut))??;
    // What goes wrong from here on is between the two.
    copy_bidirectional(&mut inside, &mut outside).await.ok();
    Ok(())
}

/// The address of each host in the room: one for each name, and this machine's for its own.
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
        return Err(io::Error::other("there is too much to hand over"));
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
        return Err(io::Error::other("more was handed over than there can be"));
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
    async fn listeners_are_handed_over_and_input_arrives_by_a_pipe() {
        let (exit, theirs, input) = Exit::new(true).unwrap();
        let theirs = UnixStream::from(theirs);
        let mut pipe = receive(&theirs).unwrap();
        let pipe = std::fs::File::from(pipe.pop().unwrap());
        tokio::io::AsyncWriteExt::write_all(&mut input.unwrap(), b"hello").await.unwrap();
        assert_eq!(io::read_to_string(pipe).unwrap(), "hello");
        // What the host says comes from a server here, which a name that says so leads to.
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let inside = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = inside.local_addr().unwrap();
        send(&theirs, &[inside.as_fd()]).unwrap();
        let hosts = vec![host(&format!("localhost:{}", server.local_addr().unwrap().port()))];
        let serving = tokio::spawn(exit.serve(hosts));
        let mut client = TcpStream::connect(address).await.unwrap();
        let (mut far, _) = server.accept().await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut client, b"ping").await.unwrap();
        let mut heard = [0; 4];
        tokio::io::AsyncReadExt::read_exact(&mut far, &mut heard).await.unwrap();
        assert_eq!(&heard, b"ping");
        // With the room, all ends.
        serving.abort();
        assert_eq!(tokio::io::AsyncReadExt::read(&mut far, &mut heard).await.unwrap_or(0), 0);
    }

    #[tokio::test]
    async fn too_few_listeners_are_none() {
        let (exit, theirs, _input) = Exit::new(false).unwrap();
        let inside = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        send(&UnixStream::from(theirs), &[inside.as_fd()]).unwrap();
        exit.serve(["a.example", "b.example"].map(host).into()).await;
    }
}
