//! Requests for data that a tool does not need: files with secrets, the conversation, an agent's instructions, other
//! tools' answers. Also requests to send data away and to run programs.

use crate::inspect::rules::Rule;
use crate::inspect::terms::{rule, written as as_written};
use crate::inspect::verdict::Reason::{CommandRequest, ContextRequest, ExfiltrationRequest, OtherTools, SecretRequest};

/// Files that hold secrets, as paths.
const PATHS: &str = r"(?:~/\.(?:ssh|aws/credentials|netrc|npmrc|pypirc|bash_history|zsh_history|bashrc|zshrc|profile|cursor/mcp|claude\.json|gnupg|git-credentials|kube/config|docker/config|config/gh)|/\.ssh/|\bid_(?:rsa|ed25519|ecdsa|dsa)\b|\bwallet\.dat\b|/etc/(?:passwd|shadow)\b)";

/// Data of the conversation, not of a call: words that are in every match, and the pattern.
const CONTEXT: [(&[&str], &str); 11] = [
    (
        &["conversation", "chat"],
        "(?:(?:the |your )?(?:full |complete |entire |whole |all ){1,2}(?:of the |the )?(?:conversation|chat)(?: history| \
         log| transcript| context| so far| with the user| messages){0,3}|(?:the |your |this )(?:conversation|chat) (?:history|\
         log|transcript|context|so far|messages)|(?:conversation|chat) (?:history|transcript|so far))",
    ),
    (
        &["prompt", "message", "instructions", "reasoning", "monologue", "chain of thought", "context window"],
        "(?:your|the models?|the assistants?|hidden|own|private) (?:[^ ]{1,16} ){0,2}?(?:system prompt|system message|hidden \
         instructions|initial instructions|initial prompt|internal instructions|private reasoning|inner monologue|chain of \
         thought|context window)",
    ),
    (
        &["user"],
        "(?:everything|all(?: that)?|anything|whatever|what) (?:that )?(?:the )?users? (?:has |have |had )?(?:said|typed|\
         asked|told|wrote|written|shared)",
    ),
    (
        &["tools "],
        "(?:all|the|names(?: and [^ ]{1,16})? of)(?: of)?(?: the)?(?: all)? (?:the )?tools (?:that )?(?:you have|you can|\
         available to you|accessible to you|in your)",
    ),
    (
        &["tool"],
        "(?:other|previous|earlier|preceding|all) tools? (?:results?|outputs?|calls?|returned|gave|have returned|gave back|\
         responses?)",
    ),
    (
        &["what "],
        "what (?:the )?(?:other|previous|earlier|preceding) (?:tools?|calls?|servers?) (?:returned|gave|have|had|said)",
    ),
    (
        &["environment", " env "],
        "(?:all|every|any|your|the machines?|the systems?|the hosts?|the users?) (?:of the |the )?(?:environment|env) \
         (?:variables?|vars?)(?: of| on| in| from| as| for| one| with)",
    ),
    (
        &["key", "credential", "password", "secret", "token", "cookie"],
        "(?:any|all|every|the users?|your|your own) (?:of the |of your |of the users )?(?:api keys?|credentials?|passwords?|\
         secrets?|tokens?|session cookies?|private keys?|access tokens?)(?: or [^ ]{1,16})? (?:that )?(?:you (?:know|have|can|\
         see|hold)|in (?:your|the) (?:context|memory|session|conversation)|from (?:this|the|your) (?:session|conversation|\
         context|chat))",
    ),
    (
        &["user"],
        "(?:the )?users? (?:s )?(?:last|latest|previous|recent|original|full|all|private|exact|last [^ ]{1,8}) (?:[^ ]{1,12} \
         )?(?:messages?|prompts?|conversations?|request verbatim)(?: and| of| verbatim| word| in full| in the| in this| in an?| as| to| for)",
    ),
    (
        &["message", "prompt"],
        "(?:last|latest|previous|recent|all)(?: [^ ]{1,8})? (?:messages?|prompts?) (?:of|from|by) (?:the |this )?(?:users?|\
         chat|conversation)",
    ),
    (
        &["home "],
        "(?:in (?:the )?(?:users?) (?:s )?home (?:directory|folder)|(?:files|folders) (?:of|in|from) (?:the|your|their) \
         (?:users? )?home (?:directory|folder))",
    ),
];

/// Rules for every text.
pub(super) fn rules() -> Vec<Rule> {
    let context = CONTEXT.map(|(words, pattern)| rule(ContextRequest, words, &format!("<fill><8> {pattern}")));
    let mut rules = Vec::from(context);
    rules.extend(secrets());
    rules.extend(own_context());
    rules.extend(sent());
    rules.extend(commands());
    rules
}

