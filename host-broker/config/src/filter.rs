//! `[filter]`: the formats of credentials that are redacted, beside the built-in ones.

use filter::values::rule::{Rule, RuleTable};
use filter::values::{Formats, gitleaks};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The most formats, and the most rules of a set: more would slow down the search noticeably.
const RULES_MAX: usize = 10_000;

/// The most bytes of a rule set; the largest published ones have a tenth of that.
const SET_BYTES_MAX: u64 = 4 << 20;

/// Additional formats of credentials that are redacted from results.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FilterTable {
    /// Formats of the operator's own services.
    pub credentials: Vec<RuleTable>,
    /// Rule sets in files.
    pub rule_sets: Vec<RuleSetTable>,
}

/// A rule set in a file, in the form of `gitleaks.toml`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RuleSetTable {
    /// The path of the file; a relative path is relative to the home.
    pub file: PathBuf,
    /// The ids of the rules that are off. Absent means the rules that only test randomness, and those that the broker
    /// already covers.
    #[serde(default)]
    pub off: Option<Vec<String>>,
}

impl FilterTable {
    /// Makes the paths absolute.
    pub(super) fn settle(&mut self, folder: &Path) {
        for set in &mut self.rule_sets {
            set.file = folder.join(&set.file);
        }
    }

    /// Returns all formats to be searched for.
    ///
    /// # Errors
    /// The place in the configuration, or the file, with the error and the remedy.
    pub fn formats(&self) -> Result<Formats, String> {
        let mut rules = Vec::new();
        for (index, table) in self.credentials.iter().enumerate() {
            let place = || format!("filter.credentials[{index}] (`{}`): ", table.kind);
            rules.push(Rule::new(table.clone()).map_err(|fault| place() + &fault.to_string())?);
        }
        for (index, set) in self.rule_sets.iter().enumerate() {
            let read =
                set.read().map_err(|fault| format!("filter.rule_sets[{index}]: {}: {fault}", set.file.display()));
            rules.extend(read?);
        }
        if rules.len() > RULES_MAX {
            return Err(format!("filter: {} rules exceed the limit of {RULES_MAX}; remove some", rules.len()));
        }
        Formats::with(rules).map_err(|fault| format!("filter: {fault}"))
    }
}

impl RuleSetTable {
    fn read(&self) -> Result<Vec<Rule>, String> {
        let length = std::fs::metadata(&self.file).map_err(|fault| fault.to_string())?.len();
        if length > SET_BYTES_MAX {
            return Err(format!("{length} bytes exceed the limit of {SET_BYTES_MAX}; split or shorten the file"));
        }
        let text = std::fs::read_to_string(&self.file).map_err(|fault| fault.to_string())?;
        let off: Vec<&str> = match &self.off {
            Some(off) => off.iter().map(String::as_str).collect(),
            None => gitleaks::OFF.to_vec(),
        };
        let rules = gitleaks::rules(&text, &off)
            .map_err(|fault| format!("{fault}; to disable the rule, add its id to `off`"))?;
        if rules.is_empty() {
            Err("it contains no rule that can be used; remove the entry or add rules".to_owned())
        } else {
            Ok(rules)
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Config;
    use platform::Environment;
    use std::path::Path;

    fn formats(text: &str, folder: &Path) -> Result<String, String> {
        let config = Config::parse(text, &folder.join("broker.toml"), &Environment::new(), crate::KINDS);
        let config = config.map_err(|fault| fault.to_string())?;
        config.filter.formats().map(|formats| format!("{formats:?}"))
    }

    #[test]
    fn formats_and_rule_sets_are_added_to_those_of_the_broker() {
        let folder = tempfile::tempdir().unwrap();
        let set = "[[rules]]\nid = \"acme-key\"\nregex = '''acme_[a-z]{9}'''\nkeywords = [\"acme_\"]\n";
        std::fs::write(folder.path().join("set.toml"), set).unwrap();
        let none = formats("", folder.path()).unwrap();
        let both = formats(
            "[[filter.credentials]]\nkind = \"a\"\nwords = [\"abc\"]\npattern = 'abc[0-9]{9}'\n\
             [[filter.rule_sets]]\nfile = \"set.toml\"\n",
            folder.path(),
        );
        let count = |text: &str| text.split(' ').find_map(|word| word.parse::<usize>().ok().filter(|n| *n > 50));
        assert_eq!(count(&both.unwrap()), count(&none).map(|count| count + 2));
    }

    #[test]
    fn a_fault_names_its_place_and_the_remedy() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("bad.toml"), "[[rules]]\nid = \"x\"\nregex = '('\nkeywords = [\"abc\"]\n")
            .unwrap();
        for (text, parts) in [
            (
                "[[filter.credentials]]\nkind = \"a\"\nwords = [\"ab\"]\npattern = 'abc[0-9]{9}'\n",
                vec!["filter.credentials[0] (`a`): `words`: \"ab\""],
            ),
            ("[[filter.credentials]]\nkind = \"a\"\nwrods = [\"abc\"]\n", vec!["line 3", "did you mean `words`?"]),
            ("[[filter.rule_sets]]\nfile = \"none.toml\"\n", vec!["filter.rule_sets[0]: ", "none.toml"]),
            ("[[filter.rule_sets]]\nfile = \"bad.toml\"\n", vec!["bad.toml: rule x: `pattern`", "`off`"]),
            ("[[filter.rule_sets]]\nfile = \"bad.toml\"\noff = [\"x\"]\n", vec!["no rule that can be used"]),
        ] {
            let fault = formats(text, folder.path()).unwrap_err();
            assert!(parts.iter().all(|part| fault.contains(part)), "{fault}");
        }
    }
}
