//! A proxy before a server that cuts and stops connections. It is an address that stays when another server takes over.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The direction of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    ToServer,
    /// From the server to the client.
    FromServer,
}

#[derive(Debug, Default)]
struct Faults {
    /// The port of the server.
    server: AtomicU16,
    /// The bytes that still pass in each direction before every connection is cut; negative: no cut.
    to_server: AtomicI64,
    from_server: AtomicI64,
    /// Whether no byte passes.
    is_stopped: AtomicBool,
    /// Whether new connections are refused.
    is_away: AtomicBool,
    open: Mutex<Vec<(usize, TcpStream)>>,
}

/// The proxy, on a port of this machine.
#[derive(Debug)]
pub struct Proxy {
    /// Its port.
    pub port: u16,
    faults: Arc<Faults>,
}

impl Proxy {
    /// Starts it before the server on this port.
    pub fn before(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let faults =
            Arc::new(Faults { to_server: AtomicI64::new(-1), from_server: AtomicI64::new(-1), ..Faults::default() });
        let shared = Arc::clone(&faults);
        faults.server.store(server, Ordering::SeqCst);
        std::thread::spawn(move || {
            for (number, client) in listener.incoming().enumerate() {
                let client = client.unwrap();
                if shared.is_away.load(Ordering::SeqCst) {
                    client.shutdown(Shutdown::Both).ok();
                    continue;
                }
                let Ok(upstream) = TcpStream::connect(("127.0.0.1", shared.server.load(Ordering::SeqCst))) else {
                    continue;
                };
                for stream in [&client, &upstream] {
                    stream.set_nodelay(true).unwrap();
                    shared.open.lock().unwrap().push((number, stream.try_clone().unwrap()));
                }
                pass(&client, &upstream, (number, Direction::ToServer), &shared);
                pass(&upstream, &client, (number, Direction::FromServer), &shared);
            }
        });
        Self { port, faults }
    }

    /// Leads new connections to the server on this port.
    pub fn lead_to(&self, server: u16) {
        self.faults.server.store(server, Ordering::SeqCst);
    }

    /// Cuts every connection after so many more bytes in this direction, once; after none if the number is negative. Returns
    /// the number of bytes that were left of the last cut.
    pub fn cut_after(&self, bytes: i64, direction: Direction) -> i64 {
        self.faults.left(direction).swap(bytes, Ordering::SeqCst)
    }

    /// Lets no byte pass, or lets them pass again.
    pub fn stop(&self, is_stopped: bool) {
        self.faults.is_stopped.store(is_stopped, Ordering::SeqCst);
    }

    /// Cuts every connection and refuses new ones, or accepts them again.
    pub fn away(&self, is_away: bool) {
        self.faults.is_away.store(is_away, Ordering::SeqCst);
        if is_away {
            self.faults.cut();
        }
    }
}

impl Faults {
    fn left(&self, direction: Direction) -> &AtomicI64 {
        match direction {
            Direction::ToServer => &self.to_server,
            Direction::FromServer => &self.from_server,
        }
    }

    fn cut(&self) {
        for (_, stream) in self.open.lock().unwrap().drain(..) {
            stream.shutdown(Shutdown::Both).ok();
        }
    }
}

fn pass(from: &TcpStream, to: &TcpStream, (number, direction): (usize, Direction), faults: &Arc<Faults>) {
    let (mut from, mut to, faults) = (from.try_clone().unwrap(), to.try_clone().unwrap(), Arc::clone(faults));
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(read) = from.read(&mut buffer) {
            if read == 0 {
                break;
            }
            while faults.is_stopped.load(Ordering::SeqCst) {
                std::thread::park_timeout(Duration::from_millis(5));
            }
            let left = faults.left(direction);
            let allowed = left.load(Ordering::SeqCst);
            let passes = if allowed < 0 { read } else { read.min(usize::try_from(allowed).unwrap()) };
            if allowed >= 0 {
                left.fetch_sub(i64::try_from(passes).unwrap(), Ordering::SeqCst);
            }
            if to.write_all(buffer.get(..passes).unwrap_or_default()).is_err() {
                break;
            }
            if passes < read || allowed >= 0 && allowed == i64::try_from(passes).unwrap() {
                left.store(-1, Ordering::SeqCst);
                faults.cut();
                break;
            }
        }
        to.shutdown(Shutdown::Both).ok();
        from.shutdown(Shutdown::Both).ok();
        faults.open.lock().unwrap().retain(|(open, _)| *open != number);
    });
}
