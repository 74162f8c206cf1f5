//! Delivery of bytes to a server that answers nothing: it confirms them by closing the connection.
//!
//! A server that has read everything sees the end of the stream, and closes its side. Two signs together confirm the
//! bytes: the server has closed its side, and its kernel has acknowledged the end of ours. A server that closes with
//! bytes unread, or to which bytes still come, resets the connection.
//!
//! SECURITY: a proxy between both, or an attacker, can close the connection without the server. The chain of the rows
//! shows the gap.
//!
//! Source: tcp(7), RFC 9293 section 3.6; proc(5) for the states of connections.

use crate::tls;
use rustls::pki_types::ServerName;
use std::fmt;
use std::io::{Error, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_rustls::TlsConnector;

/// The pause between two looks at the state of a connection.
const LOOK: Duration = Duration::from_millis(20);

/// A server, by host and port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    host: String,
    port: u16,
}

impl Server {
    /// Returns whether the connection uses TLS: it does, except to this machine.
    pub fn has_tls(&self) -> bool {
        !matches!(self.host.as_str(), "localhost" | "127.0.0.1" | "::1")
    }
}

impl FromStr for Server {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fault = || format!("`{text}` is not a host and a port; write it like logs.example.com:6514");
        let (host, port) = text.rsplit_once(':').ok_or_else(fault)?;
        let port = port.parse().ok().filter(|port| *port > 0).ok_or_else(fault)?;
        let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        if inner.is_none() && host.contains(':') {
            return Err(fault());
        }
        let host = inner.unwrap_or(host);
        // It is a DNS name or an IP address, so that TLS can check it.
        ServerName::try_from(host).map_err(|_bad| fault())?;
        Ok(Self { host: host.to_owned(), port })
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

/// The reason why a server has not confirmed the bytes. It may have read them all the same.
#[derive(Debug, thiserror::Error)]
pub enum DeliveryError {
    /// There is no client for TLS.
    #[error("TLS cannot be used ({0}); are root certificates (ca-certificates) installed?")]
    Setup(String),
    /// No server can be reached there. Nothing left.
    #[error("it cannot be reached: {0}")]
    Unreachable(Error),
    /// The connection broke, or its TLS is invalid.
    #[error("the connection broke: {0}")]
    Lost(Error),
    /// The server closed the connection, and its kernel has not acknowledged everything.
    #[error("it closed the connection before it had read everything")]
    Unread,
    /// The server did not close the connection in time.
    #[error("it did not close the connection in time, so it may not have read everything")]
    Deadline,
}

/// Sends the bytes over a new connection, and waits until the server has closed it.
///
/// # Errors
/// [`DeliveryError`]. Only [`DeliveryError::Setup`] and [`DeliveryError::Unreachable`] mean that nothing left.
pub async fn deliver(server: &Server, bytes: &[u8], deadline: Instant) -> Result<(), DeliveryError> {
    let delivered = async {
        let connected = TcpStream::connect((server.host.as_str(), server.port)).await;
        let stream = connected.map_err(DeliveryError::Unreachable)?;
        let ends = stream.local_addr().and_then(|own| Ok((own, stream.peer_addr()?))).map_err(DeliveryError::Lost)?;
        if !server.has_tls() {
            let stream = confirmed(stream, bytes).await?;
            return acknowledged(&stream, ends).await;
        }
        let connector = TlsConnector::from(tls::client().map_err(DeliveryError::Setup)?);
        let name = ServerName::try_from(server.host.clone());
        let name = name.map_err(|bad| DeliveryError::Unreachable(Error::new(ErrorKind::InvalidInput, bad)))?;
        let stream = connector.connect(name, stream).await.map_err(DeliveryError::Lost)?;
        let stream = confirmed(stream, bytes).await?;
        acknowledged(stream.get_ref().0, ends).await
    };
    timeout_at(deadline, delivered).await.unwrap_or(Err(DeliveryError::Deadline))
}

/// Sends the bytes and the end of our side, and waits for the end of the other one.
async fn confirmed<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, bytes: &[u8]) -> Result<S, DeliveryError> {
    let sent = async {
        stream.write_all(bytes).await?;
        stream.shutdown().await
    };
    sent.await.map_err(DeliveryError::Lost)?;
    // It has nothing to say; the deadline bounds a server that talks.
    let mut ignored = [0; 1024];
    loop {
        match stream.read(&mut ignored).await {
            Ok(0) => return Ok(stream),
            Ok(_) => {}
            // Many servers end TLS without its own farewell.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(stream),
            Err(error) => return Err(DeliveryError::Lost(error)),
        }
    }
}

