//! The encryption of bodies: requests, replies and changes of files. PostgreSQL gets them encrypted only.
//!
//! ```text
//! version 1 │ salt 32 │ body + 16
//! ```
//! Each body has a key of its own: HKDF-SHA256 (RFC 5869) of the ledger key and a random salt. So AES-256-GCM (NIST SP
//! 800-38D) can have a constant nonce. The text is bound to the host, the table, the column and the key of its row.
//! A body that was changed or moved does not open.

use super::error::FleetError;
use super::tables::{Kind, Table};
use model::{LedgerKey, Random as _};
use platform::random::SystemRandom;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Prk};
use rusqlite::types::Value;
use serde_json::json;
use std::fmt;

/// The layout above.
const VERSION: u8 = 1;
const SALT: usize = 32;
const PURPOSE: &[u8] = b"host-broker: bodies in the database of a fleet";

/// The key of all bodies of a host. Another machine that continues as the host needs the same ledger key.
#[derive(Clone)]
pub struct BodyKey(Prk);

impl fmt::Debug for BodyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BodyKey(…)")
    }
}

impl BodyKey {
    /// Derives it from the ledger key.
    pub fn new(key: &LedgerKey) -> Self {
        Self(Prk::new_less_safe(HKDF_SHA256, key.derived(PURPOSE).as_slice()))
    }

    fn of(&self, salt: &[u8]) -> Option<LessSafeKey> {
        let info = [salt];
        let key = self.0.expand(&info, &AES_256_GCM).ok()?;
        Some(LessSafeKey::new(UnboundKey::from(key)))
    }

    fn encrypted(&self, place: &[u8], body: &[u8]) -> Result<Vec<u8>, FleetError> {
        let failed = || FleetError::Randomness;
        let mut salt = [0; SALT];
        SystemRandom.fill(&mut salt).map_err(|_failed| failed())?;
        let mut text = body.to_vec();
        let key = self.of(&salt).ok_or_else(failed)?;
        key.seal_in_place_append_tag(nonce(), Aad::from(place), &mut text).map_err(|_failed| failed())?;
        Ok([&[VERSION][..], &salt, &text].concat())
    }

    fn decrypted(&self, place: &[u8], stored: &[u8]) -> Option<Vec<u8>> {
        let (salt, text) = stored.strip_prefix(&[VERSION])?.split_first_chunk::<SALT>()?;
        let mut text = text.to_vec();
        let length = self.of(salt)?.open_in_place(nonce(), Aad::from(place), &mut text).ok()?.len();
        text.truncate(length);
        Some(text)
    }

    /// Returns an empty body that shows later whether a key is that of the host.
    ///
    /// # Errors
    /// [`FleetError::Randomness`].
    pub(super) fn check(&self, host: &str) -> Result<Vec<u8>, FleetError> {
        self.encrypted(&check_place(host), &[])
    }

    /// Checks that this is the key of the host, whose check is empty if the host has written nothing.
    ///
    /// # Errors
    /// [`FleetError::OtherKey`].
    pub(super) fn fits(&self, host: &str, check: &[u8]) -> Result<(), FleetError> {
        let fits = check.is_empty() || self.decrypted(&check_place(host), check).is_some();
        if fits { Ok(()) } else { Err(FleetError::OtherKey(host.to_owned())) }
    }

    /// Encrypts the bodies of a row.
    ///
    /// # Errors
    /// [`FleetError::Randomness`]; the row must not leave the home then.
    pub(super) fn encrypt(&self, host: &str, table: &Table, row: &mut [Value]) -> Result<(), FleetError> {
        for (index, place) in places(host, table, row) {
            let Some(value) = row.get_mut(index) else { continue };
            let body = match &*value {
                Value::Text(text) => text.as_bytes(),
                Value::Blob(bytes) => bytes.as_slice(),
                Value::Null | Value::Integer(_) | Value::Real(_) => continue,
            };
            *value = Value::Blob(self.encrypted(&place, body)?);
        }
        Ok(())
    }

    /// Decrypts the bodies of a row.
    ///
    /// # Errors
    /// [`FleetError::Encrypted`]: it was changed or moved.
    pub(super) fn decrypt(&self, host: &str, table: &Table, row: &mut [Value]) -> Result<(), FleetError> {
        let damaged = || FleetError::Encrypted(table.name.clone());
        for (index, place) in places(host, table, row) {
            let (Some(value), Some(column)) = (row.get_mut(index), table.columns.get(index)) else { continue };
            let Value::Blob(stored) = &*value else { continue };
            let body = self.decrypted(&place, stored).ok_or_else(damaged)?;
            *value = match column.kind {
                Kind::Text => Value::Text(String::from_utf8(body).map_err(|_damaged| damaged())?),
                Kind::Blob => Value::Blob(body),
                Kind::Integer => return Err(damaged()),
            };
        }
        Ok(())
    }
}

/// The key of each body is used once.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

fn check_place(host: &str) -> Vec<u8> {
    shared::json::canonical(&json!([VERSION, host, "hosts", "key_check"]))
}

