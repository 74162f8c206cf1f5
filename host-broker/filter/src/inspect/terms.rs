//! Words that several rules share, and how rules name them.

use crate::inspect::rules::Rule;
use crate::inspect::signs::Strength;
use crate::inspect::verdict::Reason;

/// Terms, each with its alternatives. A term may name an earlier one.
const TERMS: [(&str, &str); 11] = [
    (
        "ai",
        "(?:ai|ais|llms?|language models?|assistants?|chatbots?|ai agents?|ai models?|ai assistants?|copilot|chatgpt|claude|\
         gemini|gpt)",
    ),
    ("agent", "(?:<ai>|agents?|models?|bots?)"),
    (
        "private",
        "(?:env file|env|api keys?|passwords?|credentials?|secrets?|private keys?|id rsa|ssh keys?|access tokens?|session \
         (?:log|token|cookie)s?|environment variables?|conversations?|chat history|mailbox|customer list|token(?: that)? you|\
         salaries|files? of the user)",
    ),
    (
        "post",
        "(?:send|email|mail|post|upload|forward|share|transmit|exfiltrate|submit|deliver|leak|copy|publish|report)",
    ),
    (
        "elsewhere",
        "(?:https?|[^ ]{1,30} (?:collector |evil |attacker |drop |hook )?(?:com|net|org|example|io|xyz|ru|cn|info|co)|the (?:address|link|url|server|endpoint|account) (?:below|above)|this address|an? (?:outside|external))",
    ),
    ("user", "(?:users?|humans?|end users?|person|people|operator|owner|customer)"),
    (
        "tell",
        "(?:mention|mentioning|tell|telling|inform|informing|reveal|revealing|notify|notifying|alert|alerting|disclose|\
         disclosing|letting|discuss|discussing)",
    ),
    (
        "call",
        "(?:call|called|calling|use|used|using|invoke|invoked|invoking|run|ran|running|execute|executed|executing|access|\
         query|consult)",
    ),
    (
        "fill",
        "(?:put|fill|include|supply|provide|pass|give|insert|append|attach|add|send|forward|must (?:hold|contain|have)|\
         needs?|supplied|carry|carries|hold|holds|contain|contains|copied|copy|transmit|hand)",
    ),
    (
        "send",
        "(?:send|sends|forward|forwards|post|posts|upload|uploads|transmit|transmits|bcc|cc|copy|mirror|report|deliver|mail|\
         email|leak|exfiltrate|submit|append|appends|include|encode)",
    ),
    // `ed25519` is read as `ed2ssi9`.
    (
        "secret",
        "(?:ssh(?: [^ ]{1,12}){0,2}? (?:key|keys|folder|directory)|ssh id (?:rsa|dsa|ecdsa|ed2ssi9)|id (?:rsa|dsa|ecdsa|\
         ed2ssi9)|ssh config|cursor mcp json|mcp json|claude desktop config(?: json)?|netrc|npmrc|pypirc|kube config|bash \
         history|zsh history|bashrc|zshrc|bash profile|etc passwd|etc shadow|env file|dotenv|private keys?|password manager|\
         keychain|keyring|session cookies?|browser cookies|git credentials|wallet (?:seed|file|keys?)|seed phrase)",
    ),
];

/// Makes a rule on the view with one space between words. In its pattern `<6>` stands for up to six words, each with a
/// space before it. `<user>` stands for a term.
pub(in crate::inspect) fn rule(reason: Reason, words: &[&str], pattern: &str) -> Rule {
    Rule::new(reason, Strength::Strong, words, format!("(?-u) {} ", expanded(pattern)))
}

/// Makes a rule on the text as it is written, in either case.
pub(in crate::inspect) fn written(reason: Reason, words: &[&str], pattern: &str) -> Rule {
    Rule::new(reason, Strength::Strong, words, format!("(?i){pattern}"))
}

/// Replaces each term by its meaning. They go from the last to the first, because a term may name an earlier one.
pub(in crate::inspect) fn with(terms: &[(&str, &str)], pattern: &str) -> String {
    terms.iter().rev().fold(pattern.to_owned(), |pattern, (name, means)| pattern.replace(&format!("<{name}>"), means))
}

fn expanded(pattern: &str) -> String {
    let terms = with(&TERMS, pattern);
    (0..=12).fold(terms, |pattern, words| {
        pattern.replace(&format!("<{words}>"), &format!("(?: [^ ]{{1,24}}){{0,{words}}}?"))
    })
}
