//! The HTTP server: connections, each with its limits, on an address of this machine.
//!
//! Nothing here decides, and nothing here can stop the broker's loop: a fault ends its connection. The server cuts off
//! a client that is slow with the head of a request, its body or the reply. A signed-in person's connection never gives
//! way. A connection with a bearer's request under way does not give way until the answer. If there are too many
//! connections, the oldest of the others gives way. So neither unauthenticated clients nor external agents keep a
//! signed-in person out.

mod api;
pub mod callback;
mod connections;
mod external;
pub mod metrics;
mod pace;
mod paced;
pub mod web;

use axum::Router;
use axum::extract::Request;
use axum::http::header::HOST;
use connections::{Connection, Connections};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use paced::Paced;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// How many connections there are at once.
const CONNECTIONS_MAX: usize = 64;
const CONNECTIONS_ALL: u32 = 64;
/// How long a connection may take to send the head of a request, and stay open without one.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// The same for a connection that comes when fewer places than [`PLACES_FEW`] are free.
const HEAD_TIMEOUT_SHORT: Duration = Duration::from_secs(1);
const PLACES_FEW: usize = 16;
/// The longest time in which a client may take none of the sent bytes.
const WRITE_TIMEOUT: Duration = Duration::from_secs(20);
/// The longest head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// The most headers of a request.
const HEADERS_MAX: usize = 64;
/// The time that open requests get when everything stops.
const STOP_GRACE: Duration = Duration::from_secs(2);
/// How long is waited after connections could not be taken, such as for lack of file handles.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A server that runs.
#[derive(Debug)]
pub struct Server {
    stop: CancellationToken,
    over: Receiver<()>,
}

/// Takes an address of this machine.
///
/// # Errors
/// The system error.
pub fn bind(address: SocketAddr, runtime: &Handle) -> Result<TcpListener, std::io::Error> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let _inside = runtime.enter();
    TcpListener::from_std(listener)
}

/// Returns the name of this machine, with the port, by which a request asks for it; `None` if it asks for another host.
/// A page elsewhere can make a name of its own lead here.
fn own_name(request: &Request, port: u16) -> Option<String> {
    let mut hosts = request.headers().get_all(HOST).iter();
    let host = hosts.next()?.to_str().ok().filter(|_| hosts.next().is_none())?;
    let mut own = ["127.0.0.1", "localhost", "[::1]"].iter().map(|name| format!("{name}:{port}"));
    let named = own.find(|own| own == host)?;
    request.uri().authority().is_none_or(|authority| authority.as_str() == named).then_some(named)
}

impl Server {
    /// Serves these routes until it is stopped, or until `stop` says so.
    pub fn start(listener: TcpListener, router: Router, stop: CancellationToken, runtime: &Handle) -> Self {
        let (sender, over) = channel();
        runtime.spawn(accept(listener, router, stop.clone(), sender));
        Self { stop, over }
    }

    /// Takes no more connections, and gives those that there are a moment.
    pub fn stop(self) {
        self.stop.cancel();
        // If no answer comes in time, they end with the process.
        self.over.recv_timeout(STOP_GRACE * 2).ok();
    }
}

async fn accept(listener: TcpListener, router: Router, stop: CancellationToken, over: Sender<()>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let connections = Connections::default();
    while let Some((stream, place, connection)) = next(&listener, &places, &connections, &stop).await {
        let timeout = if places.available_permits() < PLACES_FEW { HEAD_TIMEOUT_SHORT } else { HEAD_TIMEOUT };
        tokio::spawn(serve(stream, (router.clone(), timeout), stop.clone(), place, connection));
    }
    drop(listener);
    // All places are free when every connection is over.
    places.acquire_many(CONNECTIONS_ALL).await.map(drop).ok();
    // The thread that stopped it may have given up.
    over.send(()).ok();
}

/// Returns the next connection once there is a place for it; `None` when the server stops.
async fn next(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
    connections: &Connections,
    stop: &CancellationToken,
) -> Option<(TcpStream, OwnedSemaphorePermit, Connection)> {
    loop {
        let taken = async {
            let accepted = listener.accept().await;
            if places.available_permits() == 0 {
                connections.cut_oldest_unknown();
            }
            (accepted, Arc::clone(places).acquire_owned().await)
        };
        let (accepted, place) = tokio::select! {
            biased;
            () = stop.cancelled() => return None,
            taken = taken => taken,
        };
        match accepted {
            Ok((stream, _)) => return Some((stream, place.ok()?, connections.begin())),
            Err(error) => {
                tracing::warn!(%error, "a connection to the inbox cannot be taken");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve(
    stream: TcpStream,
    (router, head_timeout): (Router, Duration),
    stop: CancellationToken,
    place: OwnedSemaphorePermit,
    this: Connection,
) {
    let _place = place;
    let service = router.layer(axum::Extension(this.standing()));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head_timeout)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(Paced::new(stream, WRITE_TIMEOUT)), TowerToHyperService::new(service));
    let mut connection = std::pin::pin!(connection);
    // A client's faults do not belong into the log.
    tokio::select! {
        _ended = connection.as_mut() => return,
        () = this.is_cut() => return,
        () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    tokio::time::timeout(STOP_GRACE, connection).await.ok();
}