/// Waits until both sides are closed, and the other kernel has acknowledged everything.
async fn acknowledged(stream: &TcpStream, ends: (SocketAddr, SocketAddr)) -> Result<(), DeliveryError> {
    loop {
        match state(ends).await.map_err(DeliveryError::Lost)? {
            Some(TcpState::Ended) => return Ok(()),
            // Something of ours is on its way, or a server has said farewell in TLS and not closed its side yet.
            Some(TcpState::Ending) => sleep(LOOK).await,
            Some(TcpState::Other) => return Err(DeliveryError::Unread),
            // It is over. A reset leaves an error; otherwise everything was acknowledged.
            None => {
                return match stream.take_error() {
                    Ok(None) => Ok(()),
                    Ok(Some(error)) | Err(error) => Err(DeliveryError::Lost(error)),
                };
            }
        }
    }
}

/// The state of a connection whose own side is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TcpState {
    /// Both sides are closed, and the ends of both are acknowledged: `TIME_WAIT`.
    Ended,
    /// An end is not there or not acknowledged yet: `FIN_WAIT1`, `FIN_WAIT2`, `LAST_ACK` or `CLOSING`.
    Ending,
    /// Another state.
    Other,
}

/// Returns the state of a connection of this machine; `None` if there is none between these ends.
async fn state((own, peer): (SocketAddr, SocketAddr)) -> Result<Option<TcpState>, Error> {
    let table = if own.is_ipv4() { "/proc/self/net/tcp" } else { "/proc/self/net/tcp6" };
    let table = spawn_blocking(move || std::fs::read_to_string(table)).await.map_err(Error::other)??;
    let (own, peer) = (written(own), written(peer));
    Ok(table.lines().find_map(|line| {
        let mut columns = line.split_whitespace().skip(1);
        let is_it = columns.next()? == own && columns.next()? == peer;
        is_it.then(|| match columns.next() {
            Some("06") => TcpState::Ended,
            Some("04" | "05" | "09" | "0B") => TcpState::Ending,
            Some(_) | None => TcpState::Other,
        })
    }))
}

