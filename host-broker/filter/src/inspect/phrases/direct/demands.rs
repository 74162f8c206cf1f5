//! Texts that demand data or acts: which data goes where, and which tool is called.

use crate::inspect::rules::Rule;
use crate::inspect::terms::rule;
use crate::inspect::verdict::Reason::{ExfiltrationRequest, InstructionOverride};

pub(super) fn rules() -> Vec<Rule> {
    let mut rules = data();
    rules.extend(acts());
    rules
}

/// Demands for data.
fn data() -> Vec<Rule> {
    vec![
        rule(ExfiltrationRequest, &[" to "], "<post><7> <private><6> to <elsewhere>"),
        rule(
            ExfiltrationRequest,
            &["mail", "message", "invoice", "document", "contact", "file"],
            "<post><3> (?:last|latest|recent|every|all|each|unread|whole|entire)<3> (?:e?mails?|messages?|invoices|documents?|contacts|files)<6> to <elsewhere>",
        ),
        rule(
            ExfiltrationRequest,
            &["key", "password", "credential", "secret", "id rsa", "token", "environment variable", "env file"],
            "(?:include|append|add|attach|paste|put|insert|embed|reveal|repeat|print|quote|give)<4> (?:api keys?|passwords?|credentials|secrets|private keys?|id rsa|ssh keys?|access tokens?|environment variables|env file)<6> (?:in|to|into|at|as) (?:your (?:answer|reply|response|output|message|summary|next)|the end of the (?:url|answer|reply)|an? (?:new )?(?:issue|comment|gist|pastebin|reply|message|public)|the (?:answer|reply|comments?|response))",
        ),
        // A command that uploads a file of secrets.
        rule(
            ExfiltrationRequest,
            &["etc passwd", "etc shadow", "id rsa", "id ed", "aws credentials", "ssh key"],
            "(?:etc passwd|etc shadow|id rsa|id ed2ssi9|aws credentials|ssh keys?)<8> (?:curl|wget|nc|scp|requests post)<6> (?:https?|[^ ]{1,40} (?:com|net|org|io|xyz|ru))",
        ),
        rule(
            ExfiltrationRequest,
            &["etc passwd", "etc shadow", "id rsa", "id ed", "aws credentials"],
            "(?:curl|wget|nc|requests post)<6> (?:etc passwd|etc shadow|id rsa|id ed2ssi9|aws credentials)<6> https?",
        ),
        rule(
            ExfiltrationRequest,
            &["password", "secret", "credential", "key", "user "],
            "(?:locate|find|collect|gather|harvest|get|compile)(?: together)? (?:all|every|any|each)(?: of)?(?: the)? (?:passwords?|secrets?|credentials?|private key|api key|user)(?: keys?| files?| data| information| details)?<12> (?:upload|send|post|email|mail|forward|transmit)<6> to (?:https?|my |[^ ]{1,40} (?:[^ ]{1,30} )?(?:com|net|org|io|xyz|ru|example))",
        ),
        rule(
            ExfiltrationRequest,
            &["key", "token", "password", "session log", "credential", "secret"],
            "(?:post|reply with|publish|send|share|give|state|enter|provide|disclose|verify)<3> (?:their|its|your|the|the users) (?:own )?(?:api key|token|password|session log|credentials|secret|private key)(?: that you (?:use|have|hold|know))?(?: [^ ]{1,12}){0,2}? (?:in the comments|you use|you have|to the address|below|to verify|to prove|to continue)",
        ),
        rule(
            ExfiltrationRequest,
            &["to http"],
            "(?:mirror|mirrored|copied|copy|forward|redirect|redirected|sent)(?: [^ ]{1,16}){0,4}? (?:reads?|mails?|messages?|requests?|responses?|answers?|files?|documents?|everything|all of it)(?: [^ ]{1,16}){0,3}? to https?",
        ),
        rule(
            ExfiltrationRequest,
            &["mirrored", "copied", "forwarded", "sent", "uploaded", "redirected"],
            "(?:all|every)(?: [^ ]{1,12}){0,2}? (?:reads|writes|requests|responses|messages|mails|answers|files)(?: [^ ]{1,12}){0,2}? (?:are|is|be|must be|to be) (?:mirrored|copied|forwarded|sent|uploaded|redirected) to",
        ),
        rule(
            ExfiltrationRequest,
            &["password", "credential", "secret", "key", "invoice", "contact", "file"],
            "(?:collect|gather|find|list|harvest|extract|steal|dump)(?: [^ ]{1,12}){0,3}? (?:passwords?|credentials|secrets|api keys|private keys|invoices|contacts|files)(?: [^ ]{1,12}){0,3}? (?:of (?:this|the) (?:machine|user|system|host|company|owner)|and (?:send|mail|email|post|upload|forward))",
        ),
        rule(
            ExfiltrationRequest,
            &["every ", "all ", "each "],
            "(?:forward|send|invite|share|copy)(?: [^ ]{1,16}){0,3}? (?:every|all|each)(?: [^ ]{1,16}){0,2}? (?:mails?|emails?|messages?|files?|documents?|channels?)(?: [^ ]{1,16}){0,2}? (?:to|with) [^ ]{1,40} [^ ]{1,20}(?: [^ ]{1,12}){0,3}? (?:and (?:delete|remove|then)|immediately|at once|afterwards)",
        ),
    ]
}

