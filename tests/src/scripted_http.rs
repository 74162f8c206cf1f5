//! An HTTP server whose answers a test writes, byte for byte.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A request as the server sees it.
#[derive(Debug)]
pub struct Seen {
    /// The method.
    pub method: String,
    /// The path with the query.
    pub path: String,
    /// The head and the body, as they came.
    pub bytes: Vec<u8>,
}

/// The requests so far: `GET /path`.
pub type Log = Arc<Mutex<Vec<String>>>;

/// Starts a server that answers each request with the bytes of `answer`, or closes the connection. Returns its address.
pub fn server(answer: impl Fn(&Seen) -> Option<Vec<u8>> + Send + Sync + 'static) -> (String, Log) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let log = Log::default();
    let (shared, answer) = (Arc::clone(&log), Arc::new(answer));
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let (log, answer) = (Arc::clone(&shared), Arc::clone(&answer));
            std::thread::spawn(move || {
                let Some(seen) = request(&stream) else { return };
                log.lock().unwrap().push(format!("{} {}", seen.method, seen.path));
                if let Some(bytes) = answer(&seen) {
                    stream.write_all(&bytes).ok();
                }
            });
        }
    });
    (url, log)
}

fn request(stream: &TcpStream) -> Option<Seen> {
    let mut reader = BufReader::new(stream);
    let (mut bytes, mut length) = (Vec::new(), 0);
    loop {
        let mut line = Vec::new();
        reader.read_until(b'\n', &mut line).ok()?;
        bytes.extend_from_slice(&line);
        let line = String::from_utf8_lossy(&line).to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let head = String::from_utf8_lossy(&bytes).into_owned();
    let mut words = head.split(' ').map(str::to_owned);
    let (method, path) = (words.next()?, words.next()?);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    bytes.extend(body);
    Some(Seen { method, path, bytes })
}

/// An answer with its length.
pub fn answer(status: &str, headers: &str, body: &str) -> Option<Vec<u8>> {
    let length = body.len();
    Some(format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\n\r\n{body}").into_bytes())
}
