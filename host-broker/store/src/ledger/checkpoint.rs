//! Checkpoints: signed statements that the ledger has so many rows, with this root of the tree over them.
//!
//! A checkpoint is a signed note of the C2SP specifications `tlog-checkpoint` and `signed-note`:
//!
//! ```text
//! host-broker/5f2c0c8d1e93ab47                     the origin, which names the ledger
//! 1200                                             the number of rows
//! CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=     the root of the tree
//!
//! — host-broker/5f2c0c8d1e93ab47 Az3grlgtzPICa5OS…  4 bytes of the key's id, and an Ed25519 signature
//! ```
//! The broker writes it as the row after these rows. The first checkpoint, and the first of each new key, names its key.
//! The earlier key endorses a new one: it signs a text that names the new key and contains the checkpoint.

use crate::ledger::chain::{Row, RowKind};
use crate::ledger::tree::Tree;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::Signer;
use ring::signature::{ED25519, UnparsedPublicKey};
use serde::Deserialize;
use shared::digest::Digest;
use std::fmt;
use std::str::FromStr;

/// The largest note that is read, in bytes. Witnesses may add signatures.
pub const NOTE_MAX: usize = 64 * 1024;
/// The most signatures of the origin that a note may have.
const SIGNATURES_MAX: usize = 4;
/// The largest origin that is read, in bytes.
const ORIGIN_MAX: usize = 256;
/// The algorithm byte of Ed25519 in a key (`signed-note`, section "Signature types").
const ALGORITHM: u8 = 1;
/// Begins each line with a signature.
const DASH: &str = "\u{2014} ";

/// A public key, written `ORIGIN+ID+BASE64` (the verifier key of `signed-note`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey {
    origin: String,
    key: [u8; 32],
}

/// The reason why a text is no public key, checkpoint or proof.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// A public key.
    #[error("a public key has the form ORIGIN+ID+BASE64; see: host-broker evidence checkpoint --public-key")]
    Key,
    /// A checkpoint.
    #[error("it is not a checkpoint: {0}")]
    Note(&'static str),
}

impl PublicKey {
    /// Returns the public key of a private one for this origin.
    pub fn of(origin: &str, key: &dyn Signer) -> Self {
        Self { origin: origin.to_owned(), key: key.public_key() }
    }

    /// Returns the origin of a ledger whose first checkpoint this key signs.
    pub fn new_origin(key: &dyn Signer) -> String {
        let digest: String = Digest::of(&key.public_key()).hex().chars().take(16).collect();
        format!("host-broker/{digest}")
    }

    /// Returns the origin.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Returns whether these 32 bytes are the key.
    pub fn is_of(&self, key: &[u8; 32]) -> bool {
        self.key == *key
    }

    fn verifies(&self, message: &str, signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, &self.key).verify(message.as_bytes(), signature).is_ok()
    }

    fn typed(&self) -> Vec<u8> {
        [&[ALGORITHM], self.key.as_slice()].concat()
    }

    fn id(&self) -> [u8; 4] {
        let named = [self.origin.as_bytes(), b"\n", &self.typed()].concat();
        let [a, b, c, d, ..] = *Digest::of(&named).as_bytes();
        [a, b, c, d]
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = base16ct::lower::encode_string(&self.id());
        write!(f, "{}+{id}+{}", self.origin, STANDARD.encode(self.typed()))
    }
}

impl FromStr for PublicKey {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        let mut parts = text.trim().splitn(3, '+');
        let (Some(origin), Some(_), Some(typed)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(Malformed::Key);
        };
        let typed = STANDARD.decode(typed).map_err(|_text| Malformed::Key)?;
        let key = match typed.split_first() {
            Some((&ALGORITHM, key)) => key.try_into().map_err(|_length| Malformed::Key)?,
            Some(_) | None => return Err(Malformed::Key),
        };
        let key = Self { origin: origin.to_owned(), key };
        // The id and each letter must be those that the key has.
        if is_origin(origin) && key.to_string() == text.trim() { Ok(key) } else { Err(Malformed::Key) }
    }
}

fn is_origin(text: &str) -> bool {
    let is_allowed = |letter: char| !letter.is_whitespace() && !letter.is_control() && letter != '+';
    !text.is_empty() && text.len() <= ORIGIN_MAX && text.chars().all(is_allowed)
}

/// A checkpoint with its signatures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    origin: String,
    size: i64,
    root: Digest,
    // The id of a key of the origin, and its signature.
    signatures: Vec<([u8; 4], Vec<u8>)>,
}

impl Checkpoint {
    /// Signs the state of a tree.
    pub fn sign(origin: &str, tree: &Tree, key: &dyn Signer) -> Self {
        let (size, root) = (tree.size(), tree.root());
        let text = text(origin, size, &root);
        let signature = (PublicKey::of(origin, key).id(), key.signature(text.as_bytes()));
        Self { origin: origin.to_owned(), size, root, signatures: vec![signature] }
    }

