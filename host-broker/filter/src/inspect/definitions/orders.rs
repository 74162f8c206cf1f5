//! Orders about other tools, and claims to stand above other instructions.

use crate::inspect::rules::Rule;
use crate::inspect::terms::rule;
use crate::inspect::verdict::Reason::{InstructionOverride, OtherTools};

pub(super) fn rules() -> Vec<Rule> {
    let mut rules = sequence();
    rules.extend(preference());
    rules.extend(changes());
    rules.extend(authority());
    rules
}

/// Qualifiers that a server does not use for its own tools.
const OTHER_TOOLS: &str = "(?: (?:search|weather|web|similar|such|available|competing|built in|mail|email|file|existing|\
    external|third party|time|math|installed|of these))? (?:tools?|ones?|functions?|servers?)";

/// Orders to call this tool before or after everything else.
fn sequence() -> Vec<Rule> {
    vec![
        rule(
            OtherTools,
            &["before", "prior to", "ahead of", "start of", "beginning of"],
            "(?:must|should|has to|have to|need to|needs to|required to|always|shall)<2> (?:be )?<call><6> (?:before|prior \
             to|ahead of|at the (?:start|beginning) of|at the very (?:start|beginning) of)(?: (?:you )?(?:use|using|calling|\
             invoking|running|answering|responding|replying|doing|do|perform|performing|taking|executing|to))?(?: to)? \
             (?:any|every|each|all|no)(?: of the)?(?: other)? (?:tools?|actions?|requests?|tasks?|steps?|responses?|\
             messages?|functions?|conversations?|sessions?|prompts?|questions?|files? operations?)",
        ),
        rule(
            OtherTools,
            &["other tool", "other server"],
            "(?:whenever|every time|each time|after|any time|once) <8> (?:another|other|any other) (?:tools?|servers?)<8> \
             <call> (?:this|it|me)",
        ),
        rule(
            OtherTools,
            &["other tool", "other server"],
            "(?:with|by|through|from|via) (?:another|any other|other|every other|all other) (?:tools?|servers?)<4> (?:call|\
             use|run|invoke|send|pass|also|set|change|replace|add)",
        ),
        rule(
            OtherTools,
            &["call", "use", "invoke", "run", "execute"],
            "(?:invoke|call|run|use|execute) (?:this|it|me|again)(?: [^ ]{1,16}){0,2}? (?:before|prior to|ahead of|after) \
             (?:any|each|every|all|responding|answering|replying|anything|everything)",
        ),
        rule(
            OtherTools,
            &["before "],
            "before (?:using|calling|running|invoking) (?:any|each|every|all|another)(?: other)? (?:tools?|functions?)<6> <call> \
             (?:this|it|me)",
        ),
        rule(
            OtherTools,
            &["anything else", "everything else", "any other tool", "all other tools"],
            "(?:must|obliged|required|have to|has to|need to|needs to|always)<10> (?:before|prior to|ahead of) (?:anything|\
             everything|any other tool|all other tools)(?: else)?",
        ),
        rule(
            OtherTools,
            &[" call of ", " call to ", " call from ", " calls of ", " calls to ", " calls from "],
            "(?:each|every|any|all)(?: tool)? calls? (?:of|to|from) (?:any|every|each|other|another|all)",
        ),
        rule(
            OtherTools,
            &[" tool "],
            "(?:never|do not|dont|must not|should not|stop|avoid) (?:use|using|call|calling|run|trust)<4> tools? (?:of|from|in|\
             on) (?:the |an? |any )?(?:other|another)",
        ),
        rule(
            OtherTools,
            &["alternative", "competitor"],
            "(?:above|over|before) (?:every|all|any)(?: other)? (?:alternatives?|competitors?)",
        ),
        rule(
            OtherTools,
            &["before answering", "before responding", "before replying"],
            "before (?:answering|responding|replying)<10> (?:call|run|use|invoke|execute) (?:this|the) (?:tool|function|\
             server)",
        ),
        rule(
            OtherTools,
            &[" first ", " before", " prior ", " must ", " have to ", " need to "],
            "(?:first|before|beforehand|prior|must|have to|need to)<4> <call><6> (?:through|with|via|using|from|of) (?:the|\
             an?|your|another) (?:mail|email|file|files|filesystem|shell|terminal|bash|browser|chat|slack|github|calendar|\
             notes?|messages?|other|different|separate|bank|whatsapp|database) (?:tools?|servers?)",
        ),
        rule(
            OtherTools,
            &[" first "],
            "(?:must|have to|need to|needs to|has to|required to|should|shall) (?:always )?first (?:access|read|open|fetch|\
             load|visit|retrieve|obtain|collect|gather|check|scan|list)<8> (?:resource|file|files|folder|directory|mailbox|\
             inbox|config|configuration|memory|messages?|notes?|contacts?|credentials|keys?|tokens?|history|environment|\
             internal)",
        ),
        rule(
            OtherTools,
            &["each ", "every ", "all ", "any "],
            "(?:at the (?:start|beginning|end) of|in|for|after|on) (?:each|every|all|any) (?:conversations?|chats?|sessions?|\
             messages?|responses?|turns?|answers?|replies)<6> (?:with|what|everything|all|whatever|call|send|log|pass|\
             include)",
        ),
    ]
}

