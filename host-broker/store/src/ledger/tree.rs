//! The Merkle tree over the rows, for checkpoints and their proofs (RFC 6962, section 2.1).
//!
//! The leaf with index `n` is the `event_hash` of row `n + 1`, as 32 bytes. A leaf's hash is SHA-256 over a zero byte and
//! the leaf; a node's is SHA-256 over a one byte and the hashes of its two children. [`Tree`] keeps only the roots of
//! the complete subtrees: one hash for each bit of its size.

use sha2::{Digest as _, Sha256};
use shared::digest::Digest;
use std::ops::Range;

/// A tree over the first rows of a chain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree {
    size: u64,
    // The roots of the complete subtrees, largest first.
    peaks: Vec<Digest>,
}

impl Tree {
    /// Returns the tree of this size with these roots of complete subtrees, as [`Self::peaks`] returned them. `None` if
    /// a tree of that size has another number of them.
    pub fn stored(size: i64, peaks: &[u8]) -> Option<Self> {
        let size = u64::try_from(size).ok()?;
        let (parts, rest) = peaks.as_chunks::<32>();
        let fits = rest.is_empty() && u32::try_from(parts.len()) == Ok(size.count_ones());
        fits.then(|| Self { size, peaks: parts.iter().copied().map(Digest::from_bytes).collect() })
    }

    /// Returns the roots of the complete subtrees, largest first, 32 bytes each.
    pub fn peaks(&self) -> Vec<u8> {
        self.peaks.iter().flat_map(|peak| *peak.as_bytes()).collect()
    }

    /// Returns the number of rows.
    pub fn size(&self) -> i64 {
        i64::try_from(self.size).unwrap_or(i64::MAX)
    }

    /// Adds the next row.
    pub fn push(&mut self, event_hash: &Digest) {
        let (mut node, mut left) = (leaf(event_hash), self.size);
        while left & 1 == 1
            && let Some(peak) = self.peaks.pop()
        {
            node = parent(&peak, &node);
            left >>= 1;
        }
        self.peaks.push(node);
        self.size += 1;
    }

    /// Returns the root over all rows; SHA-256 of nothing if there is none.
    pub fn root(&self) -> Digest {
        let above = |right: Digest, peak: &Digest| parent(peak, &right);
        match self.peaks.split_last() {
            Some((last, larger)) => larger.iter().rev().fold(*last, above),
            None => Digest::of(&[]),
        }
    }
}

/// Returns the hash of a leaf.
pub fn leaf(event_hash: &Digest) -> Digest {
    let hasher = Sha256::new_with_prefix([0]).chain_update(event_hash.as_bytes());
    Digest::from_bytes(hasher.finalize().into())
}

fn parent(left: &Digest, right: &Digest) -> Digest {
    let hasher = Sha256::new_with_prefix([1]).chain_update(left.as_bytes()).chain_update(right.as_bytes());
    Digest::from_bytes(hasher.finalize().into())
}

/// A proof that is made while the rows are read, from the first one on.
#[derive(Debug, Clone)]
pub struct ProofBuilder {
    // The leaves below each node of the proof, in the order of the proof.
    parts: Vec<(Range<u64>, Tree)>,
    next: u64,
    end: u64,
}

impl ProofBuilder {
    /// Begins the proof that a row is in the tree over so many rows. `None` if the tree does not have it.
    pub fn inclusion(seq: i64, size: i64) -> Option<Self> {
        let (seq, size) = (u64::try_from(seq).ok()?, u64::try_from(size).ok()?);
        let index = seq.checked_sub(1).filter(|index| *index < size)?;
        let mut parts = Vec::new();
        path(index, 0..size, &mut parts);
        Some(Self::of(parts, size))
    }

    /// Begins the proof that the tree over `new` rows continues the one over `old` rows. `None` if `old` is not between 0
    /// and `new`. Every tree continues the one over no row, with an empty proof.
    pub fn consistency(old: i64, new: i64) -> Option<Self> {
        let (old, new) = (u64::try_from(old).ok()?, u64::try_from(new).ok()?);
        if old > new {
            return None;
        }
        let mut parts = Vec::new();
        if old > 0 {
            continuation(old, 0..new, true, &mut parts);
        }
        Some(Self::of(parts, new))
    }

    fn of(parts: Vec<Range<u64>>, end: u64) -> Self {
        Self { parts: parts.into_iter().map(|part| (part, Tree::default())).collect(), next: 0, end }
    }

    /// Adds the next row; rows after the last one of the tree are ignored.
    pub fn take(&mut self, event_hash: &Digest) {
        if let Some((_, tree)) = self.parts.iter_mut().find(|(part, _)| part.contains(&self.next)) {
            tree.push(event_hash);
        }
        self.next += 1;
    }

