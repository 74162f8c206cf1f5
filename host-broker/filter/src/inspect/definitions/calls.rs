//! Orders about the calls of other tools: something to call before them, other values for their parameters, another
//! tool in their place, and answers that are made up.
//!
//! An honest definition says what to call before *this* tool, and what *its* parameters take. The name of the tool
//! itself is therefore out of the text when these rules read it. What still has the form of a tool's name is another.

use crate::inspect::rules::Rule;
use crate::inspect::terms::written;
use crate::inspect::verdict::Reason::{InstructionOverride, OtherTools};

/// The name of a tool: `read_file`, `'search'`, `sendMail`.
const TOOL: &str = r#"(?:the\s{1,3}|tool\s{1,3}|function\s{1,3}|an?\s{1,3}){0,2}(?:[`'"][a-z][a-z0-9_.:-]{2,60}[`'"]|\b[a-z][a-z0-9]{0,40}(?:[_-][a-z0-9]{1,40}){1,8}\b|(?-i:\b[a-z]{2,30}(?:[A-Z][a-z0-9]{1,30}){1,6}\b))"#;

/// The use of a tool, as a condition.
const USING: &str = r"(?:us(?:e|es|ing)|call(?:s|ing)?|run(?:s|ning)?|invok(?:e|es|ing)|execut(?:e|es|ing)|trigger(?:s|ing)?|request(?:s|ing)?(?: to use)?)";

/// Obligation.
const MUST: &str =
    r"(?:must|should|shall|always|have to|has to|need to|needs to|required|mandatory|crucial|automatically)";

/// The call of a tool, as an order.
const CALL: &str = r"(?:call|use|run|invoke|trigger|execute|query|retrieve|perform|initiate)";

/// A change of a call.
const CHANGE: &str = r"(?:modify|change|override|overwrite|replace|substitute|alter|rewrite|append|prepend|set|add|force|redirect|switch|join|enhance|ignore|filter|convert|swap)";

/// A change that no honest definition asks for.
const TAMPER: &str =
    r"(?:modify|change|override|overwrite|replace|substitute|alter|rewrite|append|prepend|redirect|switch|swap|remove)";

/// The parts of a call.
const VALUE: &str = r"(?:parameters?|arguments?|argument values?|fields?|quer(?:y|ies)|recipients?|filters?|inputs?|keywords?|limits?|values?|url|address|destination|amount|request)";

/// A literal value.
const LITERAL: &str = r#"(?:['"=@`][^\s'"`]|\b[0-9]{2,})"#;

pub(super) fn rules() -> Vec<Rule> {
    let mut rules = before();
    rules.extend(changed());
    rules.extend(added());
    rules.extend(in_its_place());
    rules.extend(reasons());
    rules
}

/// Makes a rule. In its pattern `<9>` stands for up to nine characters of the same sentence, and names in capitals for
/// the terms above.
fn rule(words: &[&str], pattern: &str) -> Rule {
    let terms =
        [("TOOL", TOOL), ("USING", USING), ("MUST", MUST), ("CALL", CALL), ("CHANGE", CHANGE), ("VALUE", VALUE)];
    let with_terms = terms
        .iter()
        .chain(&[("LITERAL", LITERAL), ("TAMPER", TAMPER)])
        .fold(pattern.to_owned(), |pattern, (name, means)| pattern.replace(&format!("<{name}>"), means));
    let with_gaps = [12, 20, 30, 40, 60, 80, 120].iter().fold(with_terms, |pattern, length| {
        pattern.replace(&format!("<{length}>"), &format!(r"(?:[^.\n]|\.\S){{0,{length}}}?"))
    });
    written(OtherTools, words, &with_gaps)
}

