//! The connection that the library sends over.

use crate::limited::Stream;
use lettre::transport::smtp::client::AsyncTokioStream;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;

/// The most bytes of an answer before TLS.
const ANSWER_BYTES_MAX: usize = 8 * 1024;
/// The most bytes of all answers. The library keeps a line without end.
const BYTES_MAX: usize = 256 * 1024;

/// A stream on which the server speaks first.
pub(crate) struct SmtpStream {
    inner: Box<dyn Stream>,
    /// The bytes to be read before those of the server.
    first: &'static [u8],
    left: usize,
}

impl SmtpStream {
    /// A connection on which the server still has to greet.
    pub(crate) fn greeting(inner: impl Stream + 'static) -> Self {
        Self { inner: Box::new(inner), first: b"", left: BYTES_MAX }
    }

    /// A connection on which the server has greeted before TLS began. The library waits for a greeting, and gets one.
    pub(crate) fn greeted(inner: impl Stream + 'static) -> Self {
        Self { inner: Box::new(inner), first: b"220 TLS\r\n", left: BYTES_MAX }
    }
}

/// Asks the server to begin TLS (RFC 3207).
///
/// SECURITY: it reads byte by byte, so that no byte that came before TLS is taken for an answer afterwards. The library
/// would keep such bytes.
///
/// # Errors
/// The server does not offer TLS, or does not answer like a server of SMTP.
pub(crate) async fn starttls(tcp: &mut TcpStream) -> io::Result<()> {
    answer(tcp, "220").await?;
    tcp.write_all(b"EHLO [127.0.0.1]\r\n").await?;
    let offered = answer(tcp, "250").await?;
    if !offered.lines().any(|line| line.get(4..).is_some_and(|word| word.trim().eq_ignore_ascii_case("STARTTLS"))) {
        return Err(io::Error::other("the server does not offer STARTTLS"));
    }
    tcp.write_all(b"STARTTLS\r\n").await?;
    answer(tcp, "220").await.map(drop)
}

/// Reads an answer of one or more lines: `250-first`, `250 last`.
async fn answer(tcp: &mut TcpStream, code: &str) -> io::Result<String> {
    let mut text = String::new();
    let mut line = Vec::new();
    loop {
        let byte = tcp.read_u8().await?;
        line.push(byte);
        if text.len() + line.len() > ANSWER_BYTES_MAX {
            return Err(io::Error::other("the server sends too much"));
        }
        if byte == b'\n' {
            let said = String::from_utf8_lossy(&line).into_owned();
            if !said.starts_with(code) {
                return Err(io::Error::other(format!("the server says: {}", said.trim())));
            }
            text.push_str(&said);
            if said.as_bytes().get(3) != Some(&b'-') {
                return Ok(text);
            }
            line.clear();
        }
    }
}

impl fmt::Debug for SmtpStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SmtpStream").finish_non_exhaustive()
    }
}

impl AsyncTokioStream for SmtpStream {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        // Nobody asks.
        Ok((Ipv4Addr::UNSPECIFIED, 0).into())
    }
}

impl AsyncRead for SmtpStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if !self.first.is_empty() {
            let (now, later) = self.first.split_at(self.first.len().min(buffer.remaining()));
            buffer.put_slice(now);
            self.first = later;
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buffer))?;
        let Some(left) = self.left.checked_sub(buffer.filled().len() - before) else {
            return Poll::Ready(Err(io::ErrorKind::FileTooLarge.into()));
        };
        self.left = left;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for SmtpStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
