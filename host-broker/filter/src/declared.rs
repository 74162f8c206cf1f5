//! The descriptions of actions, cleaned before an agent sees them.
//!
//! The author of a script or a server wrote them, and may have written a credential into them, or invisible characters.
//! They go through the same search as results. Nothing is cut: half a description, or half a schema, is a wrong one.

use super::credentials::{self, Extent, Scrubbed};
use super::scrub::Scrubber;
use model::Declaration;
use secrets::search::view::is_invisible;
use serde_json::{Value, json};

/// The text in the place of a description that cannot be cleaned.
const NOT_SHOWN: &str = "(the description cannot be cleaned of secrets and is not shown)";

/// The declaration without credentials and invisible characters; `None` if it has none of either.
///
/// A schema loses credentials only. One that cannot be cleaned becomes that of any object; parameters are still held
/// to the action's own.
pub fn cleaned(declaration: &Declaration, scrubber: &Scrubber) -> Option<Declaration> {
    let mut clean = declaration.clone();
    clean.description = description(&declaration.description, scrubber);
    schema(&mut clean.input_schema, scrubber);
    clean.output_schema.iter_mut().for_each(|output| schema(output, scrubber));
    together(&mut clean, scrubber);
    (clean != *declaration).then_some(clean)
}

/// Takes the secrets of the broker's own out of all parts, because one may be split over the description and a schema.
fn together(clean: &mut Declaration, scrubber: &Scrubber) {
    let mut parts = json!([clean.description, clean.input_schema, clean.output_schema]);
    match credentials::scrub(&mut parts, scrubber, Extent::Own) {
        Scrubbed::Untouched => {}
        Scrubbed::Redacted => {
            parts.get(0).and_then(Value::as_str).unwrap_or(NOT_SHOWN).clone_into(&mut clean.description);
            clean.input_schema = parts.get_mut(1).map(Value::take).unwrap_or_default();
            clean.output_schema = parts.get_mut(2).map(Value::take).filter(|output| !output.is_null());
        }
        Scrubbed::Hopeless => {
            NOT_SHOWN.clone_into(&mut clean.description);
            clean.input_schema = json!({ "type": "object" });
            clean.output_schema = clean.output_schema.as_ref().map(|_| json!({ "type": "object" }));
        }
    }
}

/// A description without credentials and invisible characters.
pub fn description(text: &str, scrubber: &Scrubber) -> String {
    // ORDER: invisible characters go first, because a credential may be whole only then.
    let visible = text.chars().filter(|c| matches!(c, ' ' | '\n' | '\t') || !is_invisible(*c)).collect();
    let mut value = Value::String(visible);
    match (credentials::scrub(&mut value, scrubber, Extent::All), value) {
        (Scrubbed::Untouched | Scrubbed::Redacted, Value::String(text)) => text,
        _ => NOT_SHOWN.to_owned(),
    }
}

fn schema(schema: &mut Value, scrubber: &Scrubber) {
    if credentials::scrub(schema, scrubber, Extent::All) == Scrubbed::Hopeless {
        *schema = json!({ "type": "object" });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{TOKEN, scrubber};
    use shared::Level;

    fn declaration(description: &str, input_schema: Value) -> Declaration {
        Declaration {
            description: description.to_owned(),
            input_schema,
            ..Declaration::new("acme".parse().unwrap(), "send".parse().unwrap(), Level::Write)
        }
    }

    #[test]
    fn a_clean_declaration_stays_as_it_is_however_long() {
        let text = format!("Sends.\n\n- first\n\t- second {}", "and so on ".repeat(10_000));
        let schema = json!({"type": "object", "properties": {"password": {"type": "string"}}});
        assert_eq!(cleaned(&declaration(&text, schema), &scrubber(&[TOKEN])), None);
    }

    #[test]
    fn credentials_and_invisible_characters_leave_descriptions_and_schemas() {
        let scrubber = scrubber(&[TOKEN]);
        let (one, two) = TOKEN.split_at(8);
        let dirty = declaration(
            &format!("Sends.\nUse {one}\u{200b}{two}, or AKIAQ3EGRZ5WVKLM7YTB\u{e0041}."),
            json!({"type": "object", "properties": {"key": {"default": TOKEN, "examples": ["x"]}}}),
        );
        let clean = cleaned(&dirty, &scrubber).unwrap();
        let marks: Vec<&str> = secrets::search::mark::marks_of(&clean.description).collect();
        let [own, foreign] = marks[..] else { panic!("{}", clean.description) };
        assert_eq!(clean.description, format!("Sends.\nUse {own}, or {foreign}."));
        assert_eq!(
            clean.input_schema,
            json!({"type": "object", "properties": {"key": {"default": own, "examples": ["x"]}}})
        );
        assert_eq!(cleaned(&clean, &scrubber), None);
    }

    /// Attack (Providers and modules): A provider splits the token over the description and a
    /// schema of one definition.
    /// Defence: `filter::declared` searches all of them together.
    #[test]
    fn a_secret_over_a_description_and_a_schema_is_found() {
        let (one, two) = TOKEN.split_at(9);
        let dirty = declaration(one, json!({"type": "object", "title": two}));
        let clean = cleaned(&dirty, &scrubber(&[TOKEN])).unwrap();
        assert!(!clean.description.contains(one) && !clean.input_schema.to_string().contains(two), "{clean:?}");
        assert_eq!(clean.output_schema, None);
    }

    #[test]
    fn declarations_that_cannot_be_cleaned_are_not_shown() {
        let (one, two) = TOKEN.split_at(9);
        let doll = (0..20).fold(TOKEN.to_owned(), |inner, _| format!("{one}{inner}{two}"));
        let clean = cleaned(&declaration(&doll, json!({"title": doll})), &scrubber(&[TOKEN])).unwrap();
        assert_eq!((clean.description.as_str(), clean.input_schema), (NOT_SHOWN, json!({"type": "object"})));
    }
}