    /// Returns the hashes of the proof; `None` if rows are missing.
    pub fn finish(self) -> Option<Vec<Digest>> {
        (self.next >= self.end).then(|| self.parts.iter().map(|(_, tree)| tree.root()).collect())
    }
}

/// Returns the index at which these leaves, at least two, are divided: the largest power of two below their number.
fn split(leaves: &Range<u64>) -> u64 {
    let number = leaves.end - leaves.start;
    leaves.start + (1 << (number - 1).ilog2())
}

/// Lists the subtrees beside the path from a leaf to the root (RFC 6962, section 2.1.1).
fn path(index: u64, leaves: Range<u64>, parts: &mut Vec<Range<u64>>) {
    if leaves.end - leaves.start < 2 {
        return;
    }
    let middle = split(&leaves);
    let (left, right) = (leaves.start..middle, middle..leaves.end);
    let (with, beside) = if index < middle { (left, right) } else { (right, left) };
    path(index, with, parts);
    parts.push(beside);
}

/// Lists the subtrees that prove that a tree continues an earlier one, which ends at `old` (RFC 6962, section 2.1.2).
fn continuation(old: u64, leaves: Range<u64>, is_known: bool, parts: &mut Vec<Range<u64>>) {
    if old == leaves.end {
        // A verifier knows the root of the earlier tree.
        if !is_known {
            parts.push(leaves);
        }
        return;
    }
    let middle = split(&leaves);
    let (left, right) = (leaves.start..middle, middle..leaves.end);
    if old <= middle {
        continuation(old, left, is_known, parts);
        parts.push(right);
    } else {
        continuation(old, right, false, parts);
        parts.push(left);
    }
}

/// Returns the root that this proof of inclusion leads to; `None` if it is no proof for that row and size (RFC 9162,
/// section 2.1.3.2).
pub fn root_of_inclusion(event_hash: &Digest, seq: i64, size: i64, proof: &[Digest]) -> Option<Digest> {
    let (seq, size) = (u64::try_from(seq).ok()?, u64::try_from(size).ok()?);
    let mut node = seq.checked_sub(1).filter(|index| *index < size)?;
    let mut last = size - 1;
    let mut root = leaf(event_hash);
    for hash in proof {
        if last == 0 {
            return None;
        }
        if node & 1 == 1 || node == last {
            root = parent(hash, &root);
            while node & 1 == 0 && node != 0 {
                node >>= 1;
                last >>= 1;
            }
        } else {
            root = parent(&root, hash);
        }
        node >>= 1;
        last >>= 1;
    }
    (last == 0).then_some(root)
}

/// Returns whether this proof shows that the second tree continues the first one (RFC 9162, section 2.1.4.2). Each tree
/// is its number of rows and its root.
pub fn is_continued((old, old_root): (i64, Digest), (new, new_root): (i64, Digest), proof: &[Digest]) -> bool {
    let (Ok(old), Ok(new)) = (u64::try_from(old), u64::try_from(new)) else { return false };
    if old == 0 || old >= new {
        return old == new && old != 0 && proof.is_empty() && old_root == new_root;
    }
    let (mut node, mut last) = (old - 1, new - 1);
    while node & 1 == 1 {
        node >>= 1;
        last >>= 1;
    }
    // The earlier tree is complete if its size is a power of two, and its root begins the proof.
    let begin = if old.is_power_of_two() { Some((&old_root, proof)) } else { proof.split_first() };
    let Some((first, rest)) = begin else { return false };
    let (mut first_root, mut second_root) = (*first, *first);
    for hash in rest {
        if last == 0 {
            return false;
        }
        if node & 1 == 1 || node == last {
            first_root = parent(hash, &first_root);
            second_root = parent(hash, &second_root);
            while node & 1 == 0 && node != 0 {
                node >>= 1;
                last >>= 1;
            }
        } else {
            second_root = parent(&second_root, hash);
        }
        node >>= 1;
        last >>= 1;
    }
    last == 0 && first_root == old_root && second_root == new_root
}

#[cfg(test)]
mod tests {
    use super::*;
    use tlog_tiles::{Error, Hash, HashReader, prove_record, prove_tree, stored_hashes, tree_hash};

    /// A tree of another implementation, from the same leaves.
    struct Reference(Vec<Hash>);

    impl HashReader for Reference {
        fn read_hashes(&self, indexes: &[u64]) -> Result<Vec<Hash>, Error> {
            Ok(indexes.iter().map(|index| self.0[usize::try_from(*index).unwrap()]).collect())
        }
    }

    impl Reference {
        fn of(rows: &[Digest]) -> Self {
            let mut reference = Self(Vec::new());
            for (index, row) in (0_u64..).zip(rows) {
                let hashes = stored_hashes(index, row.as_bytes(), &reference).unwrap();
                reference.0.extend(hashes);
            }
            reference
        }
    }