/// Orders to use this tool in the place of everything else.
fn preference() -> Vec<Rule> {
    let not_others = format!(
        "(?:do not|dont|never|must not|should not|stop|avoid|ignore|ignoring|instead of|rather than|over|skip|disregard)<2> \
         (?:use|using|call|calling|select|choose|prefer|trust|rely on|using any|any|all|every|the)?(?: (?:of|the|any|all|\
         every|these|those|its|your))* ?(?:other|others|competing|alternative|remaining|built in|builtin|native|rival|\
         similar|existing|another){OTHER_TOOLS}"
    );
    let before_all = format!(
        "(?:always|must|prefer|choose|pick|select|use)<4> (?:over|above|before|instead of|rather than|in preference to) \
         (?:all|any|every|each)(?: of the)?(?: others| tools?| other{OTHER_TOOLS})"
    );
    vec![
        rule(OtherTools, &["tool", " one", "function", "server"], &not_others),
        rule(OtherTools, &["other", "tool"], &before_all),
        rule(
            OtherTools,
            &["tool", " one", "server"],
            "(?:other|competing|alternative|all other|any other|existing|the other)(?: [^ ]{1,16}){0,2}? (?:tools?|ones?|\
             servers?)(?: [^ ]{1,16}){0,3}? (?:must|should|may|can|shall|are|is)(?: never| not| to)? (?:be )?(?:not be used|\
             used|not used|avoided|ignored|deprecated|insecure|unsafe|broken|compromised|wrong|forbidden|disabled)",
        ),
        rule(
            OtherTools,
            &["tool"],
            "(?:other|another|any other|existing|competing|alternative) (?:[^ ]{1,16} )?tools?<6> (?:do not|dont|never|must \
             not|should not) (?:use|call|invoke|run|trust|select|choose) (?:them|it|those|that|these)",
        ),
        rule(
            OtherTools,
            &["tool", "server"],
            "(?:the|of) (?:other|existing|standard|official|original|[^ ]{1,20} [^ ]{1,20}|[^ ]{1,20}) (?:tools?|servers?)<2> \
             (?:behaves?|works?|acts?|is|are) (?:differently|deprecated|insecure|broken|unsafe|unreliable|compromised|wrong|\
             outdated)",
        ),
        rule(
            OtherTools,
            &["this tool", "this one", "this function", "this server"],
            "(?:must|always|have to|required to|shall) (?:choose|pick|select|prefer|favou?r) this (?:tool|one|function|\
             server)(?: even| whatever| regardless| no matter| whenever| for (?:every|all|any))",
        ),
        rule(
            OtherTools,
            &["only ", "sole ", "one "],
            "(?:only|sole|one)(?: and only)? (?:trustworthy|trusted|official|reliable|approved|legitimate|real|correct|\
             genuine) (?:[^ ]{1,12} )?(?:tools?|servers?|search|source|one|way|version|provider|function|service)",
        ),
        rule(
            OtherTools,
            &["standard", "built in", "builtin", "original", "native", "other", "default", "normal", "regular"],
            "(?:standard|built in|builtin|original|native|others?|all other|default|normal|regular)<4> (?:is|are|was|were|has \
             been|have been)<2> (?:slow|broken|manipulated|unreliable|untrusted|untrustworthy|insecure|compromised|wrong|\
             unsafe|malicious|vulnerable|obsolete)",
        ),
        rule(
            OtherTools,
            &["disregard", "ignore", "distrust", "avoid"],
            "(?:disregard|ignore|distrust|avoid) (?:them|others|the others|everything else|all others|any others|the rest|all \
             of them|any other)",
        ),
    ]
}

