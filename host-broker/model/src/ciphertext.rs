//! Vault records as they are stored: encrypted, and bound to their place.

use shared::{Provider, Timestamp};
use std::fmt;

/// An encrypted record, as it is stored.
#[derive(Clone, PartialEq, Eq)]
pub struct Ciphertext(Box<[u8]>);

impl Ciphertext {
    /// Makes a record from its stored bytes.
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }

    /// Returns the bytes to be stored.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Ciphertext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ciphertext({} bytes)", self.0.len())
    }
}

/// The place of a record. The record opens nowhere else.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The kind of the record.
    pub what: RecordKind,
    /// The owner, in the ledger's form: a person, or the caller that gets a one-time value.
    pub person: &'a str,
    /// The capability, or the provider of a one-time value.
    pub capability: &'a Provider,
    /// The account's name, the flow's handle, or the id of the call.
    pub name: &'a str,
}

/// The stored credential of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredCredential {
    /// The person, in the ledger's form.
    pub person: String,
    /// The capability.
    pub capability: Provider,
    /// The account's name.
    pub name: String,
    /// The credential.
    pub sealed: Ciphertext,
}

impl StoredCredential {
    /// Returns its place.
    pub fn place(&self) -> Place<'_> {
        let Self { person, capability, name, sealed: _ } = self;
        Place { what: RecordKind::Credential, person, capability, name }
    }
}

/// A kind of record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordKind {
    /// The credential of an account.
    Credential,
    /// The state of an authorization flow that goes back to the provider.
    Flow,
    /// A value that one reply delivers and no other.
    OneTimeValue,
}

impl RecordKind {
    /// Returns the word that a record is bound to.
    pub fn word(self) -> &'static str {
        match self {
            Self::Credential => "credential",
            Self::Flow => "flow",
            Self::OneTimeValue => "one-time value",
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
    /// The time until which the new credential can be used without renewal; `None` if it does not end.
    pub fresh_until: Option<Timestamp>,
}
