//! Batches that are not answered yet: their answers are kept until the last of them is there, and go out as one.

use rmcp::model::RequestId;
use serde_json::Value;
use std::collections::HashSet;

/// All of them.
#[derive(Default)]
pub(super) struct Batches(Vec<Batch>);

#[derive(Default)]
struct Batch {
    open: HashSet<RequestId>,
    answers: Vec<Value>,
}

impl Batch {
    /// The whole answer, once nothing is open; a batch in which nothing is answered has none.
    fn answer(self) -> Option<Value> {
        (!self.answers.is_empty()).then_some(Value::Array(self.answers))
    }
}

impl Batches {
    /// Begins a batch of these open requests and existing answers. Returns the answer if nothing is open.
    pub(super) fn begin(&mut self, open: HashSet<RequestId>, answers: Vec<Value>) -> Option<Value> {
        let batch = Batch { open, answers };
        if batch.open.is_empty() {
            return batch.answer();
        }
        self.0.push(batch);
        None
    }

    /// Checks whether this request came in a batch.
    pub(super) fn have(&self, id: &RequestId) -> bool {
        self.0.iter().any(|batch| batch.open.contains(id))
    }

    /// Closes a request, with its answer if it has one. Returns the answer to write now.
    pub(super) fn close(&mut self, id: &RequestId, answer: Option<Value>) -> Option<Value> {
        let at = self.0.iter().position(|batch| batch.open.contains(id))?;
        let batch = self.0.get_mut(at)?;
        batch.open.remove(id);
        batch.answers.extend(answer);
        if batch.open.is_empty() { self.0.swap_remove(at).answer() } else { None }
    }
}
