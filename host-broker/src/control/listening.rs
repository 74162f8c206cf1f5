//! The connections to the control socket: who may hold how many, and for how long.
//!
//! The kernel says whose each connection is, so a user who is not in the configuration is refused before a byte is read. The
//! daemon's own user and root have connections of their own, which no other user can take.

use super::{CommandDispatcher, EventSender, answer, fault};
use config::ROOT;
use shared::limits;
use std::collections::BTreeMap;
use std::io::{Error, ErrorKind, Write as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};

/// The most connections of the daemon's own user, and of root.
const OWN_MAX: usize = 256;
/// The most connections of another user.
const USER_MAX: usize = 16;
/// The most connections of all other users together.
const USERS_MAX: usize = 64;
/// How long a command may take to arrive, and its answer to be taken.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The pause after a connection could not be taken, such as for lack of file handles.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The number of open connections of each user.
#[derive(Debug, Clone, Default)]
struct Connections(Arc<Mutex<BTreeMap<u32, usize>>>);

/// One open connection, until it is dropped.
#[derive(Debug)]
struct Connection {
    all: Connections,
    uid: u32,
}

impl Connections {
    fn counts(&self) -> MutexGuard<'_, BTreeMap<u32, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one more connection of a user, if the user may have one more.
    fn begin(&self, uid: u32, own: u32) -> Option<Connection> {
        let mut counts = self.counts();
        let is_own = |uid: u32| uid == own || uid == ROOT;
        let of_user = counts.get(&uid).copied().unwrap_or_default();
        let of_others: usize = counts.iter().filter(|(uid, _)| !is_own(**uid)).map(|(_, count)| count).sum();
        let may = if is_own(uid) { of_user < OWN_MAX } else { of_user < USER_MAX && of_others < USERS_MAX };
        may.then(|| {
            counts.insert(uid, of_user + 1);
            Connection { all: self.clone(), uid }
        })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut counts = self.all.counts();
        match counts.get_mut(&self.uid) {
            Some(count) if *count > 1 => *count -= 1,
            Some(_) | None => {
                counts.remove(&self.uid);
            }
        }
    }
}

/// Listens for commands until the daemon stops.
pub async fn listen(listener: UnixListener, dispatcher: CommandDispatcher, reports: EventSender) {
    let connections = Connections::default();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection to the control socket cannot be taken");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Ok(uid) = stream.peer_cred().map(|peer| peer.uid()) else { continue };
        let Some(person) = dispatcher.person(uid) else {
            let why = format!("user {uid} is not in the configuration; add [people.NAME] with uid = {uid}");
            refuse(stream, &why);
            continue;
        };
        let Some(connection) = connections.begin(uid, dispatcher.uid) else {
            refuse(
                stream,
                &format!("too many commands of user {uid} or of all users are under way; send it again later"),
            );
            continue;
        };
        let (dispatcher, reports) = (dispatcher.clone(), reports.clone());
        tokio::spawn(async move {
            let _connection = connection;
            if let Err(error) = serve(stream, (person, uid), &dispatcher, &reports).await {
                tracing::warn!(%error, "a command could not be answered");
            }
        });
    }
}

/// Says why at once, without waiting for the command. A line always fits into a new socket.
fn refuse(stream: UnixStream, why: &str) {
    let mut answer = fault(why);
    answer.push(b'\n');
    if let Ok(mut stream) = stream.into_std() {
        stream.write_all(&answer).ok();
    }
}

async fn serve(
    stream: UnixStream,
    (person, uid): (String, u32),
    dispatcher: &CommandDispatcher,
    reports: &EventSender,
) -> Result<(), Error> {
    let (reader, mut writer) = stream.into_split();
    let mut answer = match command(reader, TIMEOUT).await? {
        Some(line) => answer(person, dispatcher.may_relay(uid), &line, dispatcher, reports).await,
        None => fault("the command took more than 10 s to arrive; send it again"),
    };
    answer.push(b'\n');
    let written = tokio::time::timeout(TIMEOUT, writer.write_all(&answer)).await;
    written.unwrap_or_else(|_elapsed| Err(Error::new(ErrorKind::TimedOut, "the client does not take the answer")))
}

/// Reads a command; `None` if it takes too long to arrive.
pub(crate) async fn command(reader: impl AsyncRead + Unpin, timeout: Duration) -> Result<Option<Vec<u8>>, Error> {
    let limit = u64::try_from(limits::REQUEST_BYTES_MAX).unwrap_or(u64::MAX);
    let mut line = Vec::new();
    let mut reader = BufReader::new(reader.take(limit));
    let read = tokio::time::timeout(timeout, reader.read_until(b'\n', &mut line)).await;
    match read {
        Ok(read) => read.map(|_length| Some(line)),
        Err(_elapsed) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_users_have_few_connections_each_and_together_and_none_of_the_own_users() {
        let (all, own) = (Connections::default(), 1000);
        let begin = |uid: u32, count: usize| (0..count).filter_map(|_| all.begin(uid, own)).collect::<Vec<_>>();
        let first = begin(2000, 100);
        assert_eq!(first.len(), USER_MAX);
        let others: Vec<_> = (2001..2100).flat_map(|uid| begin(uid, 100)).collect();
        assert_eq!(first.len() + others.len(), USERS_MAX);
        assert_eq!([own, ROOT].map(|uid| begin(uid, 1_000).len()), [OWN_MAX; 2]);
        drop(first);
        assert_eq!(begin(2000, 100).len(), USER_MAX);
        drop(others);
        assert!(all.counts().is_empty());
    }

    #[tokio::test]
    async fn a_command_that_does_not_arrive_is_not_waited_for() {
        let (client, server) = UnixStream::pair().unwrap();
        assert_eq!(command(server, Duration::ZERO).await.unwrap(), None);
        drop(client);
        let (mut client, server) = UnixStream::pair().unwrap();
        client.write_all(b"{}\nmore").await.unwrap();
        assert_eq!(command(server, TIMEOUT).await.unwrap().as_deref(), Some(&b"{}\n"[..]));
    }
}
