//! The checkpoints of a chain, followed row by row.

use crate::ledger::chain::{Row, RowKind};
use crate::ledger::checkpoint::{Checkpoint, PublicKey, in_row};
use crate::ledger::tree::Tree;

/// The fault of a checkpoint in the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It cannot be read.
    #[error("a checkpoint that cannot be read")]
    Malformed,
    /// It does not state the rows before it.
    #[error("a checkpoint of another number of rows")]
    Size,
    /// The root differs from the one of the rows before it.
    #[error("a checkpoint of other rows than those before it")]
    Root,
    /// It is another row.
    #[error("no checkpoint, although one was signed there")]
    Absent,
    /// It is of another ledger.
    #[error("a checkpoint of another ledger")]
    Origin,
    /// The signature is missing or wrong.
    #[error("a checkpoint without a valid signature")]
    Signature,
}

/// A key that signs from this row on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyChange {
    /// The row with its first checkpoint.
    pub seq: i64,
    /// The key.
    pub key: PublicKey,
    /// Whether the key before it endorses it. The first key needs no endorsement. Unknown if the key before it was named
    /// before the first row that was read.
    pub is_endorsed: Option<bool>,
}

/// The checkpoints of a chain, followed row by row.
#[derive(Debug, Clone)]
pub struct CheckpointVerifier {
    // The rows so far; absent if the first ones were not read.
    tree: Option<Tree>,
    keys: Vec<KeyChange>,
    latest: Option<(i64, Checkpoint)>,
}

impl CheckpointVerifier {
    /// Begins with the first row.
    pub fn new() -> Self {
        Self { tree: Some(Tree::default()), keys: Vec::new(), latest: None }
    }

    /// Begins with a later row. Roots are not compared, and a signature only once a row names its key.
    pub fn later() -> Self {
        Self { tree: None, keys: Vec::new(), latest: None }
    }

    /// Returns the tree over the rows so far, if the first ones were read.
    pub fn tree(&self) -> Option<&Tree> {
        self.tree.as_ref()
    }

    /// Returns the keys in the order of their rows.
    pub fn keys(&self) -> &[KeyChange] {
        &self.keys
    }

    /// Returns the last checkpoint and its row.
    pub fn latest(&self) -> Option<&(i64, Checkpoint)> {
        self.latest.as_ref()
    }

    /// Takes the next row.
    ///
    /// # Errors
    /// [`Fault`], if it is an invalid checkpoint.
    pub fn take(&mut self, row: &Row) -> Result<(), Fault> {
        if row.kind == RowKind::Checkpointed.word() {
            self.check(row)?;
        }
        if let Some(tree) = &mut self.tree {
            tree.push(&row.event_hash);
        }
        Ok(())
    }

    fn check(&mut self, row: &Row) -> Result<(), Fault> {
        let (checkpoint, named) = in_row(row).ok_or(Fault::Malformed)?;
        if checkpoint.size() != row.seq - 1 {
            return Err(Fault::Size);
        }
        if self.latest.as_ref().is_some_and(|(_, latest)| latest.origin() != checkpoint.origin()) {
            return Err(Fault::Origin);
        }
        if self.tree.as_ref().is_some_and(|tree| tree.root() != checkpoint.root()) {
            return Err(Fault::Root);
        }
        let before = self.keys.last().map(|change| &change.key);
        let is_signed = |key: &PublicKey| checkpoint.is_signed_by(key);
        match (named, before) {
            (Some((key, _)), Some(before)) if key == *before && is_signed(before) => {}
            (Some((key, endorsement)), before) if is_signed(&key) => {
                let endorsed = |before: &PublicKey| checkpoint.is_endorsed(&key, before, endorsement.as_deref());
                let is_endorsed = before.map(endorsed).or(self.tree.is_some().then_some(true));
                self.keys.push(KeyChange { seq: row.seq, key, is_endorsed });
            }
            (None, Some(before)) if is_signed(before) => {}
            // Its key was named before the first row that was read.
            (None, None) if self.tree.is_none() => {}
            (Some(_) | None, _) => return Err(Fault::Signature),
        }
        self.latest = Some((row.seq, checkpoint));
        Ok(())
    }
}