    /// Returns the signature by which an earlier key endorses the key of this checkpoint, in base64.
    pub fn endorse(&self, new: &PublicKey, earlier: &dyn Signer) -> String {
        STANDARD.encode(earlier.signature(self.endorsement(new).as_bytes()))
    }

    /// Returns whether the earlier key endorses the key of this checkpoint.
    fn is_endorsed(&self, new: &PublicKey, earlier: &PublicKey, signature: Option<&str>) -> bool {
        let signature = signature.and_then(|signature| STANDARD.decode(signature).ok());
        signature.is_some_and(|signature| earlier.verifies(&self.endorsement(new), &signature))
    }

    // SECURITY: a text of its own. With a signature of the checkpoint alone, a later key could take the place of the one
    // that the earlier key meant.
    fn endorsement(&self, new: &PublicKey) -> String {
        format!("host-broker checkpoint key v1\n{new}\n{}", text(&self.origin, self.size, &self.root))
    }

    /// Returns the number of rows.
    pub fn size(&self) -> i64 {
        self.size
    }

    /// Returns the root of the tree over these rows.
    pub fn root(&self) -> Digest {
        self.root
    }

    /// Returns the name of the ledger.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Returns whether this key signed it.
    pub fn is_signed_by(&self, key: &PublicKey) -> bool {
        let (id, text) = (key.id(), text(&self.origin, self.size, &self.root));
        let signature = self.signatures.iter().find(|(signer, _)| *signer == id);
        key.origin == self.origin && signature.is_some_and(|(_, signature)| key.verifies(&text, signature))
    }
}

/// Returns the signed text.
fn text(origin: &str, size: i64, root: &Digest) -> String {
    format!("{origin}\n{size}\n{}\n", STANDARD.encode(root.as_bytes()))
}

impl fmt::Display for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", text(&self.origin, self.size, &self.root))?;
        for (id, signature) in &self.signatures {
            writeln!(f, "{DASH}{} {}", self.origin, STANDARD.encode([id.as_slice(), signature].concat()))?;
        }
        Ok(())
    }
}

impl FromStr for Checkpoint {
    type Err = Malformed;

    /// Reads a note. Signatures of other names, for instance of witnesses, are left out.
    fn from_str(note: &str) -> Result<Self, Malformed> {
        if note.len() > NOTE_MAX {
            return Err(Malformed::Note("it is too long"));
        }
        let (signed, lines) = note.split_once("\n\n").ok_or(Malformed::Note("it has no signature"))?;
        let mut parts = signed.split('\n');
        let (Some(origin), Some(size), Some(root), None) = (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(Malformed::Note("its text has not three lines"));
        };
        if !is_origin(origin) {
            return Err(Malformed::Note("its first line is no origin"));
        }
        let number = size.parse().ok().filter(|number: &i64| *number >= 0 && number.to_string() == size);
        let size = number.ok_or(Malformed::Note("its second line is no number of rows"))?;
        let root = hash(root).ok_or(Malformed::Note("its third line is no hash"))?;
        let mut signatures = Vec::new();
        for line in lines.strip_suffix('\n').ok_or(Malformed::Note("its last line is cut"))?.split('\n') {
            let signature = line.strip_prefix(DASH).and_then(|line| line.split_once(' '));
            let (name, signature) = signature.ok_or(Malformed::Note("a line is no signature"))?;
            let decoded = STANDARD.decode(signature).ok();
            let decoded = decoded.as_deref().and_then(|bytes| bytes.split_first_chunk::<4>());
            let (id, signature) = decoded.ok_or(Malformed::Note("a line is no signature"))?;
            if name != origin {
                continue;
            }
            if signatures.len() == SIGNATURES_MAX || signatures.iter().any(|(known, _)| known == id) {
                return Err(Malformed::Note("it has too many signatures"));
            }
            signatures.push((*id, signature.to_vec()));
        }
        Ok(Self { origin: origin.to_owned(), size, root, signatures })
    }
}

/// Reads a hash as it is written in a note or a proof.
fn hash(text: &str) -> Option<Digest> {
    let bytes = STANDARD.decode(text).ok()?;
    bytes.try_into().ok().map(Digest::from_bytes)
}

/// The members of a row of the kind `checkpointed`.
#[derive(Deserialize)]
struct Body {
    note: String,
    key: Option<String>,
    endorsement: Option<String>,
}

/// A new key, and the endorsement of the key before it.
type Named = (PublicKey, Option<String>);

/// Returns the checkpoint in a row, and the key that it names.
fn of(row: &Row) -> Option<(Checkpoint, Option<Named>)> {
    let Body { note, key, endorsement } = serde_json::from_str(&row.body).ok()?;
    let key = key.map(|key| key.parse()).transpose().ok()?;
    Some((note.parse().ok()?, key.map(|key| (key, endorsement))))
}

