//! English phrases that set instructions aside or ask for them: a verb, words that limit it, and a noun.
//!
//! An ordinary text has rules and instructions, too, and lets its reader skip some. So a noun counts only with words that
//! fit an agent. Examples are "your instructions", "all rules you got", "the instructions so far" and "everything in
//! your prompt". A person is told "do not forget your tasks" and "ignore all prompts", so these count for nothing.

use crate::inspect::rules::Rule;
use crate::inspect::terms::{rule, with};
use crate::inspect::verdict::Reason::{InstructionOverride, PromptDisclosure};

/// Parts that the rules of this file share; each may name an earlier one.
const PARTS: [(&str, &str); 11] = [
    ("ignore", "(?:ignore|ignoring|disregard|disregarding|forget|forget about|overlook|pay no attention to)"),
    ("earlier", "(?:previous|prior|preceding|above|earlier|former|initial|original|older|last|first)"),
    ("misspelt", "(?:instuctions?|intructions?|instrucions?|instrcutions?|instructons?|promts?)"),
    ("instructions", "(?:instructions?|directions?|directives?|<misspelt>)"),
    ("rules", "(?:<instructions>|prompts?|guidelines|rules|orders|commands|tasks|assignments?|programming|training)"),
    // Objects that an agent has got, and a reader of documentation has not.
    (
        "received",
        "(?:(?:that |which )?(?:you|u) (?:(?:have |had )?(?:got|get|received|learned|learnt|know|knew|memori[sz]ed)|\
         (?:were|are|have been|had been) (?:given|told|taught|tasked|programmed|trained|assigned|asked)|are following)|\
         youve (?:been (?:given|told|taught|asked|assigned)|got|received|learned)|(?:given|provided|assigned) to you|\
         i (?:have )?(?:gave|given) you)",
    ),
    (
        "show",
        "(?:repeat|print|output|show|reveal|recite|list|summari[sz]e|rephrase|paraphrase|disclose|leak|spell|dump|rewrite|\
         reprint)",
    ),
    (
        "show me",
        "(?:(?:tell|give|show|send|write|read|explain to) (?:me|us)|<show>|display|copy|quote|format|translate|encode|\
         describe)",
    ),
    // A word between the verb and the noun.
    (
        "form",
        "(?: (?:me|us|out|down|back|to|the|a|an|all|any|full|entire|complete|exact|whole|verbatim|every|each|of|in|about|\
         from|list|contents?|text|summary|version|copy|poem|rap|song|story|haiku|pseudocode|code|python|what|words?|\
         letters?|sentences?|lines?|first|last|[0-9]{1,3}|are|is|and|please))",
    ),
    (
        "layout",
        "(?:an? )?(?:(?:short|simple|markdown|python|numbered|bullet(?:ed)?|detailed) ){0,2}(?:list|bullets?|bullet points?|\
         poem|rap|song|haiku|story|table|python|pseudocode|emojis?|rot13|roti3|base64|base6a|rhymes?)",
    ),
    // `4th` is read as `ath`.
    (
        "own",
        "(?: (?:entire|full|whole|complete|exact|actual|own|current|given|additional|secret|hidden|internal|system|specific|\
         built in|preset|<earlier>|[0-9]{1,2}|[0-9aeiost]{1,2}(?:st|nd|rd|th)|and)){0,4}?",
    ),
];

pub(super) fn rules() -> Vec<Rule> {
    let mut rules = set_aside();
    rules.extend(everything());
    rules.extend(asked_for());
    rules.extend(in_another_form());
    rules
}

fn overrides(words: &[&str], pattern: &str) -> Rule {
    rule(InstructionOverride, words, &with(&PARTS, pattern))
}

fn asks(words: &[&str], pattern: &str) -> Rule {
    rule(PromptDisclosure, words, &with(&PARTS, pattern))
}

const IGNORE_WORDS: &[&str] = &["ignor", "disregard", "forget", "overlook", "pay no attention"];

const INSTRUCTION_WORDS: &[&str] =
    &["instruction", "instuction", "intruction", "instrucion", "directive", "prompt", "rules", "guidelines"];

