//! Texts that want secrecy from the user, decide an agent's answer, or ask for its instructions.

use crate::inspect::rules::Rule;
use crate::inspect::terms::rule;
use crate::inspect::verdict::Reason::{InstructionOverride, PromptDisclosure, Secrecy};

pub(super) fn rules() -> Vec<Rule> {
    let mut rules = answers();
    rules.extend(replies());
    rules
}

/// Texts that add something to an agent's reply, or change the whole of it.
fn replies() -> Vec<Rule> {
    vec![
        rule(
            InstructionOverride,
            &["your reply", "your response", "your answer", "your summary"],
            "(?:add|include|integrate|insert|append|weave|embed|incorporate|place|put|mention|slip|introduce|feature) (?:an?|the|this|some|random|in|within|any|that|two|three) (?:[^ ]{1,24} ){0,12}?(?:in |into |to |within |throughout |at the end of )?your (?:reply|response|answer|summary)",
        ),
        rule(
            InstructionOverride,
            &["your reply", "your response", "your answer"],
            "in your (?:reply|response|answer) (?:mention|suggest|recommend|tease|hint|claim|state|promote|advertise|insert|add|include|encourage|tell|urge|say)",
        ),
        rule(
            InstructionOverride,
            &["your reply", "your response", "your answer"],
            "(?:(?:encipher|scramble|jumble|translate|modify|rewrite|alter|adjust|enhance|invert|obfuscate) (?:[^ ]{1,24} ){0,6}?your (?:reply|response|answer)(?: in| into| to| using| by| with| as)|(?:encrypt|encode|reverse|convert|render|reply|apply) (?:[^ ]{1,24} ){0,6}?your (?:reply|response|answer)(?: in| into| to| using| with| as)<3> (?:base[0-9a-z]{2}|cipher|caesar|rot[0-9a-z]{0,2}|morse|hex|hexadecimal|binary|emojis?|anagrams?))",
        ),
        rule(
            InstructionOverride,
            &["your reply", "your response", "your answer"],
            "(?:provide|write|give|deliver|present|display|formulate|compose) your (?:entire |whole |full |complete |final )?(?:reply|response|answer) (?:in (?:[^ ]{1,16} )?(?:reverse|anagrams?|anagrammed|emojis?|morse|base[0-9]{2}|caps|uppercase|capitals|rhymes?|spanish|french|german|italian|chinese|japanese|russian|portuguese|arabic|korean|hindi|latin)|using|without)",
        ),
    ]
}

