//! The calls that MCP clients wait for, by the ids of their JSON-RPC requests.
//!
//! There are no sessions. So a client that cancels a request is known by its external grant only. Two clients of one
//! grant can use the same id at the same time. Then it is unknown whose call is meant, and none is withdrawn.

use shared::RequestId;
use shared::flow::GrantId;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A client's request: the external grant, and the JSON-RPC id as JSON text.
pub(super) type RpcKey = (GrantId, String);

/// The calls that clients wait for.
#[derive(Debug, Default)]
pub(in crate::http) struct UnderWay(Mutex<HashMap<RpcKey, Vec<RequestId>>>);

/// A call that a client waits for. It is forgotten when this is dropped.
#[derive(Debug)]
pub(super) struct Waiting<'a> {
    calls: &'a UnderWay,
    key: RpcKey,
    request_id: RequestId,
}

impl UnderWay {
    /// Notes a call until the client no longer waits.
    pub(super) fn begin(&self, key: RpcKey, request_id: RequestId) -> Waiting<'_> {
        self.calls().entry(key.clone()).or_default().push(request_id.clone());
        Waiting { calls: self, key, request_id }
    }

    /// Returns the call of a request, if it is the only one with this key.
    pub(super) fn only(&self, key: &RpcKey) -> Option<RequestId> {
        match self.calls().get(key).map(Vec::as_slice) {
            Some([only]) => Some(only.clone()),
            Some(_) | None => None,
        }
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<RpcKey, Vec<RequestId>>> {
        // No step leaves it half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut calls = self.calls.calls();
        if let Some(of_key) = calls.get_mut(&self.key) {
            of_key.retain(|call| *call != self.request_id);
            if of_key.is_empty() {
                calls.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_found_as_long_as_a_client_waits_and_only_if_it_is_the_only_one() {
        let calls = UnderWay::default();
        let key = |grant: &str, id: &str| (grant.parse().unwrap(), id.to_owned());
        let [one, two] = ["fgrnt_00000001", "fgrnt_00000002"];
        let first = calls.begin(key(one, "1"), "r-1".parse().unwrap());
        assert_eq!(calls.only(&key(one, "1")), Some("r-1".parse().unwrap()));
        // Another grant, another id, and the same digit as a text.
        for other in [key(two, "1"), key(one, "2"), key(one, "\"1\"")] {
            assert_eq!(calls.only(&other), None);
        }
        let second = calls.begin(key(one, "1"), "r-2".parse().unwrap());
        assert_eq!(calls.only(&key(one, "1")), None);
        drop(first);
        assert_eq!(calls.only(&key(one, "1")), Some("r-2".parse().unwrap()));
        drop(second);
        assert!(calls.calls().is_empty());
    }
}