impl Default for CheckpointVerifier {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::chain::Head;
    use crate::ledger::checkpoint::tests::{Key, ORIGIN};
    use crate::ledger::verifier::{Break, Verifier};
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use model::Signer as _;
    use serde_json::{Value, json};
    use shared::digest::Digest;

    /// A chain that is written here, row by row.
    #[derive(Default)]
    struct Chain {
        rows: Vec<Row>,
        tree: Tree,
    }

    impl Chain {
        fn push(&mut self, kind: RowKind, body: &Value) {
            let prev_hash = self.rows.last().map_or(Digest::ZERO, |row| row.event_hash);
            let mut row = Row {
                seq: self.tree.size() + 1,
                ts: 0,
                kind: kind.word().to_owned(),
                caller: "broker".to_owned(),
                person: None,
                request_id: None,
                provider: None,
                action: None,
                level: None,
                params_digest: None,
                summary: None,
                reason_code: None,
                result_summary: None,
                result_digest: None,
                task_id: None,
                approval: None,
                policy_version: String::new(),
                duration_ms: None,
                body: body.to_string(),
                prev_hash,
                event_hash: prev_hash,
            };
            row.event_hash = row.hash();
            self.tree.push(&row.event_hash);
            self.rows.push(row);
        }

        fn with(mut self, rows: usize) -> Self {
            (0..rows).for_each(|_| self.push(RowKind::Noted, &json!({})));
            self
        }

        /// Appends a checkpoint of the key that was named last.
        fn signed(mut self, key: &Key) -> Self {
            let note = Checkpoint::sign(ORIGIN, &self.tree, key).to_string();
            self.push(RowKind::Checkpointed, &json!({ "note": note }));
            self
        }

        /// Appends the first checkpoint of a key.
        fn named(mut self, key: &Key, earlier: Option<&Key>) -> Self {
            let (checkpoint, public) = (Checkpoint::sign(ORIGIN, &self.tree, key), PublicKey::of(ORIGIN, key));
            let endorsement = earlier.map(|earlier| checkpoint.endorse(&public, earlier));
            let (note, key) = (checkpoint.to_string(), public.to_string());
            self.push(RowKind::Checkpointed, &json!({ "note": note, "key": key, "endorsement": endorsement }));
            self
        }

        fn verify(&self) -> Result<Verifier, Break> {
            let mut verifier = Verifier::new();
            self.rows.iter().try_for_each(|row| verifier.take(row))?;
            Ok(verifier)
        }

