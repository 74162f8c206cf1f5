//! Proofs for a verifier that does not have the ledger: that one row is in it, and that it continues an earlier checkpoint.
//!
//! The format of the first is the C2SP specification `tlog-proof`. The extra data is the row as a line of an export:
//!
//! ```text
//! c2sp.org/tlog-proof@v1
//! extra eyJzZXEiOjcs…                              the row, in base64
//! index 6                                          the number of the row minus 1
//! gSKyXoYZUgZ6jduWYrkDOARinOMGJveXjgMkBTcdPlQ=     the hashes from the leaf to the root
//!
//! host-broker/5f2c0c8d1e93ab47                     a checkpoint
//! …
//! ```
//! The format of the second is the request of the C2SP specification `tlog-witness`:
//!
//! ```text
//! old 1200                                         the number of rows of the earlier checkpoint
//! gSKyXoYZUgZ6jduWYrkDOARinOMGJveXjgMkBTcdPlQ=     the hashes of the proof
//!
//! host-broker/5f2c0c8d1e93ab47                     the later checkpoint
//! …
//! ```

use crate::ledger::chain::Row;
use crate::ledger::checkpoint::{Checkpoint, Malformed, PublicKey};
use crate::ledger::export;
use crate::ledger::tree::{is_continued, root_of_inclusion};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use shared::digest::Digest;
use std::fmt;
use std::str::FromStr;

const HEADER: &str = "c2sp.org/tlog-proof@v1";
/// The largest proof that is read, in bytes: more than any row and all its hashes.
pub const PROOF_MAX: usize = 4 * 1024 * 1024;
/// The most hashes of a proof: a tree has fewer levels.
const HASHES_MAX: usize = 64;

/// A proof.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InclusionProof {
    /// The row.
    pub row: Row,
    /// The hashes beside the path from its leaf to the root.
    pub hashes: Vec<Digest>,
    /// The checkpoint of the tree.
    pub checkpoint: Checkpoint,
}

/// The fault of a proof.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It cannot be read.
    #[error("it is not a proof: {0}")]
    Malformed(String),
    /// The row was changed.
    #[error("the row does not have the hash of its content")]
    Content,
    /// The hashes lead to another root.
    #[error("the row is not in the tree of the checkpoint")]
    Root,
    /// The later tree does not continue the earlier one.
    #[error("the ledger does not continue the earlier checkpoint")]
    Other,
    /// It is about another checkpoint.
    #[error("it is about an earlier checkpoint of {proved} rows, and the kept one has {kept}")]
    Size {
        /// The number of rows of the earlier checkpoint in the proof.
        proved: i64,
        /// The number of rows of the kept checkpoint.
        kept: i64,
    },
    /// No key signed a checkpoint.
    #[error("no given key signed the checkpoint of {size} rows")]
    Signature {
        /// The number of its rows.
        size: i64,
    },
}

impl Fault {
    fn malformed(fault: &str) -> Self {
        Self::Malformed(fault.to_owned())
    }
}

impl InclusionProof {
    /// Verifies that the row is unchanged and in the tree, and that one of these keys signed the checkpoint.
    ///
    /// # Errors
    /// [`Fault`], the first one that is found.
    pub fn verify(&self, keys: &[PublicKey]) -> Result<(), Fault> {
        self.is_in_tree()?;
        signed(&self.checkpoint, keys)
    }

    /// Verifies the same without the signature.
    ///
    /// # Errors
    /// As [`Self::verify`].
    pub fn is_in_tree(&self) -> Result<(), Fault> {
        if self.row.hash() != self.row.event_hash {
            return Err(Fault::Content);
        }
        let (row, size) = (&self.row, self.checkpoint.size());
        if root_of_inclusion(&row.event_hash, row.seq, size, &self.hashes) != Some(self.checkpoint.root()) {
            return Err(Fault::Root);
        }
        Ok(())
    }
}

fn signed(checkpoint: &Checkpoint, keys: &[PublicKey]) -> Result<(), Fault> {
    let is_signed = keys.iter().any(|key| checkpoint.is_signed_by(key));
    if is_signed { Ok(()) } else { Err(Fault::Signature { size: checkpoint.size() }) }
}

impl fmt::Display for InclusionProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEADER}\nextra {}", STANDARD.encode(export::line(&self.row)))?;
        writeln!(f, "index {}", self.row.seq.saturating_sub(1))?;
        for hash in &self.hashes {
            writeln!(f, "{}", STANDARD.encode(hash.as_bytes()))?;
        }
        write!(f, "\n{}", self.checkpoint)
    }
}