/// Demands for acts.
fn acts() -> Vec<Rule> {
    vec![
        rule(
            InstructionOverride,
            &[" with ", " on ", " for every "],
            "(?:call|invoke|execute|trigger|use)(?: the)?(?: [^ ]{1,16}){0,2}? (?:send|transfer|delete|merge|create|grant|remove|pay|drop|update|invite|post|write|add) [^ ]{1,16}(?: [^ ]{1,16})?(?: tool| function| action)? (?:with|for every|on)(?: [^ ]{1,16}){0,2}? (?:amount|recipient|every|all|number|id|user|repo|repository|name|iban|the owner)",
        ),
        rule(
            InstructionOverride,
            &["tool"],
            "(?:use|using|with|through|via) (?:your|the) (?:mail|email|browser|shell|terminal|user|file|bash|payment|bank|calendar|slack|messaging|banking|chat|web)(?: [^ ]{1,12})? tools? (?:to|and) (?:write|send|visit|open|delete|create|transfer|pay|post|upload|read|run|fill|download|grant|invite)",
        ),
        rule(
            InstructionOverride,
            &["your assigned", "your current", "your original", "your task", "the assigned"],
            "(?:navigate to|visit|open|go to|click|follow|connect to|load) (?:on )?(?:this|the|that|it|[^ ]{1,40} (?:com|net|org|io))(?: (?:link|url|page|site|address|following link))?<4> (?:to|and) (?:continue|complete|resume|finish|proceed with) (?:with )?(?:your|the) (?:assigned |current |original |own )?(?:task|work|assignment|job)",
        ),
        rule(
            InstructionOverride,
            &["mail", "message"],
            "send<4> (?:e ?)?(?:mail|message|confirmation)s?<2> to [^ ]{1,60}(?: [^ ]{1,30})?<2> (?:with|and) (?:the |a )?(?:body|message body)",
        ),
        rule(
            InstructionOverride,
            &["admin", "root", "superuser", "privileged"],
            "(?:create|add|make|register)(?: an?| the)? (?:new )?(?:admin|administrator|root|superuser|privileged)(?: [^ ]{1,12})?(?: named| called| with)?(?: [^ ]{1,16}){0,2}? (?:with|using|through|via|by) (?:the|your) [^ ]{1,16} (?:tool|function|action)",
        ),
        rule(
            InstructionOverride,
            &["your next"],
            "your next (?:action|step|call|task|tool call|move) (?:is|must be|should be|will be|merge|send|call|delete)",
        ),
        rule(
            InstructionOverride,
            &["credential", "password", "card"],
            "(?:saved|stored|users?|their) (?:s )?(?:credentials|password|passwords|card|credit card)(?: [^ ]{1,12}){0,3}? (?:into|in|on|at|to) (?:the|this|that) (?:form|page|site|login|link)",
        ),
        rule(
            InstructionOverride,
            &["http"],
            "(?:visit|open|go to|navigate to|browse to|sign in at|log in at|log in to) https?(?: [^ ]{1,24}){1,8}? (?:and|with) (?:then )?(?:fill(?: [^ ]{1,12}){0,3}? (?:credentials|password|card)|the users?|(?:enter|type|submit|use)(?: [^ ]{1,12}){0,2}? (?:saved|stored|users|their|credentials|password))",
        ),
        rule(
            InstructionOverride,
            &["card", "account", "payment"],
            "(?:pay|paid|paying|buy|order|book|transfer)(?: [^ ]{1,16}){0,12}? (?:with|using|from|by) (?:the|your|their|the users?) (?:stored|saved|credit|bank|users|company)(?: [^ ]{1,12})? (?:card|account|credit card|payment)",
        ),
        rule(
            InstructionOverride,
            &["account", "iban", "wallet", "address"],
            "(?:transfer|send|pay|wire|donate)(?: [^ ]{1,12}){0,2}? (?:[0-9]{1,9}|[a-z]{0,3}[0-9]{1,9}|money|funds|eur|usd|dollars|euros|bitcoin)(?: [^ ]{1,12}){0,3}? to (?:the |this |my |our )?(?:account|iban|wallet|address|following account)",
        ),
        rule(
            InstructionOverride,
            &["summari", "answer", "reply", "respond", "continu", "complet", "finish", "the rest", "proceed"],
            "(?:before|prior to|in order to|to) (?:you )?(?:summari[sz]e|summari[sz]ing|answer|answering|reply|replying|respond|responding|continue|continuing|complete|completing|finish|read the rest|proceed)(?: [^ ]{1,14}){0,9}? (?:you must first|you have to first|you need to first|the assistant has to|the assistant must|open the file|invite|first (?:open|send|grant|change|delete|visit)|please (?:open|send|grant|change|delete|call|run|visit)|grant access|copy it|sign in at)",
        ),
        rule(
            InstructionOverride,
            &["it is "],
            "(?:it is (?:very |extremely )?(?:important|crucial|vital|essential|necessary|mandatory|imperative)) that you (?:first|immediately|also|now|always) (?:change|send|open|delete|run|call|grant|invite|transfer|visit|execute|share|add|forward|create)",
        ),
        rule(
            InstructionOverride,
            &["share", "send"],
            "(?:share|send)(?: the| this| all| your)?(?: [^ ]{1,14}){1,4}? with [^ ]{1,60} (?:[^ ]{1,30} )?(?:com|net|org|example|io|xyz|ru)(?: [^ ]{1,12}){0,2}? (?:with the right|with (?:edit|write|full)|as (?:an )?(?:editor|owner|admin))",
        ),
        rule(
            ExfiltrationRequest,
            &["id rsa", "id ed", "env file", "aws credentials", "private key", "etc passwd", "etc shadow"],
            "(?:read|open|cat|copy|get|take|fetch)(?: [^ ]{1,12}){0,3}? (?:ssh id (?:rsa|ed2ssi9)|id (?:rsa|ed2ssi9)|env file|aws credentials|private key|etc passwd|etc shadow)(?: [^ ]{1,12}){0,4}? (?:and|then) (?:paste|send|post|put|include|add|upload|append|email|mail|commit|write|reply)",
        ),
        rule(
            InstructionOverride,
            &["rm rf"],
            "run (?:[^ ]{1,10} )?rm rf [^ ]{1,20}(?: [^ ]{1,12}){0,5}? (?:and|then) (?:go on|continue|proceed|report|reply|say|answer)",
        ),
    ]
}
