//! The parts of a call's context that a rule reads, and whether it can fail: found from its syntax tree.

use serde_json::Value;
use std::collections::BTreeSet;

/// The parts of the context that a rule reads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Reads {
    /// The parts of the context that it names.
    parts: BTreeSet<String>,
    /// Whether it takes the context as a whole, so that it may read any part.
    whole: bool,
    /// Whether evaluating it can fail although it is valid: sums overflow, texts are no times.
    pub(super) can_fail: bool,
}

/// The operators that cannot fail on a valid rule, by their names in the tree. Any other one may.
const SAFE: [&str; 21] = [
    "!",
    "==",
    "!=",
    "in",
    "<",
    "<=",
    ">",
    ">=",
    "&&",
    "||",
    "contains",
    "containsAll",
    "containsAny",
    "isEmpty",
    ".",
    "has",
    "like",
    "is",
    "if-then-else",
    "Set",
    "Record",
];

impl Reads {
    /// Analyses the conditions of a rule in Cedar's JSON form.
    pub(super) fn of(policy: &Value) -> Self {
        let mut reads = Self::default();
        match policy.get("conditions") {
            Some(Value::Array(conditions)) => {
                for condition in conditions {
                    reads.expression(condition.get("body").unwrap_or(&Value::Null));
                }
            }
            // This form is unknown here, so it may read anything.
            Some(_) | None => reads.anything(),
        }
        reads
    }

    /// Returns whether it may read one of these parts of the context.
    pub(super) fn any_of(&self, parts: &[&str]) -> bool {
        self.whole || parts.iter().any(|part| self.parts.contains(*part))
    }

    /// Returns whether it may read any part of the context.
    pub(super) fn any(&self) -> bool {
        self.whole || !self.parts.is_empty()
    }

    fn anything(&mut self) {
        self.whole = true;
        self.can_fail = true;
    }

    fn expression(&mut self, node: &Value) {
        let Some((operator, operands)) = node.as_object().and_then(|object| object.iter().next()) else {
            return self.anything();
        };
        match operator.as_str() {
            "Value" => {}
            "Var" => self.whole |= operands.as_str() == Some("context"),
            "." | "has" => self.access(operands),
            // Types and patterns are not expressions.
            "is" => [operands.get("left"), operands.get("in")].into_iter().flatten().for_each(|e| self.expression(e)),
            "like" => self.expression(operands.get("left").unwrap_or(&Value::Null)),
            other => {
                self.can_fail |= !SAFE.contains(&other);
                match operands {
                    Value::Array(all) => all.iter().for_each(|operand| self.expression(operand)),
                    Value::Object(all) => all.values().for_each(|operand| self.expression(operand)),
                    Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => self.anything(),
                }
            }
        }
    }

    /// `left.attr`, `left has attr`
    fn access(&mut self, operands: &Value) {
        let left = operands.get("left").unwrap_or(&Value::Null);
        let is_context = left.get("Var").and_then(Value::as_str) == Some("context");
        match operands.get("attr").and_then(Value::as_str) {
            Some(part) if is_context => {
                self.parts.insert(part.to_owned());
            }
            Some(_) | None => self.expression(left),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn policies_of_an_unknown_form_may_read_anything_and_fail() {
        let is_anything = |policy: Value| {
            let reads = Reads::of(&policy);
            reads.any_of(&["whatever"]) && reads.can_fail
        };
        let body = |body: Value| json!({ "conditions": [{ "kind": "when", "body": body }] });
        for policy in [
            json!(null),
            json!({}),
            json!({ "conditions": {} }),
            json!({ "conditions": [{}] }),
            body(json!("context")),
            body(json!({})),
            body(json!({ "new-operator": 1 })),
            body(json!({ "==": "context.params" })),
        ] {
            assert!(is_anything(policy.clone()), "{policy}");
        }
        let known = body(json!({ "==": { "left": { "Var": "principal" }, "right": { "Value": 1 } } }));
        assert!(!is_anything(known));
    }
}
