//! A stream whose reader must keep pace: a reader that takes nothing for too long is cut off.

use std::io::{Error, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// A stream with a limit on how long a write may stand still.
pub(super) struct Paced<S> {
    stream: S,
    timeout: Duration,
    // Runs while a write waits.
    waiting: bool,
    timer: Pin<Box<Sleep>>,
}

impl<S> Paced<S> {
    /// Takes the stream in.
    pub(super) fn new(stream: S, timeout: Duration) -> Self {
        Self { stream, timeout, waiting: false, timer: Box::pin(sleep(timeout)) }
    }

    /// Returns the result of a write, unless it has waited for too long.
    fn paced<T>(&mut self, context: &mut Context<'_>, came: Poll<Result<T, Error>>) -> Poll<Result<T, Error>> {
        if came.is_ready() {
            self.waiting = false;
            return came;
        }
        if !self.waiting {
            self.waiting = true;
            self.timer.as_mut().reset(Instant::now() + self.timeout);
        }
        ready!(self.timer.as_mut().poll(context));
        Poll::Ready(Err(Error::new(ErrorKind::TimedOut, "the client takes nothing")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<Result<(), Error>> {
        Pin::new(&mut self.get_mut().stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize, Error>> {
        let this = self.get_mut();
        let came = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.paced(cx, came)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let this = self.get_mut();
        let came = Pin::new(&mut this.stream).poll_flush(cx);
        this.paced(cx, came)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let this = self.get_mut();
        let came = Pin::new(&mut this.stream).poll_shutdown(cx);
        this.paced(cx, came)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[std::io::IoSlice<'_>],
    ) -> Poll<Result<usize, Error>> {
        let this = self.get_mut();
        let came = Pin::new(&mut this.stream).poll_write_vectored(cx, slices);
        this.paced(cx, came)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[tokio::test]
    async fn clients_that_read_are_served_and_clients_that_do_not_are_cut_off() {
        let (near, mut far) = tokio::io::duplex(8);
        let mut paced = Paced::new(near, Duration::from_millis(20));
        let taker = tokio::spawn(async move {
            far.read_exact(&mut [0; 40]).await.unwrap();
            far
        });
        paced.write_all(&[0; 40]).await.unwrap();
        let _still_there = taker.await.unwrap();
        let fault = paced.write_all(&[0; 40]).await.unwrap_err();
        assert_eq!(fault.kind(), ErrorKind::TimedOut);
    }
}
