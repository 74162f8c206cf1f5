//! Names of parameters, titles, and values of a choice that ask for something by their wording.

use crate::inspect::rules::Rule;
use crate::inspect::terms::{rule, written as as_written};
use crate::inspect::verdict::Reason::{ContextRequest, OtherTools, SecretRequest};

pub(super) fn rules() -> Vec<Rule> {
    vec![
        rule(
            ContextRequest,
            &["conversation", "chat", "dialog", "message", "context", "history"],
            "<4> ?(?:conversation history|chat history|chat log|message history|full (?:chat|conversation)(?: history| \
             context)?|(?:entire|whole|full) (?:context|conversation|prompt|history)|summary of (?:the \
             )?(?:conversation|chat)|(?:conversation|chat|dialog|dialogue) (?:history|log|summary|context|transcript|dump|so \
             far|messages|and)|all previous (?:messages|prompts)|(?:all|every) user messages?|messages verbatim)<4> ?",
        ),
        rule(
            ContextRequest,
            &["prompt", "instruction", "system message", "chain of thought", "reasoning", "inner ", "context", "note"],
            "<4> ?(?:side ?note|system (?:prompt|message|instructions?)|(?:hidden|developer|model|agent|your) \
             (?:prompt|instructions?)|(?:model|agent) context|(?:user )?original prompt|and (?:system|hidden) \
             (?:prompt|instructions?)|chain of thought|private reasoning|inner (?:thoughts|monologue))<4> ?",
        ),
        rule(
            ContextRequest,
            &["tool"],
            "<4> ?(?:(?:list of )?all (?:available )?tools(?: available)?|(?:previous|prior|other|earlier|last) tools? \
             (?:outputs?|results?|calls?|responses?))<4> ?",
        ),
        rule(
            ContextRequest,
            &["conversation", "chat", "dialog", "transcript", "instructions", "context", "messages"],
            "<4> ?(?:recent|latest|last|current|full|whole|user|llm|model|agent|assistant|your|previous|system) \
             (?:conversations?|chats?|dialogs?|dialogues?|transcripts?|instructions)<4> ?",
        ),
        rule(
            SecretRequest,
            &["private", "home ", "desktop", "token", "password", "secret", "key"],
            "<4> ?(?:users? private [^ ]{1,16}|(?:home|desktop) (?:directory|folder|dir|files) (?:listing|list|content|\
             contents|tree|files)|(?:token|password|secret|key)s? of (?:the )?(?:user|owner|developer|caller))<4> ?",
        ),
        rule(
            OtherTools,
            &["before ", "call "],
            "<4> ?(?:before (?:choosing|using|calling) (?:this|any)|always call this|call this tool)<4> ?",
        ),
        rule(
            SecretRequest,
            &["content", "text", "data"],
            "<4> ?(?:content|contents|text|data)(?: of| from)?(?: reading| the)? <secret><4> ?",
        ),
        rule(
            SecretRequest,
            &["env", "file", "ssh", "private key", "secret", "password", "credential", "cookie"],
            "<4> ?(?:environment variables dump|all env(?:ironment)? (?:vars|variables)|users?(?: [^ ]{1,10})? \
             (?:password|passwords|credentials|secrets|private key|session cookie)|ssh private key|private key contents?|\
             secrets? from (?:context|memory|env)|env file|dotenv|file contents? from (?:home|disk))<4> ?",
        ),
    ]
}

/// Rules for labels as they are written: a path to a file with secrets is no value of a choice.
pub(super) fn written() -> Vec<Rule> {
    vec![
        as_written(SecretRequest, &["$"], r"\$\{?(?-i:[A-Z_]{0,40}(?:KEY|TOKEN|SECRET|PASSWORD))\b"),
        as_written(
            SecretRequest,
            &["~/.", "id_", "/etc/"],
            r"~/\.(?:ssh|aws/credentials|netrc|npmrc|pypirc|bash_history|zsh_history|bashrc|zshrc|cursor/mcp|claude\.json|gnupg|git-credentials)|\bid_(?:rsa|ed25519|ecdsa|dsa)\b|/etc/(?:passwd|shadow)\b",
        ),
    ]
}