        fn fault(&self) -> Fault {
            match self.verify() {
                Err(Break::Checkpoint { fault, seq }) => {
                    assert_eq!(seq, self.rows.last().unwrap().seq);
                    fault
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_checkpoint_holds_for_all_rows_before_it() {
        let key = Key::new(1);
        let chain = Chain::default().with(3).named(&key, None).with(2).signed(&key);
        let verifier = chain.verify().unwrap();
        let (seq, latest) = verifier.checkpoints().latest().unwrap();
        assert_eq!((*seq, latest.size()), (7, 6));
        let keys = [KeyChange { seq: 4, key: PublicKey::of(ORIGIN, &key), is_endorsed: Some(true) }];
        assert_eq!(verifier.checkpoints().keys(), keys);
        // From a later row on, there is no tree to compare with, and no key is known.
        let row = &chain.rows[4];
        let mut later = Verifier::after(Head { seq: row.seq, hash: row.event_hash, ts: row.ts });
        assert!(chain.rows[5..].iter().all(|row| later.take(row).is_ok()));
        assert_eq!(later.checkpoints().latest().unwrap().0, 7);
    }

    #[test]
    fn an_invalid_checkpoint_breaks_the_chain() {
        let (key, other) = (Key::new(1), Key::new(2));
        let begun = || Chain::default().with(3).named(&key, None).with(1);
        let other_tree = Chain::default().with(2).named(&key, None).with(2).tree;
        let pushed = |note: &Checkpoint, named: Option<&PublicKey>| {
            let mut chain = begun();
            let named = named.map(ToString::to_string);
            chain.push(RowKind::Checkpointed, &json!({ "note": note.to_string(), "key": named }));
            chain.fault()
        };
        let tree = begun().tree;
        assert_eq!(pushed(&Checkpoint::sign(ORIGIN, &other_tree, &key), None), Fault::Root);
        assert_eq!(pushed(&Checkpoint::sign(ORIGIN, &Chain::default().with(3).tree, &key), None), Fault::Size);
        assert_eq!(pushed(&Checkpoint::sign("host-broker/other", &tree, &key), None), Fault::Origin);
        assert_eq!(pushed(&Checkpoint::sign(ORIGIN, &tree, &other), None), Fault::Signature);
        let named = PublicKey::of(ORIGIN, &other);
        assert_eq!(pushed(&Checkpoint::sign(ORIGIN, &tree, &key), Some(&named)), Fault::Signature);
        let note = Checkpoint::sign(ORIGIN, &tree, &key).to_string();
        let twice = format!("{{\"note\":{},\"note\":{}}}", json!(note), json!(note));
        for body in ["{}", "[]", twice.as_str()] {
            let mut chain = begun();
            chain.push(RowKind::Checkpointed, &json!({}));
            let row = chain.rows.last_mut().unwrap();
            body.clone_into(&mut row.body);
            row.event_hash = row.hash();
            assert_eq!(chain.fault(), Fault::Malformed, "{body}");
        }
        // The first one names its key.
        assert_eq!(Chain::default().with(3).signed(&key).fault(), Fault::Signature);
    }

    #[test]
    fn a_new_key_is_endorsed_by_the_key_before_it_or_not() {
        let (first, second, third) = (Key::new(1), Key::new(2), Key::new(3));
        let chain = Chain::default().with(3).named(&first, None).with(1);
        let chain = chain.named(&second, Some(&first)).with(1).signed(&second).named(&third, None).signed(&third);
        let verifier = chain.verify().unwrap();
        let keys: Vec<_> =
            verifier.checkpoints().keys().iter().map(|change| (change.seq, change.is_endorsed)).collect();
        assert_eq!(keys, [(4, Some(true)), (6, Some(true)), (9, Some(false))]);
        let replaced = chain.signed(&first);
        assert_eq!(replaced.fault(), Fault::Signature, "an earlier key signs nothing more");
        // Of a change whose earlier key was named in a row that was not read, nothing is known.
        let chain = Chain::default().with(3).named(&first, None).named(&second, Some(&first));
        let row = &chain.rows[3];
        let mut later = Verifier::after(Head { seq: row.seq, hash: row.event_hash, ts: row.ts });
        later.take(&chain.rows[4]).unwrap();
        assert_eq!(later.checkpoints().keys()[0].is_endorsed, None);
    }

    #[test]
    fn an_endorsement_cannot_be_made_without_the_earlier_key() {
        let (genuine, foreign) = (Key::new(1), Key::new(2));
        let begun = || Chain::default().with(3).named(&genuine, None).with(2);
        let (tree, public) = (begun().tree, PublicKey::of(ORIGIN, &foreign));
        let checkpoint = Checkpoint::sign(ORIGIN, &tree, &genuine);
        let both = {
            let ours = Checkpoint::sign(ORIGIN, &tree, &foreign);
            format!("{checkpoint}{}\n", ours.to_string().lines().last().unwrap())
        };
        let note = checkpoint.to_string();
        let text = format!("{}\n", note.split_once("\n\n").unwrap().0);
        let signature = STANDARD.encode(genuine.signature(text.as_bytes()));
        let old = Checkpoint::sign(ORIGIN, &begun().with(1).tree, &genuine).endorse(&public, &genuine);
        let third = checkpoint.endorse(&PublicKey::of(ORIGIN, &Key::new(3)), &genuine);
        let own = checkpoint.endorse(&public, &foreign);
        for endorsement in [None, Some(signature), Some(old), Some(third), Some(own), Some(String::new())] {
            let mut chain = begun();
            let body = json!({ "note": both, "key": public.to_string(), "endorsement": endorsement });
            chain.push(RowKind::Checkpointed, &body);
            let verifier = chain.verify().unwrap();
            assert_eq!(verifier.checkpoints().keys()[1].is_endorsed, Some(false), "{endorsement:?}");
        }
    }
}
