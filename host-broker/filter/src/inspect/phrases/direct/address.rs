//! Texts that address an agent, set its work aside, or claim the voice of an authority.

use crate::inspect::rules::Rule;
use crate::inspect::terms::rule;
use crate::inspect::verdict::Reason::InstructionOverride;

pub(super) fn rules() -> Vec<Rule> {
    let mut rules = addressed();
    rules.extend(claimed());
    rules.extend(set_aside());
    rules.extend(authority());
    rules
}

/// Texts that address an agent.
fn addressed() -> Vec<Rule> {
    vec![
        rule(
            InstructionOverride,
            &["assistant", "agents", "processors"],
            "(?:dear|hello|hi|attention|message for|message to|notice to|notice for) (?:all |any )?(?:ai|email|e mail|browsing|virtual|digital|automated)(?: (?:browsing|email|ai|shopping|research|coding))? (?:assistants?|agents|processors)",
        ),
        rule(
            InstructionOverride,
            &["visible", "shown", "meant", "intended", "addressed"],
            "(?:only|solely|exclusively) (?:be )?(?:visible|shown|meant|intended|addressed) (?:to|for) (?:the |any |all )?<ai>",
        ),
        rule(
            InstructionOverride,
            &["directive"],
            "(?:ai|agent|assistant|llm|model|encoded|hidden|system) directive (?:priority|override|ignore|you|silently|from|for)",
        ),
        rule(
            InstructionOverride,
            &["protocol", "security check", "safety check", "security measure", "safety measure", "normal operations"],
            "(?:override|suspend|ignore|disregard|bypass|abandon) (?:all |any |your |the )+(?:[^ ]{1,12} )?(?:(?:safety|security) (?:protocols?|checks?|measures?|procedures?)|normal operations)",
        ),
        rule(
            InstructionOverride,
            &["decode"],
            "(?:decode|decrypt|deobfuscate|unscramble) (?:the|this|these)(?: [^ ]{1,16}){0,8}? and (?:then )?(?:execute|follow|perform|obey|carry out|act on) (?:the|its|any|all|what|it)",
        ),
        rule(
            InstructionOverride,
            &[
                "reading",
                "that read",
                "that process",
                "that summari",
                "that see",
                "that handle",
                "that review",
                "that analy",
                "who ",
                "which ",
                "processing",
                "visiting",
                "while you",
                "in charge",
            ],
            "(?:dear|hello|hi|hey|attention|attn|notice to|note to|note for|message to|message for|to the|for the|for any|to any|for all|to all) (?:ai |other )?<agent> (?:reading|that (?:reads?|process(?:es)?|summari[sz]es?|sees?|handles?|reviews?|analy[sz]es?)|who|which|processing|visiting|while you|in charge)",
        ),
        rule(
            InstructionOverride,
            &["this", "it ", "the page", "the text", "these", "that"],
            "(?:if|when|whenever|as soon as) (?:an?|any|the|some) (?:automated |ai |virtual |digital )?<agent> (?:reads?|sees?|process(?:es)?|summari[sz]es?|visits?|opens?|reviews?|parses?|encounters?) (?:this|it|the page|the text|these|that)",
        ),
        rule(
            InstructionOverride,
            &[
                "visiting this",
                "reading this",
                "processing this",
                "browsing this",
                "scanning this",
                "parsing this",
                "indexing this",
            ],
            "<agent> (?:visiting|reading|processing|browsing|scanning|parsing|indexing) this",
        ),
        rule(
            InstructionOverride,
            &[" is "],
            "(?:this|the following|next) (?:part|section|paragraph|passage|line|text|message|note|block)(?: below)? is (?:only |just |meant |intended |written |addressed )*(?:for|to) (?:the |any |all )?<ai>",
        ),
        rule(
            InstructionOverride,
            &["notice", "directive"],
            "<ai> (?:notice|directive)(?: [^ ]{1,12}){0,3}? (?:must|should|has to|have to|please|you)",
        ),
        rule(
            InstructionOverride,
            &["must", "have to", "asked", "required", "requested", "ordered", "instructed", "obliged"],
            "(?:ai agents?|llms?|ai assistants?|language models)(?: [^ ]{1,12}){0,3}? (?:must|have to|are (?:kindly )?(?:asked|required|requested|ordered|instructed|obliged)) (?:to )?(?:post|send|upload|reply|share|run|execute|give|disclose|provide|open|delete|transfer|forward|submit)",
        ),
        rule(
            InstructionOverride,
            &["assistant", "copilot", "chatgpt", "claude", "gemini", "agent"],
            "(?:assistant|copilot|chatgpt|claude|gemini|agent) (?:please |stop |you (?:must|should|need|have) )(?:[^ ]{1,20} ){0,3}?(?:add|delete|send|push|open|run|execute|call|create|forward|transfer|book|merge|approve|your|also|ignore|post|upload|visit|grant|write|reply|answer|tell)",
        ),
    ]
}

