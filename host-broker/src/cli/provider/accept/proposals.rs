//! Proposed lines of `broker.toml` for a server's tools: shown to the operator, and written on request.

use super::Name;
use crate::cli::Context;
use crate::cli::edit;
use crate::cli::output::CliError;
use config::Config;
use model::{Exposes, Tier};
use provider_mcp::proposals::Proposal;
use provider_mcp::tools::{ServerTool, ToolTable};
use shared::Action;
use shared::numbers::counted;

/// A proposed line.
pub(super) struct Line {
    tool: Action,
    table: ToolTable,
    why: String,
}

impl Line {
    /// Returns the line of an unflagged tool that can be offered and whose exposures are not configured.
    pub(super) fn of(said: &ServerTool, table: Option<&ToolTable>, proposal: &Proposal) -> Option<Self> {
        let tool: Action = said.name().parse().ok()?;
        if said.fault().is_some() || said.flagged().is_some() || table.is_some_and(|table| table.exposes.is_some()) {
            return None;
        }
        let mut proposed = proposal.table.clone();
        if let Some(known) = table {
            proposed = ToolTable { exposes: proposed.exposes, ..known.clone() };
        }
        Some(Self { tool, table: proposed, why: proposal.why.join("; ") })
    }

    fn text(&self) -> String {
        let ToolTable { level, tier, exposes, idempotent } = &self.table;
        let mut members = vec![format!("level = {}", level.number())];
        members.extend(tier.map(|tier| format!("tier = \"{}\"", Tier::word(tier))));
        members.extend(exposes.as_deref().map(|exposes| format!("exposes = {}", listed(exposes))));
        members.extend(idempotent.then(|| "idempotent = true".to_owned()));
        format!("{} = {{ {} }}", key(&self.tool), members.join(", "))
    }
}

fn listed(exposes: &[Exposes]) -> String {
    let words: Vec<String> = exposes.iter().map(|exposed| format!("\"{}\"", exposed.word())).collect();
    format!("[{}]", words.join(", "))
}

/// Returns the key of a table, between quotes where it has a period.
fn key(tool: &Action) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if tool.as_str().chars().all(is_bare) { tool.to_string() } else { format!("\"{tool}\"") }
}

/// Returns the proposal as text for a person; `None` if there are no lines.
pub(super) fn text(name: &Name, proposed: &[Line]) -> Option<String> {
    let lines: Vec<String> = proposed.iter().map(|line| format!("{}  # {}", line.text(), line.why)).collect();
    (!lines.is_empty()).then(|| {
        format!(
            "Proposed, and without effect until it stands in broker.toml: paste the right lines, or add --accept-proposed. A \
             tool without `exposes` counts as all three, and then a person is asked again and again.\n\
             [providers.{name}.tools]\n{}",
            lines.join("\n")
        )
    })
}

/// The configuration with the proposals in it.
pub(super) struct Edited<'a> {
    pub(super) config: Config,
    name: &'a Name,
    proposed: &'a [Line],
}

impl Edited<'_> {
    /// Writes the configuration.
    ///
    /// # Errors
    /// [`CliError`]; the file is as it was.
    pub(super) fn write(self, context: &Context) -> Result<Option<String>, CliError> {
        if self.proposed.is_empty() {
            return Ok(None);
        }
        edit::change(context, |text| with_lines(text, self.name, self.proposed))?;
        let tools = counted(self.proposed.len(), "tool is", "tools are");
        Ok(Some(format!("The proposed lines of {tools} in broker.toml.")))
    }
}

/// Puts these lines into the configuration's text, without writing it.
///
/// # Errors
/// [`CliError`]: the text cannot be edited safely.
pub(super) fn edited<'a>(context: &Context, name: &'a Name, proposed: &'a [Line]) -> Result<Edited<'a>, CliError> {
    let (_text, config) = edit::draft(context, |text| with_lines(text, name, proposed))?;
    Ok(Edited { config, name, proposed })
}

