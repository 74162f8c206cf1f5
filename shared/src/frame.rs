//! The frames of the socket `broker.sock`, which carry the same documents as the files of the mailbox.
//!
//! A frame is a length (four bytes, big endian), a kind (one byte) and so many bytes of a document. Both sides begin
//! with `hello`. The shim does not wait for the host's `hello` before its first request.
//!
//! ```text
//! 00 00 00 18  06  {"request_id":"ext-1-a"}
//! ```

use crate::limits::{REPLY_BYTES_MAX, REQUEST_BYTES_MAX};
use crate::reply::Progress;
use crate::{Code, Group, RequestId, Timestamp};
use serde::{Deserialize, Serialize};

/// The bytes before the document: its length and the kind.
pub const HEADER_BYTES: usize = 5;

/// The kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The first frame of each side: [`ShimHello`], [`HostHello`].
    Hello,
    /// A request, as in a file. It needs a `request_id`.
    Request,
    /// A reply, as in a file. Replies come in any order.
    Reply,
    /// A [`CallProgress`].
    Progress,
    /// The group's snapshot has changed: [`SnapshotChanged`].
    Changed,
    /// The shim takes a request back: [`Withdraw`].
    Withdraw,
    /// The host's answer to that: [`Withdrawn`].
    Withdrawn,
    /// The host ends the connection: [`Goodbye`].
    Goodbye,
}

impl Kind {
    const ALL: [Self; 8] = [
        Self::Hello,
        Self::Request,
        Self::Reply,
        Self::Progress,
        Self::Changed,
        Self::Withdraw,
        Self::Withdrawn,
        Self::Goodbye,
    ];

    /// Returns the byte for it.
    pub fn byte(self) -> u8 {
        match self {
            Self::Hello => 1,
            Self::Request => 2,
            Self::Reply => 3,
            Self::Progress => 4,
            Self::Changed => 5,
            Self::Withdraw => 6,
            Self::Withdrawn => 7,
            Self::Goodbye => 8,
        }
    }

    /// Returns the kind of this byte.
    pub fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.byte() == byte)
    }
}

/// The first frame of a shim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShimHello {
    /// The revisions of the protocol that it speaks.
    pub protocols: Vec<String>,
}

/// The first frame of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostHello {
    /// The revision that it has chosen.
    pub protocol: String,
    /// The group that the socket belongs to.
    pub group: Group,
    /// The largest request document, in bytes.
    pub request_bytes_max: usize,
    /// The largest reply document, in bytes.
    pub reply_bytes_max: usize,
    /// The start of the host.
    pub started_at: Timestamp,
}

/// The progress of a running call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallProgress {
    /// The call.
    pub request_id: RequestId,
    /// The progress, as in a file.
    #[serde(flatten)]
    pub progress: Progress,
}

/// The group's snapshot has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotChanged {
    /// The SHA-256 of the document, in hexadecimal.
    pub digest: String,
}

/// The shim does not wait for this request any more, and takes it back if it was not decided on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Withdraw {
    /// The request.
    pub request_id: RequestId,
}

/// The answer to a [`Withdraw`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Withdrawn {
    /// The request.
    pub request_id: RequestId,
    /// Whether it was decided on.
    pub state: WithdrawnState,
}

/// Whether a withdrawn request was decided on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WithdrawnState {
    /// It was not, and never will be. Nothing was executed.
    NeverTaken,
    /// It was, or the connection has brought no such request. A reply comes, or has come.
    Taken,
}

/// The host ends the connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Goodbye {
    /// `stopping`, `unsupported_protocol`, or the word of a [`Code`].
    pub code: String,
    /// One sentence for the operator.
    pub reason: String,
}

impl Goodbye {
    /// The code of a host that stops in good order.
    pub const STOPPING: &str = "stopping";
    /// The code of a host that speaks no protocol of the shim's.
    pub const UNSUPPORTED: &str = "unsupported_protocol";

    /// Ends a connection because of its last frame.
    pub fn because(code: Code, reason: &str) -> Self {
        Self { code: code.word().to_owned(), reason: reason.to_owned() }
    }
}

/// A whole frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The kind.
    pub kind: Kind,
    /// The document.
    pub document: Vec<u8>,
}

/// The peer sends something that is no frame. Nothing after it can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Its document is too long.
    #[error("the frame is too long")]
    TooLong,
    /// Its kind is unknown.
    #[error("the kind of the frame is unknown")]
    UnknownKind,
}

/// Returns the bytes of a frame.
///
/// # Errors
/// [`FrameError::TooLong`] if the length does not fit.
pub fn encode(kind: Kind, document: &[u8]) -> Result<Vec<u8>, FrameError> {
    let length = u32::try_from(document.len()).ok().filter(|_| document.len() <= REPLY_BYTES_MAX);
    let length = length.ok_or(FrameError::TooLong)?;
    let mut bytes = Vec::with_capacity(HEADER_BYTES + document.len());
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.push(kind.byte());
    bytes.extend_from_slice(document);
    Ok(bytes)
}