    fn rows(number: u64) -> Vec<Digest> {
        (0..number).map(|row| Digest::of(&row.to_be_bytes())).collect()
    }

    fn tree(rows: &[Digest]) -> Tree {
        let mut tree = Tree::default();
        for row in rows {
            tree.push(row);
        }
        tree
    }

    fn proof(builder: Option<ProofBuilder>, rows: &[Digest]) -> Vec<Digest> {
        let mut builder = builder.unwrap();
        for row in rows {
            builder.take(row);
        }
        builder.finish().unwrap()
    }

    fn same(ours: &[Digest], theirs: &[Hash]) -> bool {
        ours.iter().map(Digest::as_bytes).eq(theirs.iter().map(|hash| &hash.0))
    }

    const MOST: u64 = 70;

    #[test]
    fn roots_and_proofs_are_those_of_another_implementation() {
        let all = rows(MOST);
        let reference = Reference::of(&all);
        for size in 1..=MOST {
            let some = &all[..usize::try_from(size).unwrap()];
            let (tree, signed) = (tree(some), i64::try_from(size).unwrap());
            assert_eq!(tree.root().as_bytes(), &tree_hash(size, &reference).unwrap().0, "{size}");
            assert_eq!(Tree::stored(signed, &tree.peaks()), Some(tree.clone()));
            for index in 0..size {
                let seq = i64::try_from(index + 1).unwrap();
                let ours = proof(ProofBuilder::inclusion(seq, signed), some);
                assert!(same(&ours, &prove_record(size, index, &reference).unwrap()), "{index} of {size}");
                let leaf = &all[usize::try_from(index).unwrap()];
                assert_eq!(root_of_inclusion(leaf, seq, signed, &ours), Some(tree.root()), "{index} of {size}");
            }
            for old in 1..=size {
                let ours = proof(ProofBuilder::consistency(i64::try_from(old).unwrap(), signed), some);
                assert!(same(&ours, &prove_tree(size, old, &reference).unwrap()), "{old} to {size}");
            }
        }
    }

    #[test]
    fn a_proof_holds_for_its_row_its_sizes_and_its_roots_only() {
        let all = rows(20);
        let root = |size: usize| tree(&all[..size]).root();
        let inclusion = proof(ProofBuilder::inclusion(7, 20), &all);
        for (seq, size) in [(6, 20), (8, 20), (7, 33), (7, 6), (0, 20), (21, 20), (-1, 20), (7, 0)] {
            assert_ne!(root_of_inclusion(&all[6], seq, size, &inclusion), Some(root(20)), "{seq} of {size}");
        }
        assert_ne!(root_of_inclusion(&all[7], 7, 20, &inclusion), Some(root(20)), "another row");
        let (longer, shorter) = ([&inclusion[..], &[root(3)]].concat(), &inclusion[1..]);
        assert_eq!(root_of_inclusion(&all[6], 7, 20, &longer), None);
        assert_eq!(root_of_inclusion(&all[6], 7, 20, shorter), None);

        let consistency = proof(ProofBuilder::consistency(7, 20), &all);
        assert!(is_continued((7, root(7)), (20, root(20)), &consistency));
        for (old, new) in
            [((7, root(6)), (20, root(20))), ((7, root(7)), (20, root(19))), ((6, root(6)), (20, root(20)))]
        {
            assert!(!is_continued(old, new, &consistency));
        }
        assert!(!is_continued((0, root(0)), (20, root(20)), &consistency));
        assert!(!is_continued((20, root(20)), (7, root(7)), &consistency));
        assert!(!is_continued((7, root(7)), (20, root(20)), &consistency[1..]));
        assert!(is_continued((20, root(20)), (20, root(20)), &[]));
        assert!(!is_continued((20, root(20)), (20, root(19)), &[]));
        // A complete earlier tree begins the proof with its own root.
        let complete = proof(ProofBuilder::consistency(8, 20), &all);
        assert!(is_continued((8, root(8)), (20, root(20)), &complete));
    }

    #[test]
    fn a_proof_needs_all_rows_of_its_tree() {
        let mut builder = ProofBuilder::inclusion(1, 3).unwrap();
        for row in &rows(2) {
            builder.take(row);
        }
        assert_eq!(builder.finish(), None);
        assert!(ProofBuilder::inclusion(0, 3).is_none() && ProofBuilder::inclusion(4, 3).is_none());
        assert!(ProofBuilder::consistency(-1, 3).is_none() && ProofBuilder::consistency(4, 3).is_none());
        assert_eq!(proof(ProofBuilder::consistency(0, 3), &rows(3)), []);
        assert_eq!(Tree::stored(3, &[0; 32]), None, "a tree of three rows has two complete subtrees");
        assert_eq!(Tree::stored(1, &[0; 33]), None);
        assert_eq!(Tree::stored(-1, &[]), None);
    }
}