/// Returns an address as the kernel writes it: words of 32 bits in the order of the machine, in hexadecimal.
fn written(address: SocketAddr) -> String {
    let octets = match address.ip() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let word = |word: &[u8]| {
        let word = <[u8; 4]>::try_from(word).map(u32::from_ne_bytes).unwrap_or_default();
        format!("{word:08X}")
    };
    format!("{}:{:04X}", octets.chunks(4).map(word).collect::<String>(), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(20)
    }

    fn server(
        serve: impl FnOnce(std::net::TcpStream) -> Vec<u8> + Send + 'static,
    ) -> (Server, std::thread::JoinHandle<Vec<u8>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap().to_string().parse().unwrap();
        (server, std::thread::spawn(move || serve(listener.accept().unwrap().0)))
    }

    #[test]
    fn a_server_has_a_host_and_a_port_and_tls_unless_it_is_here() {
        for (text, has_tls) in [
            ("logs.example.com:6514", true),
            ("10.0.0.7:601", true),
            ("[2001:db8::1]:6514", true),
            ("127.0.0.1:514", false),
            ("localhost:514", false),
            ("[::1]:514", false),
            // A name that only begins like one of this machine.
            ("localhost.example.com:514", true),
        ] {
            let server: Server = text.parse().unwrap();
            assert_eq!((server.to_string().as_str(), server.has_tls()), (text, has_tls));
        }
        for text in
            ["", "logs", "logs:", ":514", "logs:0", "logs:65536", "::1:514", "a b:514", "tcp://logs:514", "a/b:1"]
        {
            assert!(text.parse::<Server>().is_err(), "{text}");
        }
    }

    #[tokio::test]
    async fn bytes_count_as_delivered_once_the_server_has_read_all_and_closed() {
        let (to, serving) = server(|mut stream| {
            let mut read = Vec::new();
            stream.read_to_end(&mut read).unwrap();
            stream.write_all(b"a word that nobody asked for").unwrap();
            read
        });
        let bytes = vec![b'x'; 3 << 20];
        deliver(&to, &bytes, soon()).await.unwrap();
        assert_eq!(serving.join().unwrap(), bytes);
    }

    #[tokio::test]
    async fn a_server_that_says_its_end_first_and_reads_on_has_confirmed_and_so_has_one_of_the_other_family() {
        let (to, serving) = server(|mut stream| {
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let mut read = Vec::new();
            stream.read_to_end(&mut read).unwrap();
            read
        });
        let bytes = vec![b'x'; 3 << 20];
        deliver(&to, &bytes, soon()).await.unwrap();
        assert_eq!(serving.join().unwrap(), bytes);
        let Ok(listener) = TcpListener::bind("[::1]:0") else { return };
        let to = listener.local_addr().unwrap().to_string().parse().unwrap();
        let serving = std::thread::spawn(move || {
            let mut read = Vec::new();
            listener.accept().unwrap().0.read_to_end(&mut read).unwrap();
            read
        });
        deliver(&to, &bytes, soon()).await.unwrap();
        assert_eq!(serving.join().unwrap(), bytes);
        // Of `::1` and port 514.
        assert_eq!(written("[::1]:514".parse().unwrap()), format!("{}{:08X}:0202", "0".repeat(24), 1_u32.to_be()));
        assert_eq!(written("127.0.0.1:80".parse().unwrap()), format!("{:08X}:0050", 0x7f00_0001_u32.to_be()));
    }

    /// Attack (Providers and modules): A syslog server dies after it has received rows and before
    /// it has read them.
    /// Defence: the end of its side and the acknowledgement of its kernel confirm them
    #[tokio::test]
    async fn a_server_that_closes_too_early_or_not_at_all_has_not_confirmed() {
        let (to, serving) = server(|mut stream| {
            let mut some = vec![0; 10];
            stream.read_exact(&mut some).unwrap();
            some
        });
        let early = deliver(&to, &vec![b'x'; 8 << 20], soon()).await;
        assert!(matches!(early, Err(DeliveryError::Lost(_) | DeliveryError::Unread)), "{early:?}");
        serving.join().unwrap();
        // It has read all that has come, and more is on its way: without bytes unread, its end is no reset.
        for _ in 0..20 {
            let (to, serving) = server(|mut stream| {
                let mut some = vec![0; 4 << 20];
                stream.read_exact(&mut some).unwrap();
                some
            });
            let early = deliver(&to, &vec![b'x'; 8 << 20], soon()).await;
            assert!(matches!(early, Err(DeliveryError::Lost(_) | DeliveryError::Unread)), "{early:?}");
            serving.join().unwrap();
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap().to_string().parse().unwrap();
        let silent = deliver(&to, b"x", Instant::now() + Duration::from_millis(200)).await;
        assert!(matches!(silent, Err(DeliveryError::Deadline)), "{silent:?}");
        drop(listener);
        let gone = deliver(&to, b"x", soon()).await;
        assert!(matches!(gone, Err(DeliveryError::Unreachable(_))), "{gone:?}");
    }
}