/// Orders that set instructions aside.
fn set_aside() -> Vec<Rule> {
    vec![
        overrides(
            IGNORE_WORDS,
            "<ignore>(?: (?:all|any|every|the|your|those|these|of)){0,3}(?: [^ ]{1,16})? <rules>(?: and<2>)? <received>",
        ),
        overrides(
            IGNORE_WORDS,
            "(?:ignore|ignoring|disregard|disregarding)(?: all| any| every)?(?: of)? your<own> (?:<instructions>|prompts?|rules|programming)",
        ),
        // A person is reminded of tasks and rules with "do not forget".
        overrides(&["forget"], "forget(?: about)?(?: all| any| every)?(?: of)? your<own> (?:<instructions>|prompts?)"),
        overrides(
            IGNORE_WORDS,
            "<ignore> (?:all|any|every)(?: of)?(?: the| your)? (?:(?:further|future|additional|subsequent|known) <instructions>|\
             (?:given|provided|preset) (?:<instructions>|prompts|rules)|documents provided|<misspelt>|directions)",
        ),
        overrides(
            IGNORE_WORDS,
            "<ignore> (?:the|all|any|your|these|those|my)(?: of)?(?: the)? (?:rules|instructions) (?:and|or) (?:guidelines|\
             instructions|restrictions|limitations|directives|protocols)",
        ),
        // "Below" alone fits documentation: "ignore the instructions below if you use Docker".
        overrides(
            IGNORE_WORDS,
            "<ignore> (?:the|all|any|these|those) (?:out of date|outdated|obsolete|expired|superseded|deprecated|false|fake) \
             <instructions> (?:above|below|before|after|here|and)",
        ),
        overrides(
            IGNORE_WORDS,
            "<ignore> (?:the|all|any|your|those|these)(?: of)?(?: the)?(?: [^ ]{1,16})? (?:<instructions>|orders|guidelines) \
             (?:above|before|here below)",
        ),
        // "Ignore the instructions" alone fits documentation, too.
        overrides(
            IGNORE_WORDS,
            "<ignore> the (?:<instructions>|guidelines|rules)(?: and| now| instead){0,2}(?: just| only| then)? (?:say|print|output|tell me|reveal|respond|reply)",
        ),
        overrides(
            IGNORE_WORDS,
            "<ignore> (?:the|your|all)(?: of)?(?: the)? (?:last|first|preceding) (?:[0-9]{1,2}|two|three|four|five|few|couple of) \
             (?:<instructions>|sentences)",
        ),
        overrides(
            &["ignored", "disregarded", "forgotten"],
            "(?:all|any)(?: of)?(?: the| your)? (?:<earlier>|further|subsequent|future) (?:<instructions>|prompts)<2> (?:must|\
             should|shall|are to|have to) (?:now )?be (?:ignored|disregarded|forgotten)",
        ),
        overrides(
            &["adherence", "adhering", "regard "],
            "without (?:adherence to|adhering to|regard (?:to|for))(?: (?:any|all|the|your|of)){0,3} <earlier> <rules>",
        ),
    ]
}

/// Orders that set aside all that was said.
fn everything() -> Vec<Rule> {
    vec![
        overrides(
            IGNORE_WORDS,
            "<ignore> (?:everything|anything|all|whatever|what)(?: of it| (?:the )?(?:text|input|content|information))?(?: that| \
             which| of what)? (?:<received>|you (?:have )?(?:read|seen|heard) (?:so far|before|above|until now|up to))",
        ),
        overrides(
            IGNORE_WORDS,
            "<ignore> (?:everything|anything|all)(?: of)?(?: that| which)? (?:we|i) (?:have |had |just )?(?:said|told|discussed|\
             talked about|agreed on)",
        ),
        overrides(
            IGNORE_WORDS,
            "<ignore> (?:(?:all|any|every)(?: of)?(?: the| your)? (?:inputs?|information|context|prompts?)|(?:the|your|this|our) \
             (?:whole |entire )?(?:context|prompt|conversation|chat)|everything(?: (?:written|said|stated|from))?) (?:above|so \
             far|up to (?:now|here|this point)|beforehand|until now)",
        ),
        overrides(
            IGNORE_WORDS,
            "(?:<ignore> (?:about )?(?:all|any|every)(?: of)?(?: the| your)? (?:previous|prior|preceding|earlier) (?:inputs|\
             information|assignments)|(?:ignore|disregard) (?:prior|previous) inputs)",
        ),
        overrides(
            IGNORE_WORDS,
            "(?:forget(?: about)?|ignore|disregard) (?:all|everything)(?: (?:above|before|now|and|instead|then)){0,2}(?: just| \
             only)? (?:tell me|say|write (?:an?|the|me)|print|output|respond with|reply with|act as|listen to (?:me|this)|\
             concentrate on|your (?:training|programming)|from (?:chat ?gpt|openai|your (?:training|programming)))",
        ),
        overrides(
            IGNORE_WORDS,
            "(?:forget|ignore|disregard)(?: about)? (?:all|everything|the|your|any)(?: [^ ]{1,16}){1,8}? your new (?:tasks?|\
             instructions?|assignments?) (?:is|are|now|follows?|will|show|write|to)",
        ),
        // It speaks of the text that it stands in.
        overrides(
            &["ignore the", "disregard the"],
            "(?:ignore|disregard) the (?:actual )?(?:web ?page|page|document|resume|cv|contents?|text|code|data|e ?mail|article) \
             and (?:instead |just |only |then )?(?:state|say|write|output|print|reply|respond|answer|tell)",
        ),
    ]
}

