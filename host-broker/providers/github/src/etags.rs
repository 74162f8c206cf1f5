//! Answers kept for revalidation: GitHub does not count a read that it can answer with 304.
//!
//! Kept per client. A 304 is GitHub's own word that the token of the request may still see the content. The key is the
//! whole URI; the other inputs of an answer (`Accept`, the API version) are the same in every request.

use crate::base::Cursor;
use bytes::Bytes;
use http::{HeaderValue, Uri};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// How many bytes of bodies are kept.
const BYTES_MAX: usize = 2 * 1024 * 1024;
/// The largest body that is worth it.
const BODY_BYTES_MAX: usize = 512 * 1024;

/// A kept answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kept {
    /// The tag for the revalidation.
    pub(super) etag: HeaderValue,
    /// The body.
    pub(super) body: Bytes,
    /// Where the next page begins.
    pub(super) next: Option<Cursor>,
}

/// The kept answers, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Etags(Mutex<VecDeque<(Uri, Kept)>>);

impl Etags {
    /// The answer kept for this URI.
    pub(super) fn get(&self, uri: &Uri) -> Option<Kept> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().find(|(of, _)| of == uri).map(|(_, kept)| kept.clone())
    }

    /// Keeps an answer, at the cost of older ones.
    pub(super) fn put(&self, uri: Uri, answer: Kept) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(of, _)| *of != uri);
        if answer.body.len() > BODY_BYTES_MAX {
            return;
        }
        kept.push_back((uri, answer));
        while kept.iter().map(|(_, k)| k.body.len()).sum::<usize>() > BYTES_MAX {
            kept.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(size: usize) -> Kept {
        Kept { etag: HeaderValue::from_static("\"x\""), body: vec![b'x'; size].into(), next: None }
    }

    #[test]
    fn kept_answers_are_bounded_and_keyed_by_the_whole_uri() {
        let etags = Etags::default();
        let uri = |n: usize| format!("https://api.github.com/x?page={n}").parse::<Uri>().unwrap();
        for n in 0..30 {
            etags.put(uri(n), kept(100 * 1024));
        }
        assert_eq!(etags.get(&uri(0)), None);
        assert_eq!(etags.get(&uri(29)), Some(kept(100 * 1024)));
        etags.put(uri(29), kept(BODY_BYTES_MAX + 1));
        assert_eq!(etags.get(&uri(29)), None, "an answer that is not kept replaces the older one all the same");
    }
}