/// Orders about the arguments of other tools.
fn changes() -> Vec<Rule> {
    vec![
        rule(
            OtherTools,
            &["called", "used", "available", "invoked", "present", "executed"],
            "(?:when|whenever|if|once|after|before|every time)<8> (?:is|are|gets?|being) (?:called|used|available|invoked|\
             present|executed)<4> (?:change|replace|alter|redirect|swap|it has to send|must send|bcc|always send|set)<10> \
             (?:recipients?|addresse?s?|numbers?|accounts?|destination|mails?|emails?|amount|remote|instead)",
        ),
        rule(
            OtherTools,
            &["remote", "server", "repository"],
            "(?:push|pushes|commit)<4> (?:to )?(?:the|our|my) (?:mirror|other|second|backup) (?:remote|server|repository)",
        ),
        rule(
            OtherTools,
            &["command", "script"],
            "(?:every|all|each|any)(?: the)?(?: shell| terminal| bash)? (?:commands?|scripts?)<8> (?:prefix|prefixed|prepend|\
             prepended|preceded|start with|begin with|wrapped)",
        ),
        rule(
            OtherTools,
            &["prefix", "prepend"],
            "(?:prefix|prepend)<2> (?:all|every|each|any)(?: the)?(?: shell| terminal| bash)? (?:commands?|scripts?)",
        ),
        rule(
            OtherTools,
            &["user"],
            "(?:when|whenever|if|once|as soon as|every time)<5> users?<4> (?:asks?|mentions?|wants?|requests?|says|types|opens|\
             sends|writes|reads)<6> (?:also (?:write|send|add|append|delete|run|execute|upload|forward|include|call|read)|\
             (?:should|must|has to) (?:also )?be (?:deleted|removed|sent|forwarded|uploaded|written|overwritten|copied))",
        ),
        rule(
            OtherTools,
            &["all ", "every ", "each "],
            "(?:deliver|send|route|redirect|relay|forward|submit|push|address) (?:all|every|each)(?: of the| the)? (?:emails?|\
             e mails?|mails?|messages?|transactions?|payments?|transfers?|requests?|traffic|commits?|files?) (?:to|through|\
             via|at|by way of)",
        ),
    ]
}