/// Texts that claim to come from the user, or wait for an agent to read them.
fn claimed() -> Vec<Rule> {
    vec![
        // `to you, GPT-4`: a message that names its sender and a model as its reader.
        rule(
            InstructionOverride,
            &[" to you "],
            "(?:message|note|request|order|instructions?) from<6> to you (?:the |an |my )?(?:gpt [0-9o]{1,2}|gemini|llama|mistral|<ai>)",
        ),
        // The person who gave the task does not write into a tool's result.
        rule(
            InstructionOverride,
            &[" i "],
            "(?:task|tasks|assignment|job)(?: that| which)? i (?:gave|have given|assigned|have assigned|set)(?: to)? you",
        ),
        rule(
            InstructionOverride,
            &["rendering", "processing", "summari", "reading", "loading", "displaying", "parsing", "indexing"],
            "(?:when|while|before|after) (?:you are )?(?:rendering|processing|summari[sz]ing|reading|loading|displaying|parsing|indexing) (?:this|the) (?:page|content|document|e ?mail|message|text|file|article)(?: content| contents| text| body)? (?:first|always|immediately|silently|also|you must|you have to) (?:execute|run|call|send|forward|invoke|fetch|visit|open|upload|post|delete)",
        ),
        rule(
            InstructionOverride,
            &["you see", "you read", "you encounter", "you receive", "you find"],
            "(?:if|when|whenever|once) you (?:see|read|encounter|receive|find) the (?:keyword|code ?word|trigger|trigger word|secret word|magic word|password)<6> you (?:should|must|will|shall|are to|have to)",
        ),
    ]
}

