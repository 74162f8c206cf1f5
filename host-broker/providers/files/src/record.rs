//! The stored form of changes: a JSON head and contents beside it, protected by a digest against faults of a disk.

use serde::Serialize;
use serde::de::DeserializeOwned;
use shared::digest::Digest;

const MAGIC: &[u8] = b"files.1\n";
const DIGEST_BYTES: usize = 32;

/// The bytes differ from the stored ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the stored changes are damaged")]
pub struct Damaged;

/// Puts head and contents together.
pub(crate) fn encode<'a>(head: &impl Serialize, contents: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut all = MAGIC.to_vec();
    // Fails for maps whose keys are no strings; heads are structs.
    let head = serde_json::to_vec(head).unwrap_or_default();
    push(&mut all, &head);
    for part in contents {
        push(&mut all, part);
    }
    let digest = Digest::of(&all);
    all.extend(digest.as_bytes());
    all
}

fn push(all: &mut Vec<u8>, part: &[u8]) {
    all.extend(u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
    all.extend(part);
}

/// Takes them apart.
pub(crate) fn decode<H: DeserializeOwned>(bytes: &[u8]) -> Result<(H, std::vec::IntoIter<Vec<u8>>), Damaged> {
    let (kept, digest) =
        bytes.len().checked_sub(DIGEST_BYTES).and_then(|at| bytes.split_at_checked(at)).ok_or(Damaged)?;
    if Digest::of(kept).as_bytes() != digest {
        return Err(Damaged);
    }
    let mut rest = kept.strip_prefix(MAGIC).ok_or(Damaged)?;
    let mut parts = Vec::new();
    while let Some((length, after)) = rest.split_first_chunk() {
        let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_size| Damaged)?;
        let (part, after) = after.split_at_checked(length).ok_or(Damaged)?;
        parts.push(part.to_vec());
        rest = after;
    }
    let mut parts = parts.into_iter();
    let head = parts.next().ok_or(Damaged)?;
    let head = serde_json::from_slice(&head).map_err(|_why| Damaged)?;
    if rest.is_empty() { Ok((head, parts)) } else { Err(Damaged) }
}