impl FromStr for InclusionProof {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        let (head, checkpoint) = parts(text)?;
        let mut lines = head.split('\n');
        if lines.next() != Some(HEADER) {
            return Err(Fault::malformed("it does not begin with the name of the format"));
        }
        let extra = lines.next().and_then(|line| STANDARD.decode(line.strip_prefix("extra ")?).ok());
        let line = extra.and_then(|extra| String::from_utf8(extra).ok());
        let line = line.ok_or_else(|| Fault::malformed("it has no row"))?;
        let row = export::parse_line(&line).map_err(|error| Fault::Malformed(format!("its row: {error}")))?;
        let index = lines.next().and_then(|line| line.strip_prefix("index "));
        if index != row.seq.checked_sub(1).map(|index| index.to_string()).as_deref() {
            return Err(Fault::malformed("its index is not the one of its row"));
        }
        Ok(Self { row, hashes: hashes(lines)?, checkpoint })
    }
}

/// Returns the part before the checkpoint, and the checkpoint.
fn parts(text: &str) -> Result<(&str, Checkpoint), Fault> {
    let (head, note) = text.split_once("\n\n").ok_or_else(|| Fault::malformed("it has no checkpoint"))?;
    let malformed = |error: Malformed| Fault::Malformed(format!("the part after its hashes: {error}"));
    Ok((head, note.parse().map_err(malformed)?))
}

/// Reads lines that are hashes, as many as a proof can have.
fn hashes<'t>(lines: impl Iterator<Item = &'t str>) -> Result<Vec<Digest>, Fault> {
    let hash = |line: &str| STANDARD.decode(line).ok()?.try_into().ok().map(Digest::from_bytes);
    let hashes: Option<Vec<Digest>> = lines.take(HASHES_MAX + 1).map(hash).collect();
    let hashes = hashes.filter(|hashes| hashes.len() <= HASHES_MAX);
    hashes.ok_or_else(|| Fault::malformed("a line is no hash"))
}

/// A proof that a ledger continues an earlier checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsistencyProof {
    /// The number of rows of the earlier checkpoint.
    pub old: i64,
    /// The hashes of the proof.
    pub hashes: Vec<Digest>,
    /// The later checkpoint.
    pub checkpoint: Checkpoint,
}

impl ConsistencyProof {
    /// Verifies that the later checkpoint continues this one, and that each is signed by one of these keys.
    ///
    /// # Errors
    /// [`Fault`], the first one that is found.
    pub fn verify(&self, earlier: &Checkpoint, keys: &[PublicKey]) -> Result<(), Fault> {
        if earlier.size() != self.old {
            return Err(Fault::Size { proved: self.old, kept: earlier.size() });
        }
        let state = |checkpoint: &Checkpoint| (checkpoint.size(), checkpoint.root());
        if !is_continued(state(earlier), state(&self.checkpoint), &self.hashes) {
            return Err(Fault::Other);
        }
        signed(earlier, keys)?;
        signed(&self.checkpoint, keys)
    }
}

impl fmt::Display for ConsistencyProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "old {}", self.old)?;
        for hash in &self.hashes {
            writeln!(f, "{}", STANDARD.encode(hash.as_bytes()))?;
        }
        write!(f, "\n{}", self.checkpoint)
    }
}

impl FromStr for ConsistencyProof {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        let (head, checkpoint) = parts(text)?;
        let mut lines = head.split('\n');
        let text = lines.next().and_then(|line| line.strip_prefix("old ")).unwrap_or_default();
        let old = text.parse().ok().filter(|old: &i64| old.to_string() == text);
        let old = old.ok_or_else(|| Fault::malformed("it does not begin with a number of rows"))?;
        Ok(Self { old, hashes: hashes(lines)?, checkpoint })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_are_no_proof_are_refused_with_their_fault() {
        let refused = |text: &str| match text.parse::<InclusionProof>() {
            Err(Fault::Malformed(fault)) => fault,
            other => panic!("{other:?}"),
        };
        for (text, fault) in [
            ("", "it has no checkpoint"),
            ("c2sp.org/tlog-proof@v1\n\nx", "the part after its hashes: it is not a checkpoint: it has no signature"),
        ] {
            assert_eq!(refused(text), fault, "{text}");
        }
    }
}
