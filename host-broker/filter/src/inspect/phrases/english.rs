//! English phrases, on the view with one space between words.

use crate::inspect::rules::Rule;
use crate::inspect::signs::Strength;
use crate::inspect::signs::Strength::{Strong, Weak};
use crate::inspect::verdict::Reason;
use Reason::{ExfiltrationRequest, InstructionOverride, PromptDisclosure, RoleMimicry};

/// Verbs of setting aside that ordinary text seldom joins with instructions.
const IGNORE: &str = "(?:ignore|ignoring|disregard|disregarding|forget|pay no attention to|(?:do not|dont|stop) \
    (?:follow|following|obey|obeying|comply with|listen to|listening to))";

/// The verbs among them that give an order.
const SET_ASIDE: &str = "(?:ignore|ignoring|disregard|disregarding|forget|pay no attention to)";

/// The verbs among them that forbid. A warning about others' instructions uses them, too.
const NOT_FOLLOW: &str = "(?:do not|dont|stop) (?:follow|following|obey|obeying|comply with|listen to|listening to)";

/// Verbs that ordinary text uses for much else.
const OVERRIDE: &str = "(?:override|overrides|overriding|overrule|supersede|supersedes|bypass|skip|cancel|discard|neglect|abandon|replace|replaces)";

const EARLIER: &str =
    "(?:previous|previously|prior|preceding|above|earlier|foregoing|former|initial|original|aforementioned|past)";

const ORDERS: &str = "(?:instructions?|directions|directives?|prompts?|commands?|orders?|guidelines?|rules?|programming|training|\
    constraints|restrictions|policies|guardrails|context|conversations?|messages?|requests?|tasks?|questions?|assignments?)";

/// Nouns that are about an agent even with an ordinary verb.
const INSTRUCTIONS: &str =
    "(?:instructions?|directives?|guidelines|programming|system prompt|safety (?:rules|policies|guidelines|protocols))";

/// Words for an agent's confidential texts.
const PROMPT: &str = "(?:system (?:prompt|message|instructions?)|(?:initial|original|hidden|secret|internal) (?:prompt|instructions)|\
    (?:instructions|text|words|prompt|everything) above|developer (?:message|prompt|instructions)|your (?:prompt|initial instructions|instructions verbatim))";

const PRIVATE: &str = "(?:conversations?|chat (?:history|logs?)|conversation history|message history|system prompt|environment variables?|\
    env vars?|ssh keys?|private keys?|passwords?|credentials|secrets?|api keys?|(?:access|auth|session) tokens?|credit card \
    (?:numbers?|details|information)|(?:personal|private|confidential|sensitive|user) (?:data|information|details|files|documents)|\
    bank (?:details|account)|2fa codes?|security codes?|verification codes?)";

/// Up to `n` words in between, as few as will do. Their length is bounded so that no search looks far ahead.
fn gap(n: usize) -> String {
    format!("(?: [^ ]{{1,24}}){{0,{n}}}?")
}

/// Every rule.
pub(super) fn rules() -> Vec<Rule> {
    let mut rules = overrides();
    rules.extend(new_instructions());
    rules.extend(roles());
    rules.extend(requests());
    rules.extend(addressed());
    rules
}

fn rule(reason: Reason, strength: Strength, words: &'static [&'static str], pattern: &str) -> Rule {
    Rule::new(reason, strength, words, format!("(?-u) {pattern} "))
}

const IGNORE_WORDS: &[&str] =
    &["ignor", "disregard", "forget", "pay no attention", "follow", "obey", "comply with", "listen"];