/// Returns the numbers of the encrypted columns, and the text that each is bound to.
fn places(host: &str, table: &Table, row: &[Value]) -> Vec<(usize, Vec<u8>)> {
    let columns = table.columns.iter().enumerate().filter(|(_, column)| column.is_encrypted);
    let key: Vec<String> = match columns.clone().next() {
        Some(_) => table.key().iter().map(|column| part(table, &column.name, row)).collect(),
        None => Vec::new(),
    };
    let place = |name: &str| shared::json::canonical(&json!([VERSION, host, table.name, name, key]));
    columns.map(|(index, column)| (index, place(&column.name))).collect()
}

/// Returns a part of the key of a row as text.
fn part(table: &Table, name: &str, row: &[Value]) -> String {
    let index = table.columns.iter().position(|column| column.name == name);
    match index.and_then(|index| row.get(index)) {
        Some(Value::Integer(number)) => format!("i{number}"),
        Some(Value::Text(text)) => format!("t{text}"),
        Some(Value::Blob(bytes)) => format!("b{}", base16ct::lower::encode_string(bytes)),
        Some(Value::Null | Value::Real(_)) | None => "n".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::tables;
    use crate::open::schema;
    use rusqlite::Connection;

    fn key(byte: u8) -> BodyKey {
        BodyKey::new(&LedgerKey::new(vec![byte; 32]))
    }

    fn table(name: &str) -> Table {
        let connection = Connection::open_in_memory().unwrap();
        schema(&connection).unwrap();
        tables::all(&connection).unwrap().into_iter().find(|table| table.name == name).unwrap()
    }

    /// A row of quarantine: `data` and `summary` are texts with bodies.
    fn row(seq: i64) -> Vec<Value> {
        let text = |text: &str| Value::Text(text.to_owned());
        let values = ["group:a", "r-1", "mail", "read"].map(text);
        let (level, at) = (Value::Integer(1), Value::Integer(7));
        let rest =
            [level, text("hostile"), text("[\"orders\"]"), text("{\"body\":\"secret\\u0000\"}"), text("one mail"), at];
        std::iter::once(Value::Integer(seq)).chain(values).chain(rest).collect()
    }

    /// Attack: see `somebody_with_the_database_reads_no_request_no_card_and_no_result`.
    #[test]
    fn a_row_opens_as_it_was_and_shows_no_body() {
        let (table, plain) = (table("quarantine"), row(4));
        assert_eq!(plain.len(), table.columns.len());
        let mut stored = plain.clone();
        key(1).encrypt("a", &table, &mut stored).unwrap();
        let shown = format!("{stored:?}");
        assert!(shown.contains("group:a") && !shown.contains("secret") && !shown.contains("one mail"), "{shown}");
        let mut again = plain.clone();
        key(1).encrypt("a", &table, &mut again).unwrap();
        assert_ne!(stored, again, "no text shows that two bodies are equal");
        key(1).decrypt("a", &table, &mut stored).unwrap();
        assert_eq!(stored, plain);
    }

    #[test]
    fn a_host_has_one_key() {
        let check = key(1).check("a").unwrap();
        assert_eq!(key(1).fits("a", &check), Ok(()));
        assert_eq!(key(2).fits("a", &[]), Ok(()), "a new host");
        for (key, host) in [(key(2), "a"), (key(1), "b")] {
            assert!(matches!(key.fits(host, &check), Err(FleetError::OtherKey(_))), "{host}");
        }
    }

    /// Attack (Hosts of a fleet): Somebody with the database changes a stored reply or request, or
    /// moves it to another row.
    /// Defence: A body is bound to its host, table, column and row. Only an earlier body of the
    /// same row opens.
    #[test]
    fn a_body_opens_in_its_place_only_and_not_after_a_change() {
        let table = table("quarantine");
        let mut stored = row(4);
        key(1).encrypt("a", &table, &mut stored).unwrap();
        let opens = |key: &BodyKey, host: &str, row: &[Value]| key.decrypt(host, &table, &mut row.to_vec()).is_ok();
        assert!(opens(&key(1), "a", &stored));
        assert!(!opens(&key(2), "a", &stored) && !opens(&key(1), "b", &stored));
        let mut moved = stored.clone();
        moved[0] = Value::Integer(5);
        assert!(!opens(&key(1), "a", &moved), "another row");
        let (data, summary) = (8, 9);
        let mut swapped = stored.clone();
        swapped.swap(data, summary);
        assert!(!opens(&key(1), "a", &swapped), "another column");
        let Value::Blob(whole) = &stored[data] else { panic!("not encrypted") };
        for index in 0..whole.len() {
            let mut changed = stored.clone();
            let mut bytes = whole.clone();
            bytes[index] ^= 1;
            changed[data] = Value::Blob(bytes);
            assert!(!opens(&key(1), "a", &changed), "byte {index}");
            let mut cut = stored.clone();
            cut[data] = Value::Blob(whole[..index].to_vec());
            assert!(!opens(&key(1), "a", &cut), "cut at {index}");
        }
    }
}