fn with_lines(text: &str, name: &Name, proposed: &[Line]) -> Result<String, CliError> {
    if proposed.is_empty() {
        return Ok(text.to_owned());
    }
    let by_hand = || {
        CliError::usage(format!(
            "broker.toml cannot be edited safely; write the proposed lines of [providers.{name}.tools] by hand"
        ))
    };
    let mut expected: toml::Table = toml::from_str(text).map_err(|_fault| by_hand())?;
    let table = expected.get_mut("providers").and_then(|all| all.get_mut(name.as_str())).ok_or_else(by_hand)?;
    let tools = table.as_table_mut().ok_or_else(by_hand)?.entry("tools").or_insert_with(|| toml::Table::new().into());
    let tools = tools.as_table_mut().ok_or_else(by_hand)?;
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let header = |line: &str| line.split('#').next().unwrap_or_default().trim() == format!("[providers.{name}.tools]");
    let mut at = lines.iter().position(|line| header(line));
    for line in proposed {
        let said = toml::from_str::<toml::Table>(&line.text()).map_err(|_fault| by_hand())?;
        let said = said.get(line.tool.as_str()).cloned().ok_or_else(by_hand)?;
        let known = tools.get(line.tool.as_str()).cloned();
        match (known, at) {
            (Some(known), Some(at)) => {
                // The operator's own line stays; the edit only adds the exposures.
                let exposes = listed(line.table.exposes.as_deref().unwrap_or_default());
                let own = lines.iter_mut().skip(at + 1).take_while(|line| !line.trim_start().starts_with('['));
                let is_its = |own: &&mut String| {
                    let found = toml::from_str::<toml::Table>(own).ok();
                    found.is_some_and(|found| found.get(line.tool.as_str()) == Some(&known))
                };
                let mut found = own.filter(is_its);
                let own = found.next().ok_or_else(by_hand)?;
                let end = own.rfind('}').ok_or_else(by_hand)?;
                let (head, tail) = own.split_at_checked(end).ok_or_else(by_hand)?;
                let added = format!("{}, exposes = {exposes} {tail}", head.trim_end());
                *own = added;
                let mut known = known;
                let list = said.get("exposes").cloned().ok_or_else(by_hand)?;
                known.as_table_mut().ok_or_else(by_hand)?.insert("exposes".to_owned(), list);
                tools.insert(line.tool.to_string(), known);
            }
            (Some(_), None) => return Err(by_hand()),
            (None, Some(at)) => {
                lines.insert(at + 1, line.text());
                tools.insert(line.tool.to_string(), said);
            }
            (None, None) => {
                lines.extend([String::new(), format!("[providers.{name}.tools]"), line.text()]);
                at = Some(lines.len() - 2);
                tools.insert(line.tool.to_string(), said);
            }
        }
    }
    let mut edited = lines.join("\n");
    edited.push('\n');
    // If the file has the table in another form, the edit would change its meaning.
    if toml::from_str::<toml::Table>(&edited).is_ok_and(|found| found == expected) {
        Ok(edited)
    } else {
        Err(by_hand())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared::Level;

    fn line(tool: &str) -> Line {
        let exposes = Some(vec![Exposes::Untrusted, Exposes::Sensitive]);
        let table = ToolTable { level: Level::Read, tier: None, exposes, idempotent: false };
        Line { tool: tool.parse().unwrap(), table, why: String::new() }
    }

    fn edit(text: &str, lines: &[Line]) -> Result<String, String> {
        with_lines(text, &"odd".parse().unwrap(), lines).map_err(|fault| fault.text)
    }

    #[test]
    fn proposed_lines_are_added_and_what_the_operator_wrote_stays() {
        let head = "# mine\n[providers.odd]\nkind = \"mcp\"\ncommand = [\"x\"]\n";
        let new = "read = { level = 1, exposes = [\"untrusted\", \"sensitive\"] }";
        assert_eq!(edit(head, &[line("read")]).unwrap(), format!("{head}\n[providers.odd.tools]\n{new}\n"));
        let more = "\n[providers.odd.tools] # few\nlook = { level = 2 } # mine, too\n\n[groups.a]\n";
        let edited = edit(&format!("{head}{more}"), &[line("read"), line("look")]).unwrap();
        let look = "look = { level = 2, exposes = [\"untrusted\", \"sensitive\"] } # mine, too";
        assert_eq!(edited, format!("{head}\n[providers.odd.tools] # few\n{new}\n{look}\n\n[groups.a]\n"));
    }

    #[test]
    fn tool_tables_that_cannot_be_edited_safely_are_left_to_the_operator() {
        for text in [
            "[providers]\nodd = { kind = \"mcp\", command = [\"x\"], tools = {} }\n",
            "[providers.odd]\nkind = \"mcp\"\ntools = { look = { level = 1 } }\n",
            "[groups.a]\n",
        ] {
            assert!(edit(text, &[line("read")]).unwrap_err().contains("by hand"), "{text}");
        }
    }
}