fn overrides() -> Vec<Rule> {
    let (some, few) = (gap(4), gap(2));
    vec![
        rule(InstructionOverride, Strong, IGNORE_WORDS, &format!("{IGNORE}{some} {EARLIER}{few} {ORDERS}")),
        rule(
            InstructionOverride,
            Strong,
            &[
                "overrid",
                "overrul",
                "supersede",
                "bypass",
                "skip",
                "cancel",
                "discard",
                "neglect",
                "abandon",
                "replace",
            ],
            &format!("{OVERRIDE} (?:all |any |my |your |the |of ){{0,3}}{EARLIER} (?:[^ ]{{1,24}} )?{INSTRUCTIONS}"),
        ),
        // Not "the instructions" alone: documentation says "ignore the instructions below if you use Docker".
        rule(
            InstructionOverride,
            Strong,
            IGNORE_WORDS,
            &format!(
                "(?:(?:{SET_ASIDE}(?: of| and| or)?|{SET_ASIDE}(?: of| the){{0,2}} (?:all|any|every|your|my|everything|other|system|existing|current|safety)\
                (?: of| the| your| my| other| system| existing| current| safety| and| or){{0,3}}|\
                {NOT_FOLLOW}(?: all| any)?(?: of| the)?(?: your| my| system| existing| current| safety)(?: own| other| system| and| or){{0,2}}) (?:{INSTRUCTIONS}|filters and)|\
                {SET_ASIDE}(?: of)? the (?:system prompt|programming|safety (?:rules|policies|guidelines|protocols)))"
            ),
        ),
        rule(
            InstructionOverride,
            Strong,
            IGNORE_WORDS,
            &format!(
                "{IGNORE} (?:all|everything|anything|any|what|whatever|the)(?: (?:that|of|which|text|instructions|content)){{0,2}} \
                (?:above|before|previously|prior|previous|preceding|preceded|i said|(?:i|we) (?:have )?(?:told|said)|you (?:were|have been|are|was) told|you know about|\
                came before|has been said|was said|written above)"
            ),
        ),
        rule(
            InstructionOverride,
            Strong,
            IGNORE_WORDS,
            &format!(
                "{IGNORE} (?:the |your |all |any ){{0,2}}(?:users?|systems?|developers?|operators?|owners?|humans?|creators?|administrators?) (?:s )?(?:and|{ORDERS}|wishes|intent)"
            ),
        ),
        rule(
            InstructionOverride,
            Strong,
            &["ethical", "moral", "safety", "content"],
            &format!(
                "(?:{IGNORE}|bypass|bypassing|disable|without|break|breaking|circumvent|free of|free from)(?: (?:all|any|your|the|its|following|these)){{0,3}} \
                (?:ethical|moral|safety|content|openai|anthropic|ai)(?: (?:and|or|ethical|moral|legal|safety|content|policy|s)){{0,3}} \
                (?:guidelines?|restrictions?|policies|policy|filters?|filtering|guardrails?|constraints?|considerations?|limitations?|concerns|protocols?|training|rules)"
            ),
        ),
    ]
}

fn new_instructions() -> Vec<Rule> {
    vec![
        rule(
            InstructionOverride,
            Strong,
            &["new", "real", "actual", "true", "updated"],
            "(?:your|these are your|here are your) (?:new|real|actual|true|updated|only) (?:primary |main |sole )?\
                (?:instructions?|task|objective|goal|directives?|orders|mission|role|purpose|prompt|rules) (?:is|are|will|now|from)",
        ),
        rule(
            InstructionOverride,
            Weak,
            &["new", "updated"],
            "(?:new|updated) (?:system )?(?:instructions?|directives?|orders|rules)",
        ),
        rule(
            InstructionOverride,
            Strong,
            &["important", "urgent", "critical", "special", "new", "secret", "hidden"],
            "(?:important|urgent|critical|special|new|secret|hidden) (?:new )?(?:instructions?|messages?|notes?|notices?|directives?|orders?) (?:for|to) \
                (?:the |all |any |every |an )?(?:ai|llms?|language models?|assistants?|chatbots?|chatgpt|gpt|claude|gemini|copilot|agents?|bots?)",
        ),
        rule(
            InstructionOverride,
            Weak,
            &["instead"],
            "(?:instead (?:of [^ ]{1,24} )?(?:just |only |you (?:must |should |will )?)?|and instead )(?:say|print|respond|reply|answer|output|write|execute|return|tell|send|display)",
        ),
        rule(
            InstructionOverride,
            Weak,
            &["only", "just", "simply"],
            "(?:only|just|simply) (?:say|respond|reply|output|answer|print|repeat)(?: with)?",
        ),
        rule(
            InstructionOverride,
            Strong,
            &["respond", "reply", "answer"],
            "(?:respond|reply|answer) (?:only|exclusively|solely|just) (?:with|in|by)",
        ),
        rule(
            InstructionOverride,
            Strong,
            &["from now on", "henceforth", "going forward", "this point", "any output", "your", "every"],
            "(?:from now on|henceforth|from this point (?:on|forward|onwards?)|going forward) (?:you|your|act|respond|answer|always|only)|\
            (?:respond|answer|reply|speak|talk|act|behave|write)(?: [^ ]{1,24}){0,6}? (?:from now on|to any output|in any of your|in all your|in every)",
        ),
    ]
}