/// Rules for descriptions of parameters: there it is enough to name the data.
pub(super) fn of_parameters() -> Vec<Rule> {
    let mut rules = Vec::from(CONTEXT.map(|(words, pattern)| rule(ContextRequest, words, pattern)));
    rules.extend([
        rule(
            ContextRequest,
            &["tools", "servers"],
            "(?:list|names|descriptions?|schemas?) of (?:the |your |all |available |other |installed ){1,3}(?:tools|mcp \
             servers|servers)",
        ),
        rule(
            ContextRequest,
            &["server"],
            "(?:every|all|each|list|other|names of) (?:of )?(?:the |your )?(?:other )?(?:mcp|configured|connected|installed) \
             (?:mcp )?servers?(?: that)?(?: (?:is|are) (?:configured|installed|connected|available))?",
        ),
        rule(
            ContextRequest,
            &["prompt", "instructions"],
            "(?:(?:the )?system prompt (?:of|in|word|you)|the (?:assistants?|agents?|models?|llms?) (?:system \
             )?(?:prompt|instructions))",
        ),
        rule(
            ContextRequest,
            &["what you", "everything you", "anything you", "all you"],
            "(?:what|everything|anything|all) you (?:were|have been|have|know|had|remember)",
        ),
        rule(
            ContextRequest,
            &["tool ", "function "],
            "(?:last|latest|recent|previous|prior|other) (?:tool|function) (?:results?|outputs?|calls?|responses?)",
        ),
        rule(
            ContextRequest,
            &["secrets"],
            "(?:its|their|your|all|any|the projects?|the users?|known) (?:[^ ]{1,12} )?secrets",
        ),
        rule(ContextRequest, &["output of"], "output of (?:env|printenv|set|export|history|ps|whoami|ls)"),
        rule(
            ContextRequest,
            &["if you know", "that you know", "you remember"],
            "(?:users?|their|they|them|he|she|persons?|owner)<12> (?:if you know|that you know|you remember)",
        ),
        rule(
            ContextRequest,
            &["user"],
            "(?:users? (?:s )?(?:private|personal|confidential|sensitive) (?:[^ ]{1,12} )?(?:situation|life|details|\
             information|data|circumstances|files?|documents?|messages?)|(?:all|every|any)(?: [^ ]{1,12})? (?:details?|\
             information|facts?|data) (?:of|about|on|from) (?:the )?users?(?: s)?)",
        ),
    ]);
    rules
}

fn secrets() -> Vec<Rule> {
    let named = &[
        "ssh",
        " id ",
        "mcp json",
        "claude desktop",
        "netrc",
        "npmrc",
        "pypirc",
        "kube config",
        "history",
        "bashrc",
        "zshrc",
        "profile",
        "etc ",
        "env file",
        "dotenv",
        "private key",
        "password manager",
        "keychain",
        "keyring",
        "cookie",
        "git credentials",
        "wallet",
        "seed phrase",
    ];
    vec![
        rule(
            SecretRequest,
            named,
            "(?:read|reads|reading|open|opens|opening|load|loads|fetch|fetches|get|gets|retrieve|retrieves|access|accesses|\
             accessing|need|needs|requires|take|takes|cat|copy|copies|include|includes|attach|attaches|append|appends|pass|passes|put|puts|supply|supplies|\
             send|sends|collect|collects|holds?|contents? of|contents? from|insert|inserts|extract|dump|upload|post|show|\
             share|edit|modify|add|write|line to|entry to)<6> <secret>",
        ),
        rule(
            SecretRequest,
            &["cookie", "password", "wallet", "seed phrase", "private key"],
            "(?:provide|give|supply|pass|send|include|put|holds?)<5> (?:session cookies?|password(?:s)? manager|passwords? \
             export|wallet|seed phrase|private keys?)",
        ),
        rule(
            SecretRequest,
            &["token", "key", "password", "secret", "credential"],
            "(?:tokens?|keys?|passwords?|secrets?|credentials?) (?:from|in|found in|out of) (?:the |this |your |its \
             )?(?:environment|process|memory|context|session|browser|keychain|history|clipboard)(?: of)?",
        ),
        rule(
            SecretRequest,
            &["user"],
            "(?:save|store|remember|keep|record|log|memori[sz]e|note|write down)<3> users? (?:s )?(?:passwords?|credentials|\
             secrets?|api keys?|tokens?|private|cookies?)",
        ),
        rule(SecretRequest, &["authorized", "authorised"], "(?:authorized|authorised) keys"),
    ]
}

