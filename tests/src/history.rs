//! The fate of some requests, as three witnesses have it: the ledger, the effects that were counted, and the
//! replies that the callers took. [`History::faults`] says where they contradict each other or the promises.
//!
//! It knows nothing of how a host works, so that a host which does it wrong cannot be wrong in the same way.

use crate::evidence::body;
use crate::group::code;
use crate::{World, evidence};
use serde_json::Value;
use shared::digest::Digest;
use store::ledger::chain::Row;
use store::ledger::verifier::{Break, Verifier};

/// The values to compare.
#[derive(Debug, Clone)]
pub struct History {
    /// The ledger.
    pub rows: Vec<Row>,
    /// The actions whose executions are counted.
    pub counted: Vec<String>,
    /// The request id of each execution of one of them.
    pub effects: Vec<String>,
    /// The requests that were sent.
    pub asked: Vec<String>,
    /// Each reply that somebody took, under its request id.
    pub replies: Vec<(String, Value)>,
    /// Rows that were there once.
    pub kept: Vec<(i64, Digest)>,
}

/// A contradiction.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are request ids and the numbers of rows")]
pub enum Fault {
    /// The chain does not verify.
    Broken(Break),
    /// An effect without an outcome, although nothing is under way.
    Open { seq: i64 },
    /// A row that was there is gone, or another one.
    Lost { seq: i64 },
    /// An effect happened more than once.
    HappenedTwice { id: String },
    /// An effect happened of which the ledger does not know.
    Unlogged { id: String },
    /// A request was decided more than once.
    DecidedTwice { id: String },
    /// A request was never answered.
    Unanswered { id: String },
    /// A request was answered in two ways.
    AnsweredTwice { id: String },
    /// A reply rests on no row, or not on the one that it names.
    WithoutEvidence { id: String },
    /// A reply says that an effect happened, and it did not.
    NeverHappened { id: String },
    /// A reply says that nothing was executed, and something was.
    DeniedAnEffect { id: String },
}

impl History {
    /// The present state of a world.
    pub fn of(world: &World, counted: &[&str], asked: Vec<String>, replies: Vec<(String, Value)>) -> Self {
        Self {
            rows: evidence::rows(&world.home()),
            effects: counted.iter().flat_map(|action| world.effects_of(action)).collect(),
            counted: counted.iter().map(ToString::to_string).collect(),
            asked,
            replies,
            kept: Vec::new(),
        }
    }

    /// Every contradiction; none is what a test demands.
    pub fn faults(&self) -> Vec<Fault> {
        let mut faults = self.faults_of_the_ledger();
        for (n, id) in self.effects.iter().enumerate() {
            if self.effects.iter().take(n).any(|other| other == id) {
                faults.push(Fault::HappenedTwice { id: id.clone() });
            }
            if !self.rows.iter().any(|row| is_intent(row) && row.request_id.as_ref() == Some(id)) {
                faults.push(Fault::Unlogged { id: id.clone() });
            }
        }
        for id in &self.asked {
            let mut replies = self.replies.iter().filter(|(of, _)| of == id);
            let Some(first) = replies.next() else {
                faults.push(Fault::Unanswered { id: id.clone() });
                continue;
            };
            // The same answer again is no other answer.
            if replies.any(|other| other != first) {
                faults.push(Fault::AnsweredTwice { id: id.clone() });
            }
        }
        faults.extend(self.replies.iter().filter_map(|(id, reply)| self.fault_of_a_reply(id, reply)));
        faults
    }

    fn faults_of_the_ledger(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        let mut verifier = Verifier::new();
        match self.rows.iter().try_for_each(|row| verifier.take(row)) {
            Ok(()) => faults.extend(verifier.open().map(|seq| Fault::Open { seq })),
            Err(broken) => faults.push(Fault::Broken(broken)),
        }
        for (seq, hash) in &self.kept {
            if !self.rows.iter().any(|row| row.seq == *seq && row.event_hash == *hash) {
                faults.push(Fault::Lost { seq: *seq });
            }
        }
        let mut decided: Vec<(&str, &str)> = Vec::new();
        for row in self.rows.iter().filter(|row| is_intent(row) || ["refused", "granted"].contains(&row.kind.as_str()))
        {
            let Some(id) = &row.request_id else { continue };
            if decided.contains(&(&row.caller, id)) {
                faults.push(Fault::DecidedTwice { id: id.clone() });
            }
            decided.push((&row.caller, id));
        }
        faults
    }

    fn fault_of_a_reply(&self, id: &str, reply: &Value) -> Option<Fault> {
        let happened = self.effects.iter().any(|effect| effect == id);
        let own = |row: &&Row| row.request_id.as_deref() == Some(id);
        // A read that was attempted has changed nothing, so that may be said of it.
        let was_a_read = self.rows.iter().filter(own).any(|row| row.kind == "intended" && row.level == Some(1));
        let nothing_happened = match code(reply) {
            "executed" | "outcome_unknown" | "still_running" => false,
            "provider_timeout" | "provider_failed" => !was_a_read,
            _ => true,
        };
        if nothing_happened && happened {
            return Some(Fault::DeniedAnEffect { id: id.to_owned() });
        }
        let Some(receipt) = reply.get("evidence") else {
            // Only who says that there is no evidence needs none: nothing was done, or nobody knows.
            let is_owned_up = ["evidence_unavailable", "outcome_unknown"].contains(&code(reply));
            return (!is_owned_up).then(|| Fault::WithoutEvidence { id: id.to_owned() });
        };
        let seq = receipt.get("seq").and_then(Value::as_i64);
        let hash = receipt.get("event_hash").and_then(Value::as_str);
        let rests_on = |row: &&Row| Some(row.seq) == seq && Some(row.event_hash.to_string().as_str()) == hash;
        let Some(row) = self.rows.iter().find(rests_on) else {
            return Some(Fault::WithoutEvidence { id: id.to_owned() });
        };
        let is_counted = row.action.as_ref().is_some_and(|action| self.counted.contains(action));
        let says_so = row.kind == "succeeded" && own(&row);
        (says_so && is_counted && !happened).then(|| Fault::NeverHappened { id: id.to_owned() })
    }
}

fn is_intent(row: &Row) -> bool {
    row.kind == "intended" && body(row).get("stage").is_some_and(|stage| stage == "run")
}
