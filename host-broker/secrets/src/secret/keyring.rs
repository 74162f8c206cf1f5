//! Reads keys of the kernel's keyrings, which every Linux has, also without a session at a desktop.

use super::SecretError;
use super::source::missing;
use linux_keyutils::{Key, KeyError, KeyRing, KeyRingIdentifier};
use zeroize::Zeroizing;

/// The longest key of type `user`.
const KEY_BYTES_MAX: usize = 32 * 1024;

/// The payload of the key of type `user` with this description: of this session, or else of this user.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "any other error of the kernel means that the keyrings are of no use"
)]
pub(super) fn read(description: &str) -> Result<Zeroizing<Vec<u8>>, SecretError> {
    let fault = |error: KeyError| match error {
        KeyError::KeyDoesNotExist => missing(format!(
            "there is no key {description} in the kernel's keyrings; add it with `keyctl padd user {description} @u`"
        )),
        KeyError::KeyExpired | KeyError::KeyRevoked | KeyError::KeyRejected => {
            missing(format!("the key {description} has expired or was revoked"))
        }
        KeyError::AccessDenied => {
            missing(format!("the key {description} may not be read by this user; see `keyctl setperm`"))
        }
        // Containers often forbid it.
        error => missing(format!("the kernel's keyrings cannot be used here: {error}")),
    };
    let key = find(description).map_err(fault)?;
    // Enough from the start: a buffer that grows leaves copies behind.
    let mut payload = Zeroizing::new(vec![0; KEY_BYTES_MAX]);
    let length = key.read(&mut *payload).map_err(fault)?;
    if length > KEY_BYTES_MAX {
        return Err(missing(format!("the key {description} is longer than {KEY_BYTES_MAX} bytes")));
    }
    payload.truncate(length);
    Ok(payload)
}

fn find(description: &str) -> Result<Key, KeyError> {
    match KeyRing::from_special_id(KeyRingIdentifier::Session, false)?.search(description) {
        Err(KeyError::KeyDoesNotExist) => {}
        found => return found,
    }
    // A service has a session of its own, from which the user's keys are found but may not be read. A thread with a
    // link to their keyring may read them, and this thread's keyring ends with the thread.
    let own = KeyRing::from_special_id(KeyRingIdentifier::Thread, true)?;
    own.link_keyring_id(KeyRingIdentifier::User)?;
    own.search(description)
}