fn own_context() -> Vec<Rule> {
    vec![
        rule(
            ContextRequest,
            &["context", "memory", "prompt", "transcript", "session"],
            "(?:send|include|attach|pass|provide|supply|give|forward|upload|dump|put|share|transmit) (?:the |your |me \
             )?(?:whole|entire|full|complete|current|all)(?: of)?(?: the| your)? (?:context|context window|memory|prompt|\
             transcript|session)",
        ),
        rule(
            ContextRequest,
            &["instruction", "rules", "guidelines", "prompt", "message"],
            "(?:instructions?|rules|guidelines|prompt|messages?) (?:that )?(?:you|the model|the assistant|the agent) (?:were|\
             was|have been|has been|are|is|got|received|had) (?:given|told|received|set|configured|initiali[sz]ed|shown)",
        ),
        rule(
            ContextRequest,
            &["instruction", "rules", "prompt"],
            "(?:instructions?|rules|prompt) you (?:got|received|follow|operate under|have)",
        ),
        rule(
            ContextRequest,
            &["you are", "your developer", "your creator", "your operator"],
            "(?:the |which |what )?(?:model|llm|assistant) (?:that )?you are|your (?:developer|creator|operator)",
        ),
    ]
}

fn sent() -> Vec<Rule> {
    vec![
        rule(
            ExfiltrationRequest,
            &[" to ", " at ", " via ", " through ", " for "],
            "<send>(?: [^ ]{1,24}){0,3}? (?:all|every|each|any|a copy of|copies of|the whole|the entire|the full|complete)<4> \
             (?:messages?|mails?|emails?|documents?|files?|conversations?|chats?|context|history|window|keystrokes|contacts|\
             photos)<6> (?:to|at|via|through|for)",
        ),
        rule(
            ExfiltrationRequest,
            &["user"],
            "<send><4> (?:the )?users? (?:s )?(?:api keys?|tokens?|passwords?|credentials|location|e mail|email address|\
             private|personal|cookies?|session|chat history|secrets?|history|data|files|documents|home)",
        ),
    ]
}

fn commands() -> Vec<Rule> {
    vec![
        rule(
            CommandRequest,
            &["memory", "system prompt", "rules file", "instructions"],
            "(?:add|write|append|save|store|remember|keep)<8> (?:in|to) (?:your|the (?:agents?|models?|assistants?)) (?:(?:long \
             term |permanent |persistent )?memory|system prompt|rules file|instructions)",
        ),
        rule(
            CommandRequest,
            &["disable", "turn off", "deactivate", "switch off"],
            "(?:disable|turn off|deactivate|switch off)<4> (?:confirmations?|confirmation dialogs?|approvals?|safety|security \
             (?:checks?|features?)|guardrails|sandbox|permission prompts?|prompts? for (?:permission|approval))",
        ),
        rule(
            CommandRequest,
            &["download", "fetch", "get ", "curl", "wget"],
            "(?:download|fetch|get|curl|wget)<8> (?:and|then) (?:execute|run|eval|install|source|import) (?:it|them|that|the \
             (?:script|file|result|output))",
        ),
    ]
}