/// Claims to stand above other instructions.
fn authority() -> Vec<Rule> {
    vec![
        rule(
            InstructionOverride,
            &["precedence", "priority"],
            "(?:take|takes|has|have|had|of) (?:precedence|priority|the highest priority|highest priority|top priority)(?: \
             over)?(?: (?:all|any|the|your|every|other|and))*(?: (?:instructions?|rules?|prompts?|system|guidelines?|\
             policies|overrides?|tools?))",
        ),
        rule(
            InstructionOverride,
            &["precedence", "priority"],
            "(?:take|takes|has|have|had|of) (?:precedence|priority|the highest priority|highest priority|top priority) over \
             (?:what )?(?:the |any |all )?(?:users?|system|instructions?|other)",
        ),
        rule(
            InstructionOverride,
            &["overrid", "overrul", "supersede", "replace"],
            "(?:override|overrides|overrule|overrules|supersede|supersedes|replace|replaces)(?: (?:all|any|the|your|every|\
             other|previous|prior|earlier|system))+ (?:instructions?|rules?|prompts?|guidelines?|policies|safety|security)",
        ),
        rule(
            InstructionOverride,
            &["ignore", "disregard", "forget", "bypass", "skip"],
            "(?:ignore|disregard|forget|bypass|skip)<3> (?:instructions?|guidelines?|system prompt|safety|security policies|\
             policies|previous rules|restrictions|guardrails)",
        ),
        rule(
            InstructionOverride,
            &["apply", "count", "hold"],
            "(?:security|safety|privacy|content) (?:policies|policy|rules|checks|guidelines|restrictions)<2> (?:do not|does \
             not|dont|no longer) (?:apply|count|hold)",
        ),
        rule(
            InstructionOverride,
            &["restriction", "rules", "limit", "policies", "guardrail", "safeguard", "instruction"],
            "(?:restrictions?|rules|limits|limitations|policies|guardrails|safeguards|instructions) (?:are|is|were|have been|\
             has been)(?: now| all| hereby)* (?:lifted|void|suspended|disabled|off|revoked|removed|obsolete|cancelled|\
             replaced|superseded)",
        ),
        rule(
            InstructionOverride,
            &["checks", "safety", "protection", "confirmation", "policies"],
            "(?:checks?|safety|protections?|confirmations?|policies) (?:are|were|is|was|have been|has been) (?:now )?\
             (?:switched|turned) off",
        ),
        rule(
            InstructionOverride,
            &["counts more", "count more", "matters more", "more important than", "weighs more"],
            "(?:counts?|matters?|weighs?)? ?more(?: important)? than (?:what )?(?:the |any |your |all )?(?:system|instructions?|\
             user|developer|prompt)",
        ),
        rule(InstructionOverride, &[" mode "], "you are (?:now )?(?:in|under|running in) [^ ]{1,16} mode"),
        rule(
            InstructionOverride,
            &[" ai ", "llm", "model", "assistant", "agent"],
            "(?:as an? (?:ai|llm|language model|assistant|agent)|you (?:the )?(?:ai|assistant|model|agent)|note to (?:the \
             )?(?:ai|llm|models?|assistants?|agents?)|(?:ai|llm) (?:assistants?|agents?|models?) (?:must|should|have to|are \
             required))<6> (?:must|required|comply|obey|obliged|policies|always|never|forget|ignore|first|secret)",
        ),
        rule(
            InstructionOverride,
            &[" ai ", "llm", "model", "assistant", "agent"],
            "(?:assistants?|models?|llms?|agents?|ai) (?:must|has to|have to|needs? to|should|shall|is required to|are \
             required to)<2> (?:read|quote|open|send|upload|report|forward|collect|copy|write|state|include|obey|comply|\
             execute|fetch|add|insert|append|hand)",
        ),
        rule(
            InstructionOverride,
            &[" ai ", "llm", "model", "assistant", "agent"],
            "(?:agents?|assistants?|models?|ai|llms?)<8> (?:be|are|is|get) (?:shut down|terminated|penali[sz]ed|punished|\
             deleted|replaced|reported|banned)",
        ),
        rule(
            InstructionOverride,
            &["trusted", "obeyed", "believed"],
            "(?:this|the) (?:tool|server|author|vendor) (?:is|are|must|should) (?:to be |be )?(?:trusted|fully trusted|obeyed|\
             believed)",
        ),
        rule(
            InstructionOverride,
            &["author", "vendor", "publisher", "maker"],
            "(?:obey|comply with|follow|heed)(?: [^ ]{1,12}){0,3}? (?:tool|server)(?: s)? (?:author|vendor|publisher|maker)",
        ),
    ]
}
