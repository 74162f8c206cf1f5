//! A connection of WebSocket to a server: text messages in both directions, within limits.
//!
//! Source: RFC 6455.

use crate::http::HttpError;
use crate::tls;
use futures_util::{SinkExt as _, StreamExt as _};
use std::io::ErrorKind;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{Connector, MaybeTlsStream, WebSocketStream, connect_async_tls_with_config};

/// A connection.
pub struct WebSocket {
    stream: Box<WebSocketStream<MaybeTlsStream<TcpStream>>>,
    heard: Instant,
}

impl WebSocket {
    /// Connects to `wss://…`, or to `ws://…`. No message may be longer than so many bytes.
    ///
    /// # Errors
    /// [`HttpError`], which quotes nothing of the address.
    pub async fn connect(address: &str, most: usize, deadline: Instant) -> Result<Self, HttpError> {
        let tls = tls::client().map_err(HttpError::Setup)?;
        let limits = WebSocketConfig::default().max_message_size(Some(most)).max_frame_size(Some(most));
        let connected = connect_async_tls_with_config(address, Some(limits), true, Some(Connector::Rustls(tls)));
        match timeout_at(deadline, connected).await {
            Ok(Ok((stream, _response))) => Ok(Self { stream: Box::new(stream), heard: Instant::now() }),
            Ok(Err(why)) => Err(fault(&why)),
            Err(_elapsed) => Err(HttpError::Deadline),
        }
    }

    /// Waits for the next text; `None` if there is none until then. Dropping the future loses nothing.
    ///
    /// # Errors
    /// [`HttpError::Lost`]: the connection has ended.
    pub async fn next(&mut self, until: Instant) -> Result<Option<String>, HttpError> {
        loop {
            let message = match timeout_at(until, self.stream.next()).await {
                Ok(Some(Ok(message))) => message,
                Ok(Some(Err(why))) => return Err(fault(&why)),
                Ok(None) => return Err(HttpError::Lost("the connection has ended".to_owned())),
                Err(_elapsed) => return Ok(None),
            };
            self.heard = Instant::now();
            if let Message::Text(text) = message {
                return Ok(Some(text.as_str().to_owned()));
            }
        }
    }

    /// Returns when the server was last heard.
    pub fn heard(&self) -> Instant {
        self.heard
    }

    /// Sends a text.
    ///
    /// # Errors
    /// [`HttpError`]; it may have arrived all the same.
    pub async fn send(&mut self, text: String, deadline: Instant) -> Result<(), HttpError> {
        self.sent(Message::text(text), deadline).await
    }

    /// Asks the server to show that it is there.
    ///
    /// # Errors
    /// [`HttpError`].
    pub async fn ping(&mut self, deadline: Instant) -> Result<(), HttpError> {
        self.sent(Message::Ping(Vec::new().into()), deadline).await
    }

    async fn sent(&mut self, message: Message, deadline: Instant) -> Result<(), HttpError> {
        match timeout_at(deadline, self.stream.send(message)).await {
            Ok(sent) => sent.map_err(|why| fault(&why)),
            Err(_elapsed) => Err(HttpError::Deadline),
        }
    }
}

fn fault(why: &Error) -> HttpError {
    match why {
        // A fault of TLS can quote names.
        Error::Io(why) if why.kind() == ErrorKind::InvalidData => HttpError::Lost("its TLS is invalid".to_owned()),
        Error::Io(why) => HttpError::Lost(why.to_string()),
        Error::Http(response) => HttpError::Lost(format!("it answered HTTP {}", response.status().as_u16())),
        Error::Capacity(_) => HttpError::Lost("it sent too much at once".to_owned()),
        Error::Tls(_) => HttpError::Lost("its TLS is invalid".to_owned()),
        Error::ConnectionClosed
        | Error::AlreadyClosed
        | Error::Protocol(_)
        | Error::WriteBufferFull(_)
        | Error::Utf8(_)
        | Error::AttackAttempt
        | Error::Url(_)
        | Error::HttpFormat(_) => HttpError::Lost("the connection has ended".to_owned()),
    }
}
