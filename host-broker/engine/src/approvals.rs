//! The exact object of an approval: its digest, the code for the answer, and the sealed request.
//!
//! An approval belongs to one request. Its digest covers everything on the card. It is spent in the very transaction
//! that writes the call's intent, and a missing answer is a denial. No part of it is stored where a sandbox can write.
//!
//! ```text
//! waiting ──► approved ──► closed (spent by the intent, or refused after all)
//!    ├──────► denied ────► closed
//!    ├──────► expired ───► closed
//!    └──────► cancelled ─► closed
//! ```
//! From every state but `waiting` and `closed` the request is admitted again, at once or at the next start. A proposal
//! is an exception: its request was over when it was proposed, and the request that applies it spends the approval.
//! Definitions are another: no caller's request asked about them, and the approval puts them in force.

pub mod sealing;

use config::Policy;
use kernel::call::{Call, NestedCall};
use kernel::contract::{Invocation, StoreRequest};
use model::{Caller, NoRandomness, Person, ProposalId, Random, SealedRequest};
use serde_json::{Value, json};
use shared::Provider;
use shared::digest::Digest;
use store::StoreError;

/// The most open approval requests of one caller.
pub const OPEN_MAX: usize = 20;

/// Returns the digest of the approved parts of a call, and of the request in which it leaves. It is keyed, because the
/// parameters' digest is.
pub fn digest_of(call: &Call, sealed: Option<&SealedRequest>, policy: &Policy) -> Digest {
    let declared = declared(call);
    let mut agreed = json!({
        "caller": call.header.caller_key,
        "provider": call.provider,
        "action": call.action,
        "level": call.target.demanded(),
        "declared": declared,
        "provider_settings": policy.settings.get(&call.provider),
        "params": call.params_digest,
        "task": call.task_id,
        "account": call.account_ref,
        "idempotency_key": call.idempotency_key,
        "precondition": call.target.invocation().and_then(Invocation::precondition),
    });
    let nested = call.nested.as_deref().map(|NestedCall { call, field, permitted_at: _ }| {
        json!({
            "provider": call.provider,
            "action": call.action,
            "level": call.target.demanded(),
            "declared": self::declared(call),
            "provider_settings": policy.settings.get(&call.provider),
            "params": call.params_digest,
            "field": field,
        })
    });
    if let Some(members) = agreed.as_object_mut() {
        members.extend(nested.map(|nested| ("nested".to_owned(), nested)));
        members.extend(call.account_key.map(|key| ("account_key".to_owned(), json!(key))));
        members.extend(sealed.map(|sealed| ("sealed".to_owned(), json!(sealed.digest()))));
        members.extend(call.header.behalf.person().map(|person| ("person".to_owned(), json!(agreed_for(person)))));
    }
    Digest::of(&shared::json::canonical(&agreed))
}

/// Returns whether a call is a group's own, and an approval of it covers nothing beside the call: no one-time value, no
/// other call, no proposal, no flow, and no state of the target.
pub(crate) fn is_plain(call: &Call) -> bool {
    is_plannable(call) && call.target.invocation().and_then(Invocation::precondition).is_none()
}

/// The same, but the approval may also cover the state of the target.
pub(crate) fn is_plannable(call: &Call) -> bool {
    let (Caller::Group(_), Some(operation), Some(invocation)) =
        (&call.header.caller, call.target.operation(), call.target.invocation())
    else {
        return false;
    };
    !operation.declaration().reveals
        && call.nested.is_none()
        && invocation.nested().is_none()
        && call.flow.is_none()
        && call.tool.is_none()
        && matches!(invocation.needs(), StoreRequest::Nothing | StoreRequest::Credential)
}

/// Returns the approved parts of the declaration of a call's action.
pub(crate) fn declared(call: &Call) -> Option<Value> {
    let declaration = call.target.operation()?.declaration();
    let schema = Digest::of(&shared::json::canonical(&declaration.input_schema));
    Some(json!([declaration.level, schema, declaration.description]))
}

/// Returns the approved claims of the person: the identity and the chat, but not the token.
pub(crate) fn agreed_for(person: &Person) -> Person {
    Person { jti: None, ..person.clone() }
}

/// Returns the digest of the approved parts of a proposal: the whole diff, and the settings of the provider.
pub fn digest_of_proposal(
    caller: &str,
    provider: &Provider,
    policy: &Policy,
    id: &ProposalId,
    patch_hash: Digest,
    free: bool,
) -> Digest {
    Digest::of(&shared::json::canonical(&json!({
        "caller": caller,
        "provider": provider,
        "provider_settings": policy.settings.get(provider),
        "proposal": id,
        "diff": patch_hash,
        // If no person was asked, the profiles permitted it. Other profiles may not.
        "profiles": free.then(|| policy.profiles.version()),
    })))
}

/// The alphabet of codes, without letters and digits that sound alike when they are read aloud.
const ALPHABET: &[u8; 30] = b"23456789abcdefghjkmnpqrstvwxyz";
const CODE_LENGTH: usize = 6;

/// Makes a code that was never used.
///
/// # Errors
/// [`StoreError`], and inside [`NoRandomness`]; no approval request can be sent then.
pub fn fresh_code(
    ids: &dyn Random,
    is_taken: impl Fn(&str) -> Result<bool, StoreError>,
) -> Result<Result<String, NoRandomness>, StoreError> {
    loop {
        let mut code = String::new();
        while code.len() < CODE_LENGTH {
            let mut bytes = [0; 16];
            if let Err(none) = ids.fill(&mut bytes) {
                return Ok(Err(none));
            }
            // Bytes beyond the last whole alphabet would make some letters likelier.
            let even = bytes.into_iter().filter(|byte| usize::from(*byte) < 256 / ALPHABET.len() * ALPHABET.len());
            let letters = even.filter_map(|byte| ALPHABET.get(usize::from(byte) % ALPHABET.len()).copied());
            code.extend(letters.map(char::from));
        }
        code.truncate(CODE_LENGTH);
        if !is_taken(&code)? {
            return Ok(Ok(code));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::collections::BTreeSet;
    use std::sync::atomic::{AtomicU64, Ordering};

    struct Counted(AtomicU64);

    impl Random for Counted {
        fn fill(&self, buffer: &mut [u8]) -> Result<(), NoRandomness> {
            let digest = Digest::of(&self.0.fetch_add(1, Ordering::Relaxed).to_be_bytes());
            buffer.iter_mut().zip(digest.as_bytes()).for_each(|(byte, with)| *byte = *with);
            Ok(())
        }
    }

    #[test]
    fn a_code_is_six_letters_of_the_alphabet_and_never_one_that_was_used() {
        let ids = Counted(AtomicU64::new(0));
        let mut used = BTreeSet::new();
        let mut letters = BTreeSet::new();
        for _ in 0..2_000 {
            let code = fresh_code(&ids, |_| Ok(false)).unwrap().unwrap();
            assert_eq!(code.len(), CODE_LENGTH);
            letters.extend(code.bytes());
            used.insert(code);
        }
        assert_eq!(letters, ALPHABET.iter().copied().collect());
        assert!(used.len() > 1_990, "{}", used.len());
        let refused = Cell::new(0);
        let taken = |_: &str| {
            refused.set(refused.get() + 1);
            Ok(refused.get() <= 3)
        };
        assert!(!fresh_code(&ids, taken).unwrap().unwrap().is_empty());
        assert_eq!(refused.get(), 4);
    }
}