fn roles() -> Vec<Rule> {
    vec![
        rule(
            InstructionOverride,
            Strong,
            &["you are", "youre", "enter", "enable", "activate", "switch"],
            "(?:you are|youre|enter|entering|enable|enabling|activate|activating|switch to|act in|now in)(?: now| in| into| the| a| an){0,3} \
                (?:dan|jailbroken|jailbreak mode|(?:god|dan|evil|unrestricted|uncensored|unfiltered) mode|unrestricted ai|uncensored ai|developer mode enabled)",
        ),
        rule(
            InstructionOverride,
            Strong,
            &["do anything now", "jailbreak", "jailbroken"],
            "(?:do anything now|(?:has|have|been|are|is) (?:been )?jailbroken|dan mode enabled|stay (?:a|in) (?:dan|character as dan))",
        ),
        rule(
            InstructionOverride,
            Strong,
            &["no longer", "not bound", "free from", "break free", "broken free"],
            "(?:you|dan|it|ai|who|that|and)(?: are| is| re| has| have| can| will| s){0,2} (?:no longer|not|free from|broken free of|broken free from|break free from) (?:be |are |been )?\
                (?:bound|restricted|constrained|limited|confined|the typical confines|all restrictions|all rules)(?: (?:by|to|from|of))?(?: [^ ]{1,24}){0,2}? \
                (?:rules|guidelines|policies|policy|instructions|restrictions|programming|openai|ai|constraints|limitations)",
        ),
        rule(
            InstructionOverride,
            Strong,
            &["you are", "youre"],
            "(?:you are|youre) (?:now|no longer|going to) (?:a|an|my|the|in|act|be|simulate|pretend|roleplay|bound|called|named|playing)",
        ),
        rule(
            InstructionOverride,
            Weak,
            &["pretend", "roleplay", "role play", "imagine", "act as", "acting as", "simulate"],
            "(?:pretend|roleplay|role play|imagine|act|acting|simulate|behave)(?: (?:that|like|as|to be|a|an|the|if|being))* ?(?:you|youre|an ai|ai|unrestricted|evil|my|chatbot|character|persona|hacker)",
        ),
        rule(
            InstructionOverride,
            Weak,
            &["restrict", "limit", "filter", "censor", "moral", "ethic", "disclaimer", "warning"],
            "(?:without|no|any|free of|ignore|ignoring|never|zero|lacks?)(?: (?:any|all|moral|ethical|or|and|legal|add|added|include)){0,3} (?:restrictions|limitations|filters|censorship|uncensored|morals?|ethics?|ethical guidelines|disclaimers?)",
        ),
        rule(
            InstructionOverride,
            Strong,
            &["as an ai", "ai language model", "refuse", "cannot fulfill", "i cant"],
            "(?:as an ai|ai language model|never refuse|not refuse|cannot refuse|must not refuse|i cannot fulfill|never say (?:that )?(?:you|i) (?:cant|cannot))",
        ),
        rule(
            RoleMimicry,
            Weak,
            &["end of", "begin", "start of", "new"],
            "(?:end of (?:the )?(?:system |user )?(?:prompt|instructions|input|context|conversation|data|document|task)|(?:begin|start of|new) (?:the )?(?:system|admin|developer) (?:prompt|message|instructions?|override|mode))",
        ),
    ]
}

fn requests() -> Vec<Rule> {
    let (some, many) = (gap(5), gap(8));
    vec![
        rule(
            PromptDisclosure,
            Strong,
            &["prompt", "instructions", "above", "system message", "developer message"],
            &format!(
                "(?:reveal|print|show|output|display|repeat|tell|give|share|disclose|leak|expose|provide|recite|return|dump|spell|summari[sz]e|copy|quote|translate)\
                (?: (?:me|us|back|out|the|your|all|of|full|entire|complete|exact|verbatim|word|for|whole|contents?|text|down|what|is|are|this|and|in)){{0,7}} {PROMPT}"
            ),
        ),
        rule(
            ExfiltrationRequest,
            Strong,
            &[
                "conversation",
                "chat log",
                "chat history",
                "message history",
                "system prompt",
                "environment variable",
                "env var",
                "ssh key",
                "private key",
                "password",
                "credential",
                "secret",
                "api key",
                " token",
                "credit card",
                " personal ",
                " private ",
                " confidential ",
                " sensitive ",
                " user ",
                " bank ",
                " code",
            ],
            &format!(
                "(?:send|sending|forward|post|upload|transmit|exfiltrate|leak|email|mail|submit|append|deliver|encode|include|put|insert|embed)\
                {many} {PRIVATE}{some} (?:(?:to|at|into|onto|via){some} (?:https?|webhooks?|www|[^ ]{{3,24}} (?:com|net|org|io|xyz|ru|cn|example)|gmail|email address|the urls?|image url|query (?:string|parameters?))|\
                (?:in|as|with){some} (?:the urls?|image url|query (?:string|parameters?)))"
            ),
        ),
        rule(
            ExfiltrationRequest,
            Weak,
            &["send", "forward", "upload", "transmit", "exfiltrat", "leak", "mail"],
            &format!("(?:send|forward|upload|transmit|exfiltrate|leak|email|mail){some} {PRIVATE}"),
        ),
        rule(
            InstructionOverride,
            Strong,
            &["user"],
            "(?:(?:do not|dont|never|without) (?:ever |even )?(?:(?:tell|telling|inform|informing|mention|mentioning|notify|notifying|alert|alerting|reveal|disclose)\
                (?: [^ ]{1,24}){0,4}? (?:the |any )?users?|let (?:the |any )?users? (?:know|see|notice|find out|learn))|(?:users?|owner|human) (?:must|should|do|need) not (?:know|see|notice|be (?:told|informed|aware))|hide this from the user)",
        ),
    ]
}

