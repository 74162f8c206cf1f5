//! Parsing of messages, which anybody can send to the account.

use crate::Mail;
use mail_parser::{Message, MessageParser};
use provider::contract::Failure;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// The most places with the name of the field that makes a part one with parts of its own.
const CONTENT_TYPES_MAX: usize = 100;
/// The most lines that can begin a part.
const BOUNDARIES_MAX: usize = 20_000;

/// Bounds how many messages are parsed at once. A parser that has begun cannot be stopped.
pub(crate) fn parsers() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(2))
}

impl Mail {
    /// Parses a message on a thread for long work.
    ///
    /// SECURITY: the parser nests messages in messages as deep as they come, and searches the rest of the message for
    /// each part with parts. Both need a field `Content-Type`, so a message with many of them is not parsed.
    ///
    /// # Errors
    /// [`Failure::Refused`] if the message is empty or has too many parts.
    pub(crate) async fn parse<T: Send + 'static>(
        &self,
        bytes: Vec<u8>,
        work: impl FnOnce(&Message<'_>) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let permit = Arc::clone(&self.parsers).acquire_owned().await;
        let parsed = spawn_blocking(move || {
            let refused = |message: &str| Failure::Refused { message: message.to_owned() };
            let result = if is_bounded(&bytes) {
                // The parser finds no part in nothing.
                let message = MessageParser::new().parse(&bytes).filter(|message| !message.parts.is_empty());
                message.as_ref().map(work).ok_or_else(|| refused("The message is empty."))
            } else {
                Err(refused("The message has too many parts to be read."))
            };
            drop(permit);
            result
        });
        let broken = Failure::InvalidOutput { message: "The message cannot be parsed.".into() };
        parsed.await.unwrap_or(Err(broken))
    }
}

/// Returns whether a message has a bounded number of parts, at a bounded depth.
fn is_bounded(message: &[u8]) -> bool {
    const NAME: &[u8] = b"content-type";
    let names = message.windows(NAME.len()).filter(|window| window.eq_ignore_ascii_case(NAME)).count();
    let boundaries = message.windows(3).filter(|window| window == b"\n--").count();
    names <= CONTENT_TYPES_MAX && boundaries <= BOUNDARIES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_many_or_deep_parts_is_not_parsed() {
        let deep = "Content-Type: message/rfc822\r\n\r\n".repeat(CONTENT_TYPES_MAX + 1);
        assert!(!is_bounded(deep.as_bytes()));
        assert!(!is_bounded("x\r\n--a\r\n".repeat(BOUNDARIES_MAX + 1).as_bytes()));
        assert!(!is_bounded("cOnTeNt-TyPe:multipart/x;boundary=z\r\n".repeat(CONTENT_TYPES_MAX + 1).as_bytes()));
        assert!(is_bounded(b"Content-Type: text/plain\r\n\r\n-- \r\nAda\r\n"));
    }

    #[test]
    fn the_deepest_message_that_is_parsed_is_parsed() {
        let deep = "Content-Type: message/rfc822\r\n\r\n".repeat(CONTENT_TYPES_MAX) + "text";
        assert!(is_bounded(deep.as_bytes()));
        drop(MessageParser::new().parse(deep.as_bytes()));
    }
}