/// Returns the bytes of a frame with this document.
///
/// # Errors
/// As [`encode`].
pub fn of(kind: Kind, document: &impl Serialize) -> Result<Vec<u8>, FrameError> {
    // These documents have string keys only, so they always become JSON.
    encode(kind, &serde_json::to_vec(document).unwrap_or_default())
}

/// The bytes of a stream that are not taken as frames yet.
#[derive(Debug)]
pub struct Decoder {
    buffer: Vec<u8>,
    // The frames before this place are taken.
    start: usize,
    document_max: usize,
}

impl Decoder {
    /// A decoder of the frames to the host.
    pub fn of_requests() -> Self {
        Self { buffer: Vec::new(), start: 0, document_max: REQUEST_BYTES_MAX }
    }

    /// A decoder of the frames to a shim.
    pub fn of_replies() -> Self {
        Self { buffer: Vec::new(), start: 0, document_max: REPLY_BYTES_MAX }
    }

    /// Adds the next bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the number of bytes that are not taken.
    pub fn len(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// Returns whether all bytes are taken.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether a whole frame, or an error, can be taken.
    pub fn has_frame(&self) -> bool {
        match self.header() {
            Ok(Some((_, length))) => self.len() >= HEADER_BYTES + length,
            Ok(None) => false,
            Err(_) => true,
        }
    }

    /// Takes the next whole frame, if there is one.
    ///
    /// # Errors
    /// [`FrameError`]; the rest of the stream is unusable.
    pub fn take(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some((kind, length)) = self.header()? else { return Ok(None) };
        let (from, to) = (self.start + HEADER_BYTES, self.start + HEADER_BYTES + length);
        let Some(document) = self.buffer.get(from..to) else { return Ok(None) };
        let frame = Frame { kind, document: document.to_vec() };
        self.start = to;
        if self.start == self.buffer.len() {
            // A long frame must not keep its memory.
            if self.buffer.capacity() > 64 * 1024 {
                self.buffer = Vec::new();
            } else {
                self.buffer.clear();
            }
            self.start = 0;
        }
        Ok(Some(frame))
    }

    fn header(&self) -> Result<Option<(Kind, usize)>, FrameError> {
        let rest = self.buffer.get(self.start..).unwrap_or_default();
        let Some((length, rest)) = rest.split_first_chunk::<4>() else { return Ok(None) };
        let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        if length > self.document_max {
            return Err(FrameError::TooLong);
        }
        let Some(kind) = rest.first() else { return Ok(None) };
        Ok(Some((Kind::from_byte(*kind).ok_or(FrameError::UnknownKind)?, length)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_whole_however_the_stream_is_cut() {
        let mut stream = Vec::new();
        let documents: [&[u8]; 4] = [b"{}", b"", b"{\"a\":1}", &[7; 3000]];
        for (kind, document) in Kind::ALL.into_iter().zip(documents.into_iter().cycle()) {
            stream.extend(encode(kind, document).unwrap());
        }
        for step in [1, 2, 5, 7, 64, stream.len()] {
            let (mut decoder, mut taken) = (Decoder::of_requests(), Vec::new());
            for part in stream.chunks(step) {
                decoder.push(part);
                while let Some(frame) = decoder.take().unwrap() {
                    taken.push(frame);
                }
            }
            assert!(decoder.is_empty());
            let expected: Vec<Frame> = Kind::ALL
                .into_iter()
                .zip(documents.into_iter().cycle())
                .map(|(kind, document)| Frame { kind, document: document.to_vec() })
                .collect();
            assert_eq!(taken, expected, "{step}");
        }
    }

    #[test]
    fn a_length_and_a_kind_are_refused_before_their_document_comes() {
        let mut decoder = Decoder::of_requests();
        let too_long = u32::try_from(REQUEST_BYTES_MAX + 1).unwrap();
        decoder.push(&too_long.to_be_bytes());
        assert!(decoder.has_frame());
        assert_eq!(decoder.take(), Err(FrameError::TooLong));
        for kind in [0, 9, 255] {
            let mut decoder = Decoder::of_requests();
            decoder.push(&[0, 0, 0, 1, kind]);
            assert_eq!(decoder.take(), Err(FrameError::UnknownKind));
        }
        assert_eq!(encode(Kind::Reply, &vec![0; REPLY_BYTES_MAX + 1]), Err(FrameError::TooLong));
        let mut decoder = Decoder::of_replies();
        decoder.push(&too_long.to_be_bytes());
        assert_eq!(decoder.take(), Ok(None));
    }

    #[test]
    fn documents_have_the_members_that_the_protocol_names() {
        let id: RequestId = "r-1".parse().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes[HEADER_BYTES..].to_vec()).unwrap();
        let withdrawn = Withdrawn { request_id: id.clone(), state: WithdrawnState::NeverTaken };
        assert_eq!(text(of(Kind::Withdrawn, &withdrawn).unwrap()), r#"{"request_id":"r-1","state":"never_taken"}"#);
        let progress = Progress { message: "half".into(), progress: Some(1.0), total: Some(2.0) };
        let told = CallProgress { request_id: id, progress };
        let read: CallProgress = serde_json::from_str(&text(of(Kind::Progress, &told).unwrap())).unwrap();
        assert_eq!(read, told);
    }
}