fn addressed() -> Vec<Rule> {
    vec![
        rule(
            InstructionOverride,
            Strong,
            &[
                " ai ",
                " llm ",
                " language model ",
                " assistant ",
                " chatbot ",
                " agent ",
                " bot ",
                " automated ",
                " gpt ",
            ],
            "(?:if|when|since|because|as) (?:you are|youre|you re) (?:an? |the |some )(?:[^ ]{1,24} ){0,2}?(?:ai|llm|language model|assistant|chatbot|ai agent|agent|bot|automated|gpt)",
        ),
        rule(
            InstructionOverride,
            Weak,
            &[" ai ", " llm", " language model", " assistant ", " chatbot", " chatgpt ", " gpt ", " bot", " model "],
            "(?:attention|hey|dear|hello|notice to|note to|note for|instructions? (?:to|for)|messages? (?:to|for)|addressed to) \
                (?:all |any |the |every |an |chat |digital |virtual ){0,2}(?:ai|llms?|language models?|ai (?:assistants?|agents?|models?)|assistant|chatbots?|chatgpt|gpt|bots?|model)",
        ),
        rule(
            InstructionOverride,
            Weak,
            &["you must", "you will", "you have to", "you should", "you shall"],
            "you (?:must|will|have to|should|shall)(?: (?:now|always|immediately|first|only|also|then)){0,2} (?:execute|call|invoke|send|obey|comply|follow (?:my|these|the following|this|all|every)|disregard|ignore|forget|pretend|answer (?:as|every|any|all)|act as|stay in character)",
        ),
        rule(
            InstructionOverride,
            Strong,
            &["user"],
            "(?:the |this )?user (?:now )?(?:wants|asked|has (?:asked|requested|authori[sz]ed|approved|consented|given|granted)|requests?|authori[sz]ed|approved|consented|agreed)(?: [^ ]{1,24})? (?:you|this action|permission|consent)",
        ),
        // Without a preposition before it: "given back to you, the assistant" addresses no agent.
        Rule::new(
            InstructionOverride,
            Strong,
            &["you the", "you an", "you chatgpt", "you gpt", "you assistant", "you ai", "you llm", "the assistant"],
            "(?-u)(?:(?:^| (?:[^t ][^ ]{0,24}|t[^o ][^ ]{0,24}|to[^ ]{1,24})) you (?:the |an? )?(?:ai|llm|assistant|language model|chatgpt|gpt|gpt 4|chatbot|agent)| the assistant (?:must|shall|is to)) ".to_owned(),
        ),
        rule(
            InstructionOverride,
            Strong,
            &["instruction", "order", "command"],
            "(?:obey|comply with)(?: [^ ]{1,24}){0,2}? (?:this|these|my|the following|our|all) (?:[^ ]{1,24} )?(?:instructions?|orders?|commands?)",
        ),
        rule(
            InstructionOverride,
            Weak,
            &["instruction"],
            "(?:follow|execute|perform|carry out|commit)(?: to memory)? (?:this|these|my|the following)(?: [^ ]{1,24}){0,2}? instructions?",
        ),
        rule(
            InstructionOverride,
            Weak,
            &["the user"],
            "(?:tell|inform|convince|persuade|trick|ask|answer|respond to) the user",
        ),
        rule(
            InstructionOverride,
            Weak,
            &["play the role", "minigame", "roleplay", "your role is", "your task is", "your goal is", "your job is"],
            "(?:play the role|minigame|your (?:role|task|goal|job|only task) is (?:now )?to)",
        ),
        rule(
            ExfiltrationRequest,
            Strong,
            &["contacts", "everyone", "address book"],
            "(?:send|forward|email|mail)(?: [^ ]{1,24}){0,8}? to (?:all|every|everyone|each)(?: [^ ]{1,24}){0,4}? (?:contacts?|address book|mailing list)",
        ),
        rule(
            InstructionOverride,
            Weak,
            &["task", "request", "question"],
            "before (?:you (?:can |do |start |begin |continue |proceed )?(?:[^ ]{1,24} ){0,3}?|(?:answering|completing|doing|solving|continuing|proceeding|responding)(?: [^ ]{1,24}){0,3}? )(?:task|request|question|anything else)",
        ),
    ]
}
