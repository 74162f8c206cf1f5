//! The flows that ship with the broker.

use clap::builder::PossibleValuesParser;

/// Each with its name.
const STARTERS: [(&str, &str); 3] = [
    ("dependency_review", include_str!("../../flows/starter/dependency_review.json")),
    ("incident_triage", include_str!("../../flows/starter/incident_triage.json")),
    ("release_notes", include_str!("../../flows/starter/release_notes.json")),
];

/// Their names.
pub(super) fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(STARTERS.map(|(name, _)| name))
}

/// The document of one.
pub(super) fn named(name: &str) -> Option<&'static str> {
    STARTERS.into_iter().find_map(|(own, text)| (own == name).then_some(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared::flow::Bundle;

    #[test]
    fn every_one_of_them_is_a_flow_of_its_name() {
        for (name, text) in STARTERS {
            let bundle: Bundle = serde_json::from_str(text).unwrap();
            assert_eq!(bundle.faults(), [], "{name}");
            assert_eq!(bundle.flow.flow_id.as_str(), format!("flow_{name}"));
        }
    }
}
