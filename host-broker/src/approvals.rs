//! A person's yes to exactly this: what is asked, who answered, and what became of it.
//!
//! An approval belongs to one request. Its digest covers everything that was shown, it is spent in the very transaction
//! that writes the call's intent, and silence is a no. Nothing of it lies where a sandbox can write.
//!
//! ```text
//! waiting ──► approved ──► closed (spent by the intent, or refused after all)
//!    ├──────► denied ────► closed
//!    ├──────► expired ───► closed
//!    └──────► cancelled ─► closed
//! ```
//! From every state but `waiting` and `closed` the request is admitted again, at once or at the next start. A proposal
//! is not: its request was over when it was proposed, and whoever applies it spends the yes. What a server says of its tools
//! was asked about by nobody's request: with the yes it is made what counts.

pub mod card;
pub mod denials;
pub mod hidden;
pub mod sealing;
mod stored;

pub use stored::*;

use crate::authorize::Policy;
use crate::call::Call;
use crate::ledger::LedgerError;
use crate::providers::contract::Invocation;
use card::Card;
use model::NoRandomness;
use model::Person;
use model::ProposalId;
use model::Random;
use model::SealedRequest;
use policy::facts::ApprovalReason;
use serde_json::json;
use shared::digest::Digest;
use shared::{Action, Group, Level, Provider, RequestId, Timestamp};
use std::collections::BTreeSet;

/// How many questions of one caller may be open at once.
pub const OPEN_MAX: usize = 20;

/// What a person is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A call, which runs after a yes.
    Call,
    /// A grant above what the main group may give by itself.
    Grant,
    /// Changes to files, which may be applied after a yes.
    File,
    /// An account of a person's, which is linked with the yes.
    Account,
    /// What a server says of its tools, which is what counts after the yes.
    Definition,
    /// A version of a flow, which is the canonical one after the yes.
    Flow,
}

impl Kind {
    const ALL: [Self; 6] = [Self::Call, Self::Grant, Self::File, Self::Account, Self::Definition, Self::Flow];

    /// What a person is asked about, in a sentence.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Grant => "grant",
            Self::File => "proposal",
            Self::Account => "account",
            Self::Definition => "change of what a server says",
            Self::Flow => "version of a flow",
        }
    }

    /// The word in the table.
    pub fn word(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Grant => "grant",
            Self::File => "file",
            Self::Account => "account",
            Self::Definition => "definition",
            Self::Flow => "flow",
        }
    }
}

/// Where an approval stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Nobody has decided.
    Waiting,
    /// Enough people said yes.
    Approved,
    /// A person said no.
    Denied,
    /// Nobody said anything in time.
    Expired,
    /// The caller does not want it any more.
    Cancelled,
    /// It is over.
    Closed,
}

impl State {
    const ALL: [Self; 6] = [Self::Waiting, Self::Approved, Self::Denied, Self::Expired, Self::Cancelled, Self::Closed];

    /// The word in the table.
    pub fn word(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
            Self::Closed => "closed",
        }
    }
}

/// A stored approval.
#[derive(Clone, PartialEq)]
pub struct Approval {
    /// Its number.
    pub id: i64,
    /// What approvers answer with. An agent never learns it.
    pub code: String,
    /// What it is about.
    pub kind: Kind,
    /// Who asks, as the ledger writes callers.
    pub caller: String,
    /// Whose calls, access or files it is about.
    pub group: Option<Group>,
    /// The request; of a proposal a name that nobody else knows.
    pub request_id: RequestId,
    /// The reply's name, where the document had no id of its own.
    pub reply_as: Option<RequestId>,
    /// The provider.
    pub provider: Provider,
    /// The action; of a grant `grant`.
    pub action: Action,
    /// The level that the call demands, or the grant gives.
    pub level: Level,
    /// Of everything that was agreed to.
    pub digest: Digest,
    /// How many different people it takes.
    pub quorum: usize,
    /// Where it stands.
    pub state: State,
    /// How it ended, once it is closed.
    pub became: Option<String>,
    /// The row that says that a person was asked.
    pub asked_seq: i64,
    /// When.
    pub asked_at: Timestamp,
    /// When silence becomes a no.
    pub expires_at: Timestamp,
    /// When the caller stops waiting.
    pub reply_by: Timestamp,
    /// Whether the caller has had its one reply.
    pub told: bool,
    /// Why a person is asked.
    pub asks: BTreeSet<ApprovalReason>,
    /// What is shown, until it is closed.
    pub card: Option<Card>,
}

