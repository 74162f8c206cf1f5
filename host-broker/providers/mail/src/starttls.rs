//! TLS on a connection of SMTP that begins without it (RFC 3207).

use crate::limited::{Limited, Stream};
use std::io;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The most bytes of an answer before TLS.
const ANSWER_BYTES_MAX: usize = 8 * 1024;

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

/// Returns the connection after TLS has begun. The server has greeted already, and the library waits for a greeting.
pub(crate) fn greeted(encrypted: impl Stream + 'static) -> Limited {
    let (read, write) = tokio::io::split(encrypted);
    Limited::smtp(tokio::io::join(b"220 TLS\r\n".chain(read), write))
}
