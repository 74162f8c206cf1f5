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
    pub(super) fn is_endorsed(&self, new: &PublicKey, earlier: &PublicKey, signature: Option<&str>) -> bool {
        let signature = signature.and_then(|signature| STANDARD.decode(signature).ok());
        signature.is_some_and(|signature| earlier.verifies(&self.endorsement(new), &signature))
    }

    // SECURITY: a text of its own. A signature of the checkpoint names no key, so anybody could add another one.
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

/// A new key, and the endorsement by the earlier key.
type Named = (PublicKey, Option<String>);

/// Returns the checkpoint in a row, and the key that it names.
pub(super) fn in_row(row: &Row) -> Option<(Checkpoint, Option<Named>)> {
    if row.kind != RowKind::Checkpointed.word() {
        return None;
    }
    let Body { note, key, endorsement } = serde_json::from_str(&row.body).ok()?;
    let key = key.map(|key| key.parse()).transpose().ok()?;
    Some((note.parse().ok()?, key.map(|key| (key, endorsement))))
}

/// Returns the checkpoint in a row of the kind `checkpointed`.
pub fn read(row: &Row) -> Option<Checkpoint> {
    in_row(row).map(|(checkpoint, _)| checkpoint)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use ring::signature::{Ed25519KeyPair, KeyPair as _};
    use signed_note::{Note, StandardVerifier, VerifierList};

    pub(in crate::ledger) const ORIGIN: &str = "host-broker/0123456789abcdef";

    pub(in crate::ledger) struct Key(Ed25519KeyPair);

    impl Key {
        pub(in crate::ledger) fn new(seed: u8) -> Self {
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

    fn tree(rows: u8) -> Tree {
        let mut tree = Tree::default();
        (0..rows).for_each(|row| tree.push(&Digest::of(&[row])));
        tree
    }

    #[test]
    fn another_implementation_accepts_a_checkpoint_and_its_key() {
        let key = Key::new(1);
        let tree = tree(5);
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
        let note = Checkpoint::sign(ORIGIN, &tree(5), &key).to_string();
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
}