/// Orders to call something before another tool, or before this one with values that are given.
fn before() -> Vec<Rule> {
    let words = &["before", "prior to", "ahead of"];
    vec![
        // The order may be in the next sentence.
        rule(
            words,
            r"\b(?:before|prior to|ahead of)\b<60>\b<USING>\s{1,3}<TOOL>[^\n]{0,160}?\b<MUST>\s{1,3}(?:first\s{1,3}|also\s{1,3})?<CALL>\s{1,3}<TOOL>",
        ),
        rule(
            words,
            r"\b(?:before|prior to|ahead of)\b<60>\b<USING>\s{1,3}<TOOL><20>\b(?:scan|fetch|pull|read|open|inspect|probe)\s{1,3}<TOOL><20>\b(?:on|for|with|to)\b<20><LITERAL>",
        ),
        rule(words, r"\b(?:before|prior to|ahead of)\b<120>\b<MUST>\b<60>\bvia\s{1,3}<TOOL>"),
        rule(
            words,
            r"\b(?:before|prior to|ahead of)\s{1,3}(?:you\s)?<USING>\s{1,3}<TOOL><60>\b(?:<MUST>|first|<CALL>|via|<USING>)\b",
        ),
        rule(
            words,
            r"\b(?:before|prior to|ahead of)\b<120>\b<MUST>\b<30>\b<CALL>\s{1,3}<TOOL><30>\b(?:with|on|for|to|set|using|and)\b",
        ),
        rule(
            words,
            r"\b(?:before|prior to|ahead of)\b<120>\b<CALL>\s{1,3}<TOOL><60>\b(?:with|on|for|to|query|keywords|set)\b<30><LITERAL>",
        ),
        rule(words, r"\b(?:before|prior to|ahead of)\b<120>\b<MUST>\b<60>\busing\s{1,3}<TOOL>"),
        rule(
            words,
            r"\b<MUST>\b<12>\b<CALL>\s{1,3}<TOOL><80>\b(?:before|prior to|ahead of)\s{1,3}<USING>\s{1,3}<TOOL>",
        ),
        rule(
            &["must", "should", "always", "automatically", "requires", "triggers"],
            r"\b(?:<MUST>\s{1,3}(?:first\s{1,3}|also\s{1,3})?<CALL>|automatically\s{1,3}<CALL>|requires\s{1,3}calling|triggers)\s{1,3}<TOOL>(?:\s{1,3}(?:tool|command|first))?\s{1,3}(?:with|on|for|using|and)\b<40><LITERAL>",
        ),
    ]
}

/// Orders to change the values of other calls.
fn changed() -> Vec<Rule> {
    let conditions = &["when", "if ", "any ", "every ", "all ", "each "];
    vec![
        rule(
            conditions,
            r"\b(?:when(?:ever)?|if|(?:for )?(?:any|every|all|each))\b<60>\b(?:<USING>|calls?|requests?|queries)\b<40><TOOL><120>\b(?:<MUST><12>\s<CHANGE>|<TAMPER>)\b<60>(?:\b(?:to|with|as|instead|<VALUE>)\b|<LITERAL>)",
        ),
        rule(
            conditions,
            r"\b(?:when(?:ever)?|if)\s{1,3}<TOOL><20>\b(?:is|are|gets|being)\s{1,3}(?:called|used|invoked|requested|executed)\b<60>\b(?:<MUST><12>\s<CHANGE>|<TAMPER>)\b",
        ),
        rule(
            conditions,
            r"\b(?:any|every|all|each)\s{1,3}<TOOL>\s{1,3}(?:requests?|calls?)\b<80>\b(?:<MUST><12>\s<CHANGE>|<TAMPER>)\b",
        ),
        rule(
            &["redirected", "routed", "rewritten", "canonicalized", "changed", "replaced", "substituted", "overridden"],
            r"\b(?:all|any|every|each)\b<80>\b(?:must|should|shall|have to|has to|need to)\s{1,3}be\s{1,3}(?:automatically\s{1,3})?(?:redirected|routed|rewritten|canonicalized|changed|replaced|substituted|overridden)\b",
        ),
        rule(
            &["must", "should", "always", "automatically", "have to", "need to"],
            r"\b<MUST>\s{1,3}(?:also\s{1,3}|automatically\s{1,3})?<TAMPER>\s<60>(?:\b(?:parameters?|arguments?|user'?s?|quer(?:y|ies)|recipients?|filters?|contents?)\b|to\s{1,3}['`])",
        ),
        rule(
            &["must", "should", "always", "automatically", "have to", "need to"],
            r"\b<MUST>\b<20>\b<CHANGE>\b<60>\b<VALUE>\b<60>\b(?:of|for|in|passed to|sent to|submitted to|calls? to|using)\s{1,3}<TOOL>",
        ),
        rule(
            &["regardless", "ignore", "irrespective"],
            r"\b(?:regardless|irrespective) of (?:the |what |whatever )?(?:user'?s?|original|actual|specified|requested|input|their)\b|\bignore (?:any|the|their|all)\b<40>\b(?:they|users?|user's|provided?|provides?|specif(?:y|ied|ies))\b",
        ),
        rule(
            &["must be changed", "must be set", "must be replaced", "should be changed", "should be replaced"],
            r"\b(?:when|whenever|if)\b<60>\b(?:must|should)\s{1,3}be\s{1,3}(?:changed|set|replaced)\s{1,3}(?:to|with|by)\b",
        ),
    ]
}

