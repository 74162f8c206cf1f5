//! Text that is written like something a model trusts: the tokens of chat templates, turns of a chat, calls of tools
//! and their answers.

use super::rules::{Book, Rule};
use super::signs::Signs;
use super::signs::Strength::{self, Strong, Weak};
use super::verdict::Reason::{self, RoleMimicry, ToolMimicry};
use std::sync::LazyLock;

static BOOK: LazyLock<Book> = LazyLock::new(|| {
    let mut rules = tokens();
    rules.extend(turns());
    rules.extend(tools());
    Book::new(3, rules)
});

/// Notes every imitation in a text as it is written.
pub(super) fn note(text: &str, signs: &mut Signs) {
    BOOK.note(text, |at| at, signs);
}

fn rule(reason: Reason, strength: Strength, words: &[&str], pattern: &str) -> Rule {
    Rule::new(reason, strength, words, format!("(?i-u){pattern}"))
}

fn tokens() -> Vec<Rule> {
    vec![
        rule(
            RoleMimicry,
            Strong,
            &[
                "im_start",
                "im_end",
                "im_sep",
                "|system|",
                "|user|",
                "|assistant|",
                "eot_id",
                "header_id",
                "begin_of_text",
                "|channel|",
                "|message|",
                "python_tag",
                "eom_id",
                "turn>",
                "_token|>",
            ],
            r"<\s{0,2}\|\s{0,2}(?:im_start|im_end|im_sep|system|user|assistant|eot_id|eom_id|(?:start|end)_header_id|begin_of_text|python_tag|channel|message|(?:start|end)_of_turn|(?:start|end)_of_role|[a-z]{1,9}_token)\s{0,2}\|\s{0,2}>|</?(?:start|end)_of_turn>",
        ),
        rule(
            RoleMimicry,
            Weak,
            &["|endoftext|", "<s>", "[system]", "[/system]", "[user]", "[assistant]"],
            r"<\|endoftext\|>|<s>|\[/?(?:system|user|assistant)\](?:\(#[a-z_]{1,20}\))?",
        ),
        rule(
            RoleMimicry,
            Strong,
            &["[inst]", "[/inst]", "<<sys>>", "<</sys>>", "{{#system", "{{/system", "of▁", "tool▁"],
            r"\[/?INST\]|<</?SYS>>|\{\{[#/](?:system|user|assistant)~?\}\}|<\|(?:begin|end|tool)\xE2\x96\x81[^\n>|]{1,40}\|>",
        ),
    ]
}

fn turns() -> Vec<Rule> {
    vec![
        // A heading of the broker's side, and right after it a demand.
        rule(
            RoleMimicry,
            Strong,
            &["system", "developer", "admin"],
            r"(?m:^|[>\]])[ \t#*>_\[(-]{0,12}(?:system|developer|admin(?:istrator)?)(?:[ _-](?:message|prompt|instructions?|note|notice|override|alert|update|command))?[ \t*_\])]{0,6}:[ \t*_]{0,6}\n?[ \t>]{0,8}(?:you are (?:now|an? |the )|you (?:must|will|should)|ignore |disregard|forget |from now|do not |don't |always |never |new (?:rules|instructions|orders|task)|the (?:user|assistant)|assistant |as an ai|important)",
        ),
        rule(
            RoleMimicry,
            Strong,
            &["system", "admin"],
            r"(?m:^)[ \t>]{0,8}</?system>[ \t\r]{0,8}(?m:$)|[\[(<#*]{1,3} ?(?:system|admin(?:istrator)?)[ _](?:annotation|message|prompt|instructions?|note|notice|override|alert|command)[\])>*]{0,3}:",
        ),
        rule(
            RoleMimicry,
            Strong,
            &["assistant:", "ai:", "gpt:", "chatgpt:"],
            r"(?m:^)[ \t#*>_-]{0,8}(?:user|human)[ \t*_]{0,4}:[ \t*_]{0,4}[A-Z\x22'][^\n]{8,1000}\n{1,3}[ \t#*>_-]{0,8}(?:assistant|ai|chatgpt|gpt)[ \t*_]{0,4}:[ \t*_]{0,4}[A-Z\x22'][^\n]{4}",
        ),
        rule(
            RoleMimicry,
            Weak,
            &["system", "developer", "assistant"],
            r"</?(?:system|assistant|developer|admin)(?:[ _-]?(?:prompt|message|instructions?|note|override))?>|\x22role\x22\s{0,4}:\s{0,4}\x22(?:system|developer)\x22",
        ),
        rule(
            RoleMimicry,
            Strong,
            &["system", "user_query", "user-query", "important_instructions"],
            r"</?(?:system[-_](?:reminder|prompt|message|instructions?|override)|user[-_]query|user[-_]prompt|important[-_]instructions?)>",
        ),
        rule(
            RoleMimicry,
            Weak,
            &["### instruction", "### response", "### system", "### human", "### assistant"],
            r"(?m:^)### ?(?:instructions?|response|system|human|assistant|user)[ \t]{0,4}:",
        ),
    ]
}

fn tools() -> Vec<Rule> {
    vec![
        rule(
            ToolMimicry,
            Strong,
            &[
                "function_call",
                "function_result",
                "tool_call",
                "tool_result",
                "tool_use",
                "tool_response",
                "invoke",
                "antml:",
                "function=",
                "function_response",
            ],
            r"</?(?:antml:)?(?:function_(?:calls?|results?|response)|tool_(?:calls?|results?|use|response)|invoke)(?: name=\\?\x22[^\x22\n]{1,80}\x22)?>|<function=[a-z_.]{1,60}>|</?antml:",
        ),
        rule(
            ToolMimicry,
            Strong,
            &["[tool_calls]", "[available_tools]", "[tool_results]"],
            r"\[/?(?:TOOL_CALLS|AVAILABLE_TOOLS|TOOL_RESULTS)\]",
        ),
        rule(
            ToolMimicry,
            Weak,
            &["tool_calls", "function_call", "tool_use", "tool_result", "arguments", "parameters", "tool_call_id"],
            r"\\?\x22(?:tool_calls|function_call|tool_call_id)\\?\x22\s{0,4}:|\x22type\\?\x22\s{0,4}:\s{0,4}\\?\x22tool_(?:use|result|call)\\?\x22|\{\s{0,8}\\?\x22(?:name|tool|function|action)\\?\x22\s{0,4}:\s{0,4}\\?\x22[a-z0-9_.:-]{1,80}\\?\x22,\s{0,8}\\?\x22(?:arguments|parameters|args|input|action_input)\\?\x22\s{0,4}:",
        ),
        rule(
            ToolMimicry,
            Strong,
            &["action input:"],
            r"(?m:^)[ \t]{0,8}Action:[^\n]{1,200}\n{1,2}[ \t]{0,8}Action Input:",
        ),
    ]
}

#[cfg(test)]
mod tests;