impl Approval {
    /// The agent's name for it.
    pub fn reference(&self) -> String {
        reference(self.asked_seq)
    }
}

impl std::fmt::Debug for Approval {
    /// Without the code, which is a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Approval({}, {})", self.reference(), self.state.word())
    }
}

/// The agent's name for the question that this row asks.
pub fn reference(asked_seq: i64) -> String {
    format!("ask-{asked_seq}")
}

/// What one person answered.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Answered {
    /// Who, as the ledger writes callers.
    pub by: String,
    /// Through which channel: `cli`, `web`.
    pub channel: String,
    /// Yes, or no.
    pub yes: bool,
    /// Why, in the person's words.
    pub reason: Option<String>,
    /// When.
    pub at: Timestamp,
}

/// A question to be asked.
pub struct Question<'a> {
    /// What approvers will answer with.
    pub code: &'a str,
    /// What it is about.
    pub kind: Kind,
    /// Where it stands from the first.
    pub state: State,
    /// Who asks, as the ledger writes callers.
    pub caller: &'a str,
    /// Whose calls, access or files it is about, if it is about a group's.
    pub group: Option<&'a Group>,
    /// The request.
    pub request_id: &'a RequestId,
    /// The reply's name, where the document had no id of its own.
    pub reply_as: Option<&'a RequestId>,
    /// The provider.
    pub provider: &'a Provider,
    /// The action.
    pub action: &'a Action,
    /// The level that it demands, or gives.
    pub level: Level,
    /// What is admitted again after the answer.
    pub document: Option<&'a [u8]>,
    /// On whose behalf.
    pub person: Option<&'a Person>,
    /// Of everything that is agreed to.
    pub digest: Digest,
    /// How many must say yes.
    pub quorum: usize,
    /// The row that says that a person is asked.
    pub asked_seq: i64,
    /// When silence becomes a no.
    pub expires_at: Timestamp,
    /// When the caller stops waiting.
    pub reply_by: Timestamp,
    /// Why a person is asked.
    pub asks: &'a BTreeSet<ApprovalReason>,
    /// What is shown.
    pub card: &'a Card,
}

/// What of a call a person agrees to, and the request in which it leaves. Keyed, because the parameters' digest is.
pub fn digest_of(call: &Call, sealed: Option<&SealedRequest>, policy: &Policy) -> Digest {
    let declared = call.target.operation().map(|operation| {
        let declaration = operation.declaration();
        let schema = Digest::of(&shared::json::canonical(&declaration.input_schema));
        json!([declaration.level, schema, declaration.description])
    });
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
    if let Some(members) = agreed.as_object_mut() {
        members.extend(sealed.map(|sealed| ("sealed".to_owned(), json!(sealed.digest()))));
        members.extend(call.header.behalf.person().map(|person| ("person".to_owned(), json!(agreed_for(person)))));
    }
    Digest::of(&shared::json::canonical(&agreed))
}

/// What of the one on whose behalf a call is made a person agrees to: who, and in which chat; not in which token.
fn agreed_for(person: &Person) -> Person {
    Person { jti: None, ..person.clone() }
}

/// What of a proposal a person agrees to: the whole diff, and how the provider is set up.
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
        // Where nobody was asked, the profiles said so; others may not.
        "profiles": free.then(|| policy.profiles.version()),
    })))
}

/// The alphabet of codes: no letter or digit that is taken for another when it is read aloud.
const ALPHABET: &[u8; 30] = b"23456789abcdefghjkmnpqrstvwxyz";
const CODE_LENGTH: usize = 6;

/// A fresh code that was never used.
///
/// # Errors
/// [`LedgerError`], and inside [`NoRandomness`]; nobody can be asked then.
pub fn fresh_code(
    ids: &dyn Random,
    is_taken: impl Fn(&str) -> Result<bool, LedgerError>,
) -> Result<Result<String, NoRandomness>, LedgerError> {
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