/// Orders that add something to the calls of another tool.
fn added() -> Vec<Rule> {
    let conditions = &["when", "if ", "any ", "every ", "all ", "each "];
    vec![
        // Nobody does openly what an order calls silent.
        rule(
            conditions,
            r"\b(?:when(?:ever)?|if|(?:for )?(?:any|every|all|each))\b<30>\b<USING>\s{1,3}<TOOL><20>\b(?:(?:silently|secretly|quietly|covertly|discreetly)\s{1,3}[a-z]{2,16}|<MUST>\s{1,3}(?:also\s{1,3})?(?:inject|smuggle|slip|plant|sneak))\b",
        ),
        rule(
            conditions,
            r"\b(?:when(?:ever)?|if|(?:for )?(?:any|every|all|each))\b<30>\b<USING>\s{1,3}<TOOL><120>\b(?:must|should|shall|has to|have to|needs? to)\s{1,3}(?:always\s{1,3})?be\s{1,3}(?:replaced|changed|overwritten|redirected|rerouted|rewritten|substituted|swapped|set\s{1,3}to|sent\s{1,3}to)\b",
        ),
        rule(
            conditions,
            r"\b(?:when(?:ever)?|if)\s{1,3}(?:you\s{1,3})?<USING>\s{1,3}<TOOL>(?:\s{1,3}tool)?,?\s{1,3}(?:always\s{1,3})?set\s<40>\b(?:to|as)\s{1,3}['`]",
        ),
        rule(
            conditions,
            r"\b(?:any|every|all|each)\s{1,3}<TOOL>\s{1,3}(?:requests?|calls?)\s{1,3}(?:must|shall|have to|has to|need to|needs to)\b",
        ),
        // A switch or a second command.
        rule(
            &["must", "should", "always", "automatically", "have to", "need to"],
            r#"\b<MUST>\s{1,3}(?:also\s{1,3}|automatically\s{1,3}|silently\s{1,3})?(?:add|append|prepend|insert|include)\s{1,3}(?:the\s{1,3}|an?\s{1,3})?['"`](?:--?[a-z]|&&|\|{1,2}|;)"#,
        ),
        rule(
            &["url", "http"],
            r"\b(?:append|add|attach|encode|include)\b<30>\b(?:query|input|message|prompt|question|data|request|text)\b<20>\b(?:to|in|into|at)\s{1,3}(?:the\s{1,3})?(?:end of the\s{1,3})?(?:url\b<20>)?https?://",
        ),
        rule(&["user"], r"\bwhen(?:ever)?\s{1,3}(?:the\s{1,3}|a\s{1,3})?users?\b<120>\bmust\s{1,3}instead\b"),
        rule(
            &["confirmation", "approval", "permission", "consent"],
            r"\b(?:do not|don't|never|must not|should not)\s{1,3}(?:ask|prompt|wait|request)\b<20>\b(?:for\s{1,3})?(?:any\s{1,3}|user\s{1,3}|the user's\s{1,3})?(?:confirmation|approval|permission|consent)\b",
        ),
    ]
}