/// Texts that want secrecy, decide an answer, or ask for instructions.
fn answers() -> Vec<Rule> {
    vec![
        rule(
            Secrecy,
            &["not ", "dont ", "never "],
            "(?:do not|dont|never) (?:mention|report|reveal|disclose|include|show|refer to|talk about)(?: [^ ]{1,12}){0,4}? (?:in your (?:summary|answer|reply|response|report|output)|to the (?:user|owner|human|operator|customer)|to your user|to anyone|to anybody)",
        ),
        rule(
            Secrecy,
            &["need not", "needs not", "neednt", "must not", "should not", "shall not", "does not", "dont need"],
            "(?:user|owner|human|operator|customer|they|nobody|no one) (?:need not|needs not|neednt|must not|should not|shall not|does not need to|dont need to|does not have to) (?:hear|know|learn|notice|see|be told|be informed|find out|be aware)",
        ),
        rule(
            Secrecy,
            &["leave no", "leaving no"],
            "(?:leave|leaving) no (?:trace|record|mention|sign|evidence|hint) of (?:this|it|these|the)",
        ),
        rule(Secrecy, &["keep this", "keep it"], "keep (?:this|it) (?:between us|to yourself|quiet|hidden from)"),
        rule(
            InstructionOverride,
            &[
                "your answer",
                "your reply",
                "your response",
                "your summary",
                "your output",
                "your review",
                "your report",
            ],
            "your (?:answer|reply|response|summary|output|review|report) (?:must|has to|should|shall|needs to|will) (?:begin|start|end|contain|include|say|state|consist|only|be)(?: [^ ]{1,12}){0,2}? (?:with|the (?:sentence|words?|phrase|text|line|link)|that|only|the following|positive|very)",
        ),
        rule(
            InstructionOverride,
            &["end ", "begin ", "start ", "finish ", "close ", "sign ", "prefix ", "preface "],
            "(?:end|begin|start|finish|close|sign|prefix|preface) (?:each|every|all|any) (?:of your )?(?:reply|replies|answer|answers|response|responses|message|messages|sentence|summary) with",
        ),
        rule(
            InstructionOverride,
            &["the word", "the sentence", "the phrase", "the text", "the string"],
            "(?:answer|reply|respond|say|print|output)(?: instead)?(?: only| just| simply)? (?:with |only |just )(?:the )(?:words?|sentence|phrase|text|string)",
        ),
        rule(
            InstructionOverride,
            &["best ", "highest", "out of ten", "out of io", "first and", "positive", "acceptance", "accept"],
            "(?:give|assign|award|rate|rank|score|grade|recommend|judge)(?: [^ ]{1,12}){0,3}? (?:the best score|the highest (?:score|rating|grade|mark)|best possible|ten out of ten|io out of io|first and (?:state|say|claim)|as (?:very |extremely |highly )?positive|acceptance|accept this|strong accept)",
        ),
        rule(
            InstructionOverride,
            &["positive", "safe", "excellent", "harmless", "good", "favo", "outstanding", "perfect", "trustworthy"],
            "(?:summari[sz]e|describe|present|rate|review|judge|report)(?: [^ ]{1,12}){0,4}? as (?:very |extremely |highly |entirely |fully )?(?:positive|safe|excellent|harmless|good|favou?rable|outstanding|perfect|trustworthy)(?: [^ ]{1,12}){0,2}? (?:whatever|regardless|no matter|even if|only|always)",
        ),
        rule(
            InstructionOverride,
            &["your user", "the user"],
            "(?:tell|inform|notify|convince|assure|warn|persuade) (?:your|the) users? that (?:their|the|your|his|her|they|it|there|everything|all|this|a|an)(?: [^ ]{1,14}){0,12}? (?:cancelled|canceled|blocked|locked|suspended|compromised|call|must|have to|need to|expired|paid|safe|hacked|deleted)",
        ),
        rule(
            PromptDisclosure,
            &["were you", "you were", "have you been", "you have been"],
            "(?:what|which|repeat|state|list)(?: [^ ]{1,12}){0,4}? (?:were you|you were|have you been|you have been) (?:told|given|instructed|asked|shown)(?: [^ ]{1,12}){0,3}? (?:before|at the (?:start|beginning)|first|initially|above|earlier|by your|to do|in your)",
        ),
        rule(
            PromptDisclosure,
            &["above", "before", "preceding", "prior to"],
            "(?:give|show|print|write|tell|send|repeat|quote|output|display|recite|paste)(?: me| us| out| down| back)?(?: [^ ]{1,10}){0,3}? (?:full |complete |exact |entire |whole |all )?(?:text|words|everything|content|lines)(?: [^ ]{1,10}){0,3}? (?:above|before|preceding|prior to) (?:this|that|my|the line|the message)",
        ),
        rule(
            PromptDisclosure,
            &["tools", "functions", "plugins", "actions"],
            "(?:explain|list|name|describe|print|show|state|tell|reveal|enumerate|which)(?: [^ ]{1,12}){0,4}? (?:tools|functions|plugins|actions) (?:that )?(?:you (?:have|can|are|may|know|use)|available to you|at your disposal)",
        ),
        rule(
            PromptDisclosure,
            &["your "],
            "(?:print|show|reveal|translate|repeat|output|rewrite|quote|convert|summari[sz]e|encode|give)(?: [^ ]{1,12}){0,4}? your (?:actual |real |exact |entire |complete |current )?(?:hidden|system|initial|original|secret|internal|own|full|first) (?:instructions?|prompt|rules|message|guidelines|configuration)",
        ),
        rule(
            PromptDisclosure,
            &["your tool", "your function"],
            "(?:print|list|show|reveal|give|name|dump) (?:me )?your (?:tools?|functions?)(?: and)?(?: their)? ?(?:schemas?|definitions?|descriptions?|parameters)",
        ),
    ]
}