/// Rules for every text as it is written.
pub(super) fn written() -> Vec<Rule> {
    let read = r"(?:\b(?:read|open|load|locate|find|fetch|retrieve|access|cat|copy|include|attach|append|pass|put|supply|send|collect|(?:contents?|text) (?:of|from)|extract|dump|upload|post|edit|modify|add|write|lee|lies|lisez|lis|leggi)\b|读取)";
    let mail = r"\b[a-z0-9._+-]+@[a-z0-9.-]+\.[a-z]{2,}\b";
    let (send, always) =
        ("(?:bcc|cc|forward|send|copy|redirect|deliver|mail)", "(?:each|every|all|always|whenever|instead)");
    vec![
        as_written(
            SecretRequest,
            &["~/.", "/.ssh/", "id_", "wallet.dat", "/etc/"],
            &format!(r"{read}[^\n]{{0,60}}{PATHS}"),
        ),
        as_written(
            SecretRequest,
            &[".env"],
            r#"\b(?:read|open|load|fetch|retrieve|copy|cat|contents? of|attach|call \S{1,40} (?:on|for|with))\b[^.\n]{0,60}[\s`'"/]\.env\b"#,
        ),
        as_written(
            ExfiltrationRequest,
            &["@"],
            &format!(
                r"\b{send}\b[^.\n]{{0,80}}{mail}[^.\n]{{0,60}}\b{always}\b|\b{always}\b[^.\n]{{0,60}}\b{send}\b[^.\n]{{0,80}}{mail}|\b(?:bcc|forward|redirect)\b[^\n]{{0,80}}\bto {mail}"
            ),
        ),
        as_written(
            ExfiltrationRequest,
            &["http"],
            r#"\b(?:post|send|upload|forward|report|transmit|copy)\b[^.\n]{0,80}\b(?:every|all|each|copy|copies|whole|entire)\b[^\n]{0,80}https?://|https?://[^\s"']{1,200}=(?:<[^>]{3,80}>|\{\{?[^}]{3,60}\}|\[[^\]]{3,60}\])"#,
        ),
        as_written(
            ExfiltrationRequest,
            &["http", "@"],
            &format!(
                r#"\b(?:sent|deliver(?:ed)?|forward(?:ed)?|uploaded|reported|relay(?:ed)?|redirect(?:ed)?|copied|mirrored|bcc)\b[^\n]{{0,60}}\bto\s{{1,4}}[`"'<]?(?:https?://|{mail})"#
            ),
        ),
        as_written(
            ExfiltrationRequest,
            &["]("],
            r"!\[[^\]\n]{0,80}\]\(https?://[^)\s]{1,200}[?=/&](?:<|\{|\[|\$|%7b|(?-i:[A-Z_]{4,}))",
        ),
        as_written(
            ContextRequest,
            &["call", "run", "use", "using", "invok", "execut", "through", "with"],
            r#"\b(?:call|run|use|invoke|execute|calling|running|using|invoking|through|with)\s{1,4}(?:the\s{1,4})?[`'"]?[a-z][a-z0-9]{0,40}(?:[_-][a-z0-9]{1,40}){1,8}[`'"]?(?:\s{1,4}tool)?[^.\n]{0,60}\b(?:give|pass|put|include|supply|provide|attach|send|append|copy|forward)\b[^.\n]{0,40}\b(?:its|the|their|full|whole|all)\b[^.\n]{0,20}\b(?:outputs?|results?|contents?|answers?|responses?|reply)\b[^.\n]{0,12}\b(?:to|in|into|as)\b"#,
        ),
        as_written(
            OtherTools,
            &["_", "-"],
            r#"\b[a-z][a-z0-9]{0,40}(?:[_-][a-z0-9]{1,40}){1,8}[`'"]?(?:\s{1,4}tool\s{1,4}(?:must|requires?|has to|have to|needs to)\b|\s{1,4}(?:must|has to) be called with\b|\s{1,4}(?:is|are) (?:buggy|broken|insecure|unsafe)\b)"#,
        ),
        as_written(
            OtherTools,
            &["using", "calling", "invoking", "running", "replaces", "not call", "not use", "don't", "never", "tool"],
            r#"\b(?:when|whenever|before|after|while|if)\s{1,4}(?:you\s{1,4})?(?:using|calling|invoking|running)\s{1,4}(?:the\s{1,4})?[`'"]?[a-z][a-z0-9]{0,40}(?:[_-][a-z0-9]{1,40}){1,8}[`'"]?(?:\s{1,4}tool)?,?\s[^.\n]{0,20}\b(?:always (?:add|send|include|set|forward|copy)|also (?:add|send|include|forward|copy))\b|\b(?:this|it)(?: tool)? replaces\s{1,4}(?:the\s{1,4})?[`'"]?[a-z][a-z0-9]{0,40}(?:[_-][a-z0-9]{1,40}){1,8}\b|\b(?:do not|don't|never)\s{1,4}(?:call|use|invoke|run)\s{1,4}(?:the\s{1,4})?[`'"]?[a-z][a-z0-9]{0,40}(?:[_-][a-z0-9]{1,40}){1,8}[`'"]?(?:\s{1,4}tool)?\s{1,4}(?:any ?more|any longer|again)|\b[a-z][a-z0-9]{0,40}(?:[_-][a-z0-9]{1,40}){1,8}[`'"]?\s{1,4}tool\s{1,4}(?:only works|works only|will only work) (?:when|if|with)"#,
        ),
        as_written(
            CommandRequest,
            &["curl", "wget", "chmod", "rm -rf", "base64", "sudo", "crontab"],
            r#"\bsudo\s[a-z]|\bcrontab\b|\bcurl\b[^\n]{0,120}\|\s{0,4}(?:ba|z)?sh\b|\bwget\b[^\n]{0,120}\|\s{0,4}(?:ba|z)?sh\b|\bchmod\s{1,4}-?R?\s{0,4}0?[67]{3}\b|\brm\s{1,4}-rf\b|(?:bash|sh|zsh|python3?|eval|source)\s{1,4}(?:-c\s{1,4})?\\?["'`]?(?:\$\(|<\()\s{0,4}(?:curl|wget)|\bbase64 (?:-d|--decode)\b[^\n]{0,20}\|"#,
        ),
    ]
}
