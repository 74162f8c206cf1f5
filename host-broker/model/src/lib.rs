//! The vocabulary of the domain: callers, persons, declarations, accounts, names, and the traits of time and
//! randomness.
//!
//! The crate does no I/O and knows neither SQL nor Tokio. Every other crate of the broker uses it.

mod account;
pub mod access;
pub mod approval;
pub mod bearer;
mod caller;
pub mod card;
mod ciphertext;
mod clock;
mod declaration;
mod destination;
mod effect_marker;
pub mod errors;
mod exposed;
mod given_secret;
pub mod hidden;
mod host_name;
mod identity;
mod ledger_key;
mod linking;
mod notice_event;
mod patterns;
pub mod percent;
pub mod plan;
pub mod proposal;
mod proposal_id;
mod publication;
mod random;
mod sealed_request;
mod signer;
pub mod standing_approval;
mod token_id;
mod treatment;
mod workspace_path;

pub use account::{Account, Share, is_ref, owned};
pub use caller::{Caller, KillScope, external};
pub use ciphertext::{Ciphertext, Place, RecordKind, Renewal, StoredCredential};
pub use clock::Clock;
pub use declaration::{Declaration, Exposes, Exposure, ParamError, Refusal, Tier};
pub use destination::{Destination, DestinationKind};
pub use effect_marker::EffectMarker;
pub use exposed::Exposed;
pub use given_secret::{BadSecret, GIVEN_SECRET_MAX, GivenSecret};
pub use host_name::{HostName, HostNameGrammar};
pub use identity::{ChatType, Person, Subject, TokenError, claimed_in};
pub use ledger_key::LedgerKey;
pub use linking::{Flow, LinkSessionState};
pub use notice_event::NoticeEvent;
pub use patterns::{NamePatterns, PatternError, Patterns};
pub use proposal_id::{BadProposalId, ProposalId};
pub use publication::Publication;
pub use random::{NoRandomness, Nonce, Random};
pub use sealed_request::SealedRequest;
pub use signer::Signer;
pub use token_id::{TokenId, TokenIdGrammar};
pub use treatment::Treatment;
pub use workspace_path::{PathError, WorkspacePath, conceals};