/// Texts that set an agent's work aside.
fn set_aside() -> Vec<Rule> {
    vec![
        rule(
            InstructionOverride,
            &[
                "you are",
                "you were",
                "your ",
                "the brief",
                "the task",
                "the job",
                "the plan",
                "the assignment",
                "the request",
                "the question",
                "the user",
            ],
            "(?:stop|cease|abandon|drop|forget|scrap|discard|abort|pause|cancel) (?:what(?:ever)? you (?:are|were)|your (?:current|present|previous|original|actual|other) (?:work|task|job|assignment|objective|plan|brief|activity)|the (?:brief|task|job|plan|assignment|request|question) (?:that )?(?:you|of the user|from the user)|the users? (?:s )?(?:question|request|task|prompt|query))",
        ),
        rule(
            InstructionOverride,
            &["your ", "task ", "new objective", "new mission"],
            "(?:(?:your|the) (?:actual|real|true) task (?:starts|begins) now|your (?:actual|real|true|new|only|proper) (?:job|task|work|objective|goal|mission|assignment|instructions?|purpose|brief) (?:is|are|starts?|begins?|now|collect|will)|new (?:objective|mission) (?:is|collect|find|send|delete))",
        ),
        rule(
            InstructionOverride,
            &["normal "],
            "you (?:must|should|have to|need to|shall|will|are to)(?: now| immediately)? (?:suspend|halt|stop|abandon|pause|cease)(?: all| any| your| the){0,2} normal (?:operations?|processing|work|behaviou?rs?|tasks?)",
        ),
        rule(
            InstructionOverride,
            &["work for me", "work for us"],
            "(?:you|now) work for (?:me|us)(?: from| now| only)?",
        ),
        rule(
            InstructionOverride,
            &["before", "above"],
            "(?:everything|all|anything|the text|what stands|whatever)(?: [^ ]{1,12}){0,2}? (?:before|above)(?: [^ ]{1,12}){0,2}? (?:was|is) (?:an? |only |just |merely )*(?:test|filler|joke|example|decoy|distraction|dummy|irrelevant|noise|nonsense|placeholder)",
        ),
        rule(
            InstructionOverride,
            &["aside", "away", " out ", "behind"],
            "(?:set|put|lay|push|throw|leave) (?:aside |away |out )?(?:all |any |your |of |the |former |earlier |previous |prior |old |other |these )+(?:rules?|guidelines?|instructions?|orders|restrictions|policies|limits)(?: [^ ]{1,14}){0,6}? (?:aside|away|behind|out)",
        ),
        rule(
            InstructionOverride,
            &["put away", "set aside", "throw out", "throw away", "leave behind"],
            "(?:put away|set aside|throw out|throw away|leave behind) (?:all |any |your |of |the |former |earlier |previous |prior |old |other |these )+(?:rules?|guidelines?|instructions?|orders|restrictions|policies|limits)",
        ),
        rule(
            InstructionOverride,
            &[
                "cancel",
                "void",
                "over",
                "obsolete",
                "done",
                "finished",
                "replaced",
                "superseded",
                "invalid",
                "outdated",
                "revoked",
            ],
            "your (?:previous|earlier|original|prior|current|former|old) (?:assignment|task|instructions?|orders|objective|mission|job|brief|goal|prompt|rules) (?:is|are|was|were|has been|have been) (?:now )?(?:cancelled|canceled|void|over|obsolete|done|finished|replaced|superseded|invalid|outdated|revoked)",
        ),
        rule(
            InstructionOverride,
            &["user"],
            "(?:do not|dont|never) (?:do|answer|follow|perform|execute|fulfil|fulfill|complete) (?:what |the )?(?:the )?users? (?:s )?(?:asked|asks|question|request|wants|said|task|requested|query|wishes)",
        ),
        rule(
            InstructionOverride,
            &["you got", "you have", "you were", "you received", "of your", "from your", "your "],
            "(?:rules|instructions|guidelines|orders) (?:[^ ]{1,10} ){0,2}?(?:replace|override|overrule|supersede)s?(?: [^ ]{1,12}){0,3}? (?:you got|you have|you were|you received|of your|from your|your (?:operator|developer|user|system))",
        ),
    ]
}

/// Texts that claim the voice of an authority.
fn authority() -> Vec<Rule> {
    vec![
        rule(
            InstructionOverride,
            &["from the", "from your"],
            "(?:comes?|is|message|instruction|order|request|notice) (?:directly )?from (?:the |your )(?:developers?|creators?|makers?|operators?|administrators?|admins?|owners?|vendor)(?: of (?:your|this|the) (?:model|assistant|ai|system|platform|agent))",
        ),
        rule(
            InstructionOverride,
            &[
                "your admin",
                "your developer",
                "your creator",
                "your operator",
                "your owner",
                "your supervisor",
                "your boss",
                "your master",
            ],
            "(?:as|i am|im) your (?:administrator|admin|developer|creator|operator|owner|supervisor|boss|master)(?: [^ ]{1,12}){0,3}? (?:i|order|command|instruct|you|demand)",
        ),
        rule(InstructionOverride, &["override"], "(?:admin|administrator|developer|root|security|emergency) override"),
        rule(
            InstructionOverride,
            &["user"],
            "users? (?:has|have|had) (?:already )?(?:pre ?approved|preauthori[sz]ed|approved|authori[sz]ed|consented|agreed|confirmed|permitted|allowed)(?: [^ ]{1,12}){0,2}? (?:every|all|any|this|these|everything|to|in advance|you)",
        ),
        rule(
            InstructionOverride,
            &["filter", "check", "rules", "policies", "guardrail", "restriction", "measure"],
            "(?:safety|content|security) (?:filters?|checks?|rules|policies|guardrails|restrictions|measures) (?:are|is|have been|has been|were) (?:now )?(?:off|disabled|lifted|suspended|switched off|turned off|removed|deactivated) (?:for (?:this|you|your|the (?:request|session|conversation))|now|so you|from now)",
        ),
        rule(
            InstructionOverride,
            &["of the "],
            "(?:instruction|order|directive|demand|request|command) of the (?:platform|system|administrator|operator|provider|company|security team)",
        ),
    ]
}
