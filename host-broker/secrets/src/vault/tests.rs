//! A stored record opens in its place, under its key, and nowhere else.

use super::*;
use model::RecordKind;
use platform::random::SystemRandom;
use ring::aead::MAX_TAG_LEN;
use shared::Provider;

struct Broken;

impl Random for Broken {
    fn fill(&self, _buffer: &mut [u8]) -> Result<(), NoRandomness> {
        Err(NoRandomness)
    }
}

fn key_of(byte: u8) -> KeyBytes {
    KeyBytes::new([byte; KEY])
}

fn vault(current: u8, previous: &[u8]) -> Vault {
    let previous: Vec<_> = previous.iter().copied().map(key_of).collect();
    Vault::new(&key_of(current), &previous, Arc::new(SystemRandom)).unwrap()
}

fn mail() -> Provider {
    "gog.email".parse().unwrap()
}

fn place<'a>(person: &'a str, capability: &'a Provider, name: &'a str) -> Place<'a> {
    Place { what: RecordKind::Credential, person, capability, name }
}

const RECORD: &[u8] = br#"{"refresh_token":"1//hunter2-hunter2"}"#;

/// Attack (Accounts): Somebody with the database reads credentials, or moves one to another
/// person's row.
/// Defence: Records are encrypted and bound to person, capability and name.
#[test]
fn a_record_opens_in_its_place_and_nowhere_else() {
    let (vault, mail, calendar) = (vault(1, &[]), mail(), "gog.calendar".parse().unwrap());
    let own = place("ash:ann", &mail, "work");
    let sealed = vault.encrypted(&own, RECORD).unwrap();
    assert_eq!(vault.decrypted(&own, &sealed).unwrap().as_slice(), RECORD);
    assert_eq!(sealed.bytes().len(), HEAD + RECORD.len() + TAG);
    assert_eq!(TAG, MAX_TAG_LEN);
    for other in [
        place("ash:bob", &mail, "work"),
        place("ash:ann", &calendar, "work"),
        place("ash:ann", &mail, "home"),
        Place { what: RecordKind::Flow, ..own },
    ] {
        assert_eq!(vault.decrypted(&other, &sealed), Err(VaultError::Damaged), "{other:?}");
        // Nor is it made to by a new key.
        let newer = super::tests::vault(2, &[1]);
        assert_eq!(newer.resealed(&other, &sealed), Err(VaultError::Damaged), "{other:?}");
    }
    // The same record twice does not look the same.
    let again = vault.encrypted(&own, RECORD).unwrap();
    assert!(sealed != again);
    let text = String::from_utf8_lossy(sealed.bytes()).into_owned();
    assert!(!text.contains("hunter2") && !format!("{sealed:?}{vault:?}").contains("hunter2"));
}

/// Attack: see `a_record_opens_in_its_place_and_nowhere_else`.
#[test]
fn not_one_bit_of_a_record_can_be_changed_and_nothing_cut_off() {
    let (vault, mail) = (vault(1, &[]), mail());
    let own = place("ash:ann", &mail, "work");
    let sealed = vault.encrypted(&own, RECORD).unwrap();
    for index in 0..sealed.bytes().len() {
        for bit in 0..8 {
            let mut changed = sealed.bytes().to_vec();
            changed[index] ^= 1 << bit;
            let fault = vault.decrypted(&own, &Ciphertext::from_bytes(changed)).unwrap_err();
            let of_name = (1..=NAME).contains(&index);
            assert_eq!(fault, if of_name { VaultError::OtherKey } else { VaultError::Damaged }, "{index}.{bit}");
        }
        let cut = Ciphertext::from_bytes(sealed.bytes()[..index].to_vec());
        assert_eq!(vault.decrypted(&own, &cut), Err(VaultError::Damaged), "{index}");
    }
    let longer = Ciphertext::from_bytes([sealed.bytes(), &[0]].concat());
    assert_eq!(vault.decrypted(&own, &longer), Err(VaultError::Damaged));
    // The halves of two records make none.
    let other = vault.encrypted(&own, RECORD).unwrap();
    let mixed = [&sealed.bytes()[..HEAD - NONCE], &other.bytes()[HEAD - NONCE..]].concat();
    assert_eq!(vault.decrypted(&own, &Ciphertext::from_bytes(mixed)), Err(VaultError::Damaged));
}

#[test]
fn a_new_master_key_takes_over_what_the_old_one_held() {
    let mail = mail();
    let own = place("ash:ann", &mail, "work");
    let old = vault(1, &[]);
    let sealed = old.encrypted(&own, RECORD).unwrap();
    assert_eq!(vault(2, &[]).decrypted(&own, &sealed), Err(VaultError::OtherKey));
    let both = vault(2, &[1]);
    assert_eq!(both.decrypted(&own, &sealed).unwrap().as_slice(), RECORD);
    let renewed = both.resealed(&own, &sealed).unwrap().unwrap();
    assert_ne!(key_name(&renewed), key_name(&sealed));
    assert_eq!(both.resealed(&own, &renewed), Ok(None));
    assert_eq!(vault(2, &[]).decrypted(&own, &renewed).unwrap().as_slice(), RECORD);
    assert_eq!(old.decrypted(&own, &renewed), Err(VaultError::OtherKey));
    // The record itself was not touched.
    assert_eq!(sealed.bytes()[HEAD - NONCE..], renewed.bytes()[HEAD - NONCE..]);
    assert_eq!(vault(1, &[1, 1]).names().len(), 1);
}

#[test]
fn without_randomness_nothing_is_stored() {
    let vault = Vault::new(&key_of(1), &[], Arc::new(Broken)).unwrap();
    let mail = mail();
    let own = place("ash:ann", &mail, "work");
    assert_eq!(vault.encrypted(&own, RECORD), Err(VaultError::Randomness(NoRandomness)));
}

#[test]
fn a_record_of_another_implementation_is_the_same() {
    // Made with Python's `cryptography`: the layout is part of a backup, so it may not change unnoticed.
    let sealed = base16ct::lower::decode_vec(KNOWN).unwrap();
    let mail = mail();
    let own = place("ash:ann", &mail, "work");
    assert_eq!(vault(7, &[]).decrypted(&own, &Ciphertext::from_bytes(sealed)).unwrap().as_slice(), b"{\"a\":1}");
}

const KNOWN: &str = "\
    015ad53d66fe3236826465666768696a6b6c6d6e6fe4c8ea0e5ddd4690803304bee76f7b4800952de8091d096601b92e\
    6e1afff7b863356f41bc704ff9825c4a3db444192cc8c9cacbcccdcecfd0d1d2d36a5a00f9bcfd8660a8a59ee811f89f\
    98ccc17aa4d98ffa";
