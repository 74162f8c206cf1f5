//! The marker of an effect, by which a later probe finds it at the remote.

use crate::Nonce;
use shared::RequestId;

/// The identity of an effect at the remote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectMarker {
    /// The request.
    pub request_id: RequestId,
    /// The nonce of this effect.
    pub nonce: Nonce,
}
