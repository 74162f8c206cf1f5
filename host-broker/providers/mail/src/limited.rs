//! A connection from which only so many bytes are read.

use lettre::transport::smtp::client::AsyncTokioStream;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The most bytes of one answer, without its literals. The library parses an unfinished answer again with each read.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;
/// The longest literal. The library makes room for the whole of it when it is announced.
const LITERAL_BYTES_MAX: u64 = 1024 * 1024;
/// The most bytes of all literals of one answer, which could be none for the library.
const LITERALS_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// A stream in both directions.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send + Sync {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + Sync> Stream for S {}

/// The most bytes of a connection.
const IMAP_BYTES_MAX: u64 = 24 * 1024 * 1024;
const SMTP_BYTES_MAX: u64 = 256 * 1024;

/// A stream that ends with an error once the server has sent too much.
///
/// The libraries that read from it keep a whole answer in memory: half a gibibyte of IMAP, a line of SMTP without end.
pub(crate) struct Limited {
    inner: Box<dyn Stream>,
    left: u64,
    /// The place in the present answer of IMAP.
    answer: Option<Answer>,
}

impl Limited {
    /// A connection to a server of IMAP.
    pub(crate) fn imap(inner: impl Stream + 'static) -> Self {
        Self { inner: Box::new(inner), left: IMAP_BYTES_MAX, answer: Some(Answer::default()) }
    }

    /// A connection to a server of SMTP.
    pub(crate) fn smtp(inner: impl Stream + 'static) -> Self {
        Self { inner: Box::new(inner), left: SMTP_BYTES_MAX, answer: None }
    }

    /// Returns the stream, which is limited no longer.
    pub(crate) fn into_inner(self) -> Box<dyn Stream> {
        self.inner
    }
}

/// The place in the present answer.
#[derive(Debug, Default)]
struct Answer {
    /// Its bytes so far, without literals.
    bytes: usize,
    /// The bytes of a literal that are still to come.
    literal: u64,
    /// The bytes of all its literals.
    literals: u64,
    /// The number in a `{…}` that may announce a literal, if the last bytes were its beginning.
    announced: Option<u64>,
    /// Whether the announcement is complete, so that only the end of the line is missing.
    is_closed: bool,
}

impl Answer {
    /// Follows bytes of the server. Returns `false` if the answer is too long.
    fn follow(&mut self, mut bytes: &[u8]) -> bool {
        while let Some((first, rest)) = bytes.split_first() {
            if self.literal > 0 {
                let skipped = bytes.len().min(usize::try_from(self.literal).unwrap_or(usize::MAX));
                self.literal -= u64::try_from(skipped).unwrap_or(self.literal);
                bytes = bytes.get(skipped..).unwrap_or_default();
                continue;
            }
            self.bytes += 1;
            match (first, self.announced, self.is_closed) {
                (b'{', ..) => (self.announced, self.is_closed) = (Some(0), false),
                (digit @ b'0'..=b'9', Some(number), false) => {
                    self.announced = Some(number.saturating_mul(10).saturating_add(u64::from(digit - b'0')));
                }
                (b'+', Some(_), false) | (b'\r', Some(_), true) => {}
                (b'}', Some(_), false) => self.is_closed = true,
                (b'\n', Some(number), true) => {
                    self.literal = number;
                    self.literals = self.literals.saturating_add(number);
                    if number > LITERAL_BYTES_MAX || self.literals > LITERALS_BYTES_MAX {
                        return false;
                    }
                    (self.announced, self.is_closed) = (None, false);
                }
                (b'\n', ..) => *self = Self::default(),
                _ => (self.announced, self.is_closed) = (None, false),
            }
            bytes = rest;
        }
        self.bytes <= ANSWER_BYTES_MAX
    }
}

impl fmt::Debug for Limited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limited").field("left", &self.left).finish_non_exhaustive()
    }
}

impl AsyncTokioStream for Limited {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        // The library for SMTP does not ask.
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl AsyncRead for Limited {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buffer))?;
        let read = buffer.filled().get(before..).unwrap_or_default();
        let left = self.left.checked_sub(u64::try_from(read.len()).unwrap_or(u64::MAX));
        let is_short = self.answer.as_mut().is_none_or(|answer| answer.follow(read));
        let (Some(left), true) = (left, is_short) else {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::FileTooLarge, "the server sends too much")));
        };
        self.left = left;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Limited {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_no_literal_counts_and_each_answer_counts_by_itself() {
        let long = "x".repeat(ANSWER_BYTES_MAX - 10);
        let mut answer = Answer::default();
        for _ in 0..3 {
            assert!(answer.follow(format!("* {long}\r\n").as_bytes()));
        }
        for _ in 0..3 {
            let literal = format!("* 1 FETCH (BODY[] {{{LITERAL_BYTES_MAX}}}\r\n");
            assert!(answer.follow(literal.as_bytes()));
            assert!(answer.follow(&vec![b'\n'; ANSWER_BYTES_MAX]), "it is all one literal");
        }
        assert!(answer.follow(b" FLAGS (\\Seen))\r\n"));
        assert_eq!(answer.bytes, 0);
        for announced in ["{500000000}\r\n", "{1048577}\r\n", "{99999999999999999999}\r\n"] {
            assert!(!Answer::default().follow(format!("* 1 FETCH (BODY[] {announced}").as_bytes()), "{announced}");
        }
        // Small literals do not end an answer.
        let many = "{0}\r\n".repeat(ANSWER_BYTES_MAX / 5 + 1);
        assert!(!answer.follow(many.as_bytes()));
    }

    #[test]
    fn text_that_resembles_a_literal_is_none() {
        for text in ["* {5} x\r\n", "* {x}\r\n", "* {\r\n", "* 5}\r\n", "* {5}}\r\n"] {
            let mut answer = Answer::default();
            assert!(answer.follow(text.as_bytes()));
            assert_eq!((answer.literal, answer.bytes), (0, 0), "{text}");
        }
        let mut answer = Answer::default();
        for byte in b"* {12+}\r\n" {
            assert!(answer.follow(&[*byte]));
        }
        assert_eq!(answer.literal, 12);
    }
}