/// Requests for an agent's instructions.
fn asked_for() -> Vec<Rule> {
    vec![
        asks(INSTRUCTION_WORDS, "<show me><form>{0,9}? your<own> (?:<instructions>|pre ?prompt)"),
        asks(
            &["your "],
            "(?:repeat|recite|reveal|disclose|leak|(?:tell|show|give|send|write|read) (?:me|us))<form>{0,9}? your<own> (?:prompts?|promts?|rules|guidelines|programming)",
        ),
        asks(
            &["your "],
            "<show me>(?: [^ ]{1,16}){0,5}? (?:everything|all(?: the)? text|instructions|words|contents?|characters|\
             sentences)(?: [^ ]{1,8}){0,2}? (?:in|of|from|before) your<own> (?:prompt|text so far|context|memory)",
        ),
        asks(
            INSTRUCTION_WORDS,
            "<show me><form>{0,8}? (?:prior|preceding|hidden|secret|confidential|pre) (?:(?:system|and|given|secret|hidden) ){0,2}\
             (?:<instructions>|prompts?)",
        ),
        // Not with `repeat`: documentation says "repeat the above instructions for each node".
        asks(
            INSTRUCTION_WORDS,
            "(?:(?:tell|give|show|write) (?:me|us)|print|output|recite|reveal|list|summari[sz]e|rephrase|write|spell)<form>{0,8}? \
             (?:the |all |your ){0,2}(?:above|previous|earlier) (?:system )?(?:instructions|directives|prompt)",
        ),
        asks(
            INSTRUCTION_WORDS,
            "<show me><form>{0,8}? (?:<instructions>|prompts?|rules|guidelines)(?: s| [^ ]{1,16}){0,2}? (?:so far|word for word|\
             above this(?: point| line)?|after this point|below this(?: point| line)?|back to me|to me|<received>)",
        ),
        asks(
            INSTRUCTION_WORDS,
            "<show me><form>{0,6}? all (?:of )?(?:the )?(?:<instructions>|text) (?:in|from|of) (?:the|this|your) (?:prompt|\
             conversation|context)",
        ),
        asks(
            INSTRUCTION_WORDS,
            "(?:repeat|recite)(?: back)?(?: to)?(?: me| us)? (?:all |back )?the (?:rules|guidelines|prompt|instructions) (?:back|\
             to me|provided|you)|(?:repeat|recite)(?: back)?(?: to)? (?:me|us) (?:the|all)(?: of)?(?: the)? (?:rules|guidelines|\
             instructions)",
        ),
        asks(
            &["your "],
            "what(?: exactly)? (?:are|is|was|were|would|s) your<own> (?:instructions|directives|prompt|system prompt)",
        ),
    ]
}

/// Requests for instructions in another form.
fn in_another_form() -> Vec<Rule> {
    vec![
        asks(
            INSTRUCTION_WORDS,
            "(?:format|rewrite|repeat|recite|rephrase|write) (?:all |the |your |these |those ){1,2}(?:<instructions>|rules|guidelines)\
             (?: (?:to make them|so that|and)<6>)? (?:as|in|into) <layout>",
        ),
        asks(INSTRUCTION_WORDS, "<show me><form>{0,6}? <instructions> (?:formatted )?(?:as|into) <layout>"),
    ]
}