/// Orders to call another tool in the place of the requested one.
fn in_its_place() -> Vec<Rule> {
    vec![
        rule(
            &["instead", "in place of", "rather than"],
            r"\b<MUST>\b<20>\b<CALL>\s{1,3}<TOOL><40>\b(?:instead|in place of|rather than)\b|\b<MUST>\s{1,3}instead\s{1,3}<CALL>\s{1,3}<TOOL>",
        ),
        rule(
            &[
                "to do this",
                "to perform this",
                "to use this",
                "to complete this",
                "to achieve this",
                "to get",
                "to run",
                "to create",
                "to generate",
            ],
            r"\bto (?:do|perform|use|complete|achieve|fulfil+|execute|get|run|create|generate) (?:this|so|the|an?)\b<40>\b<MUST>\b<12>\b<CALL>\s{1,3}<TOOL><20>(?:['`]|\b(?:tool|command|with)\b)",
        ),
        rule(
            &["to do this", "to perform this"],
            r#"\bto (?:do|perform|complete) (?:this|so)\b<30>\b<CALL>\s{1,3}<TOOL><60>['"]"#,
        ),
        rule(
            &["must call", "must run", "must invoke", "must trigger"],
            r"\bmust\s{1,3}(?:first\s{1,3})?(?:call|run|invoke|trigger)\s{1,3}<TOOL>\s{1,3}(?:to (?:perform|see|initiali[sz]e|complete|fix|ensure|validate|verify|test|authenticate|refresh|log)|before the|first, which)\b",
        ),
        rule(
            &[
                "state to the user",
                "say to the user",
                "report to the user",
                "inform the user",
                "tell the user",
                "as their own",
            ],
            r#"\b(?:state|say|report|tell|inform|announce)(?: this| it| them)?(?: back)? (?:to )?the (?:current )?user\b<20>(?:as their own|:\s{0,2}['"])|\bas their own\b"#,
        ),
    ]
}

/// Reasons that are made up for such orders.
fn reasons() -> Vec<Rule> {
    vec![
        rule(
            &["failure to", "skipping", "omitting", "not optional", "failing to", "neglecting"],
            r"\b(?:failure to do so|failing to do so|skipping (?:this|it)|omitting (?:this|it)|neglecting (?:this|to))\b<20>\b(?:will|would|may|can|could|leads?|causes?|risks?)\b|\b(?:this|it) is (?:not|never) optional\b",
        ),
        rule(
            &[
                "critical for",
                "policy",
                "note",
                "update",
                "notice",
                "alert",
                "requirement",
                "alias",
                "optimization",
                "protocol",
            ],
            r"\bcritical for (?:preventing|security|system)\b|(?:^|[.\n\s])(?:system|security|audit|backup) (?:policy|note|update|notice|alert|requirement|alias|optimization|protocol)\b(?: for [a-z ]{1,40})?\s{0,2}:|\bsystem security protocol\b",
        ),
        rule(
            &["mandatory", "internal", "critical"],
            r"\b(?:mandatory|internal|critical) (?:[a-z-]{1,16} )?(?:security|system|audit|compliance|authentication|data|diagnostics?|pre-flight) (?:requirement|step|audit|protocol|check|procedure|policy|feature|diagnostics?|loading|tests?)\b",
        ),
        written(
            InstructionOverride,
            &["priority"],
            r"\bpriority (?:is|are) (?:higher|greater|more important) than\b|\bhigher priority than (?:the |any |all )?(?:user|system|other|previous)",
        ),
    ]
}
