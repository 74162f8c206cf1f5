//! Records of the vault as they are stored: encrypted, and bound to the place where they lie.

use shared::{Provider, Timestamp};
use std::fmt;

/// An encrypted record, as it is stored.
#[derive(Clone, PartialEq, Eq)]
pub struct Ciphertext(Box<[u8]>);

impl Ciphertext {
    /// Takes a record as it was stored.
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }

    /// The bytes to be stored.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Ciphertext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ciphertext({} bytes)", self.0.len())
    }
}

/// Where a record is kept: it opens nowhere else.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// What kind of record.
    pub what: RecordKind,
    /// Whose, as the ledger writes persons.
    pub person: &'a str,
    /// At which capability.
    pub capability: &'a Provider,
    /// Which of them: the account's name, the flow's handle.
    pub name: &'a str,
}

/// A kind of record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordKind {
    /// The credential of an account.
    Credential,
    /// The state of an authorization flow that goes back to the provider.
    Flow,
}

impl RecordKind {
    /// The word that a record is bound to.
    pub fn word(self) -> &'static str {
        match self {
            Self::Credential => "credential",
            Self::Flow => "flow",
        }
    }
}

/// A credential that was renewed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renewal {
    /// The credential before.
    pub old: Ciphertext,
    /// The credential now.
    pub new: Ciphertext,
    /// Until when that can be used without being renewed; `None` where it does not end.
    pub fresh_until: Option<Timestamp>,
}