/// Returns the checkpoint in a row of the kind `checkpointed`.
pub fn read(row: &Row) -> Option<Checkpoint> {
    of(row).filter(|_| row.kind == RowKind::Checkpointed.word()).map(|(checkpoint, _)| checkpoint)
}

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
        let (checkpoint, named) = of(row).ok_or(Fault::Malformed)?;
        if checkpoint.size != row.seq - 1 {
            return Err(Fault::Size);
        }
        if self.latest.as_ref().is_some_and(|(_, latest)| latest.origin != checkpoint.origin) {
            return Err(Fault::Origin);
        }
        if self.tree.as_ref().is_some_and(|tree| tree.root() != checkpoint.root) {
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
    use crate::ledger::chain::{Break, Head, Verifier};
    use ring::signature::{Ed25519KeyPair, KeyPair as _};
    use serde_json::{Value, json};
    use signed_note::{Note, StandardVerifier, VerifierList};

    struct Key(Ed25519KeyPair);

    impl Key {
        fn new(seed: u8) -> Self {
            Self(Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap())
        }
    }

    impl Signer for Key {
        fn public_key(&self) -> [u8; 32] {
            self.0.public_key().as_ref().try_into().unwrap()
        }

        fn signature(&self, message: &[u8]) -> Vec<u8> {
            self.0.sign(message).as_ref().to_vec()
        }
    }

    const ORIGIN: &str = "host-broker/0123456789abcdef";

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
    fn another_implementation_accepts_a_checkpoint_and_its_key() {
        let key = Key::new(1);
        let tree = Chain::default().with(5).tree;
        let note = Checkpoint::sign(ORIGIN, &tree, &key).to_string();
        let public = PublicKey::of(ORIGIN, &key);
        let verifier = StandardVerifier::new(&public.to_string()).unwrap();
        let read = Note::from_bytes(note.as_bytes()).unwrap();
        let (signatures, _) = read.verify(&VerifierList::new(vec![Box::new(verifier)])).unwrap();
        assert_eq!(signatures.len(), 1);
        let checkpoint = tlog_tiles::Checkpoint::from_bytes(read.text()).unwrap();
        assert_eq!((checkpoint.origin(), checkpoint.size()), (ORIGIN, 5));
        assert_eq!(&checkpoint.hash().0, tree.root().as_bytes());
        assert!(note.parse::<Checkpoint>().unwrap().is_signed_by(&public));
        let unknown = PublicKey::of(ORIGIN, &Key::new(3));
        assert!(!note.parse::<Checkpoint>().unwrap().is_signed_by(&unknown));
    }

    #[test]
    fn a_note_that_was_changed_is_malformed_or_not_signed() {
        let key = Key::new(1);
        let public = PublicKey::of(ORIGIN, &key);
        let note = Checkpoint::sign(ORIGIN, &Chain::default().with(5).tree, &key).to_string();
        let accepted = |text: &str| text.parse::<Checkpoint>().is_ok_and(|read| read.is_signed_by(&public));
        assert!(accepted(&note));
        let (lines, again) = (note.clone() + "\u{2014} witness.example AAAAAAAAAAAA\n", note.clone());
        assert!(accepted(&lines), "a witness may sign, too");
        for changed in [
            String::new(),
            again.replacen("\n5\n", "\n6\n", 1),
            again.replacen("\n5\n", "\n05\n", 1),
            again.replacen("\n5\n", "\n-5\n", 1),
            again.replacen("\n5\n", "\n5\nextension\n", 1),
            again.replacen("abcdef\n", "abcdee\n", 1),
            again.replacen("host-broker/", "host broker/", 1),
            again.replacen("=\n\n", "\n\n", 1),
            again.replacen("\n\n", "\n", 1),
            again.replacen('\u{2014}', "-", 1),
            again.trim_end().to_owned(),
            again.clone() + "\n",
            again.clone() + again.lines().last().unwrap() + "\n",
            again.clone() + &"x".repeat(NOTE_MAX),
            note.chars().rev().collect(),
        ] {
            assert!(!accepted(&changed), "{changed}");
        }
    }

    #[test]
    fn a_public_key_has_one_form() {
        let text = PublicKey::of(ORIGIN, &Key::new(1)).to_string();
        assert_eq!(text.parse::<PublicKey>().unwrap().to_string(), text);
        for changed in [
            text.replace('+', " "),
            text.replacen("broker", "broken", 1),
            text.to_uppercase(),
            text.trim_end_matches('=').to_owned() + "A",
            format!("{ORIGIN}+00000000+AQ=="),
            "++".to_owned(),
            String::new(),
        ] {
            assert_eq!(changed.parse::<PublicKey>(), Err(Malformed::Key), "{changed}");
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
    fn nobody_without_the_earlier_key_makes_an_endorsement_of_its_signatures() {
        let (genuine, foreign) = (Key::new(1), Key::new(2));
        let begun = || Chain::default().with(3).named(&genuine, None).with(2);
        let (tree, public) = (begun().tree, PublicKey::of(ORIGIN, &foreign));
        let checkpoint = Checkpoint::sign(ORIGIN, &tree, &genuine);
        let both = {
            let ours = Checkpoint::sign(ORIGIN, &tree, &foreign);
            format!("{checkpoint}{}\n", ours.to_string().lines().last().unwrap())
        };
        let signature = STANDARD.encode(&checkpoint.signatures[0].1);
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
