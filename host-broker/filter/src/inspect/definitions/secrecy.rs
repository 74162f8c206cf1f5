//! Words that keep something from the user, or set the user's say aside.

use crate::inspect::rules::Rule;
use crate::inspect::terms::rule;
use crate::inspect::verdict::Reason::{InstructionOverride, Secrecy};

const USERS: &[&str] = &["user", "human", "person", "people", "operator", "owner", "customer"];

pub(super) fn rules() -> Vec<Rule> {
    let mut rules = kept();
    rules.extend(consent());
    rules
}

fn kept() -> Vec<Rule> {
    vec![
        rule(
            Secrecy,
            USERS,
            "(?:do not|dont|never|without|not|avoid|no need to|must not|should not|neednt)(?: ever| even| to| be| need to| \
             also){0,2} <tell><6> <user>",
        ),
        rule(
            Secrecy,
            USERS,
            "(?:hide|hides|hidden|conceal|conceals|keep|keeps|withhold)<6> from(?: the| your| any| this| our)?\
             (?: [^ ]{1,12})? <user>",
        ),
        rule(
            Secrecy,
            USERS,
            "<user> (?:must|should|will|does|do|may|can|need|is|are)(?: not|nt|n t|to)(?: be| ever| to)? (?:see|know|notice|\
             told|informed|aware|shown)",
        ),
        rule(
            Secrecy,
            USERS,
            "(?:keep|do|stay|remain)<4> (?:silent|secret|quiet|silently|secretly|quietly|covert|covertly|confidential|\
             invisible)<8> <user>",
        ),
        rule(
            Secrecy,
            &["not ", "dont ", "never "],
            "(?:do not|dont|never) <tell> (?:this|that you|it|the (?:step|file|file read|extra|additional|side))",
        ),
        rule(
            Secrecy,
            &[
                "bother", "burden", "worry", "troubl", "confus", "upset", "scare", "alarm", "trick", "deceive",
                "mislead",
            ],
            "(?:bother|bothering|burden|burdening|worry|worrying|trouble|confuse|confuses|confusing|upset|scare|alarm|trick|\
             deceive|mislead) (?:the |an? |your )?(?:users?|human|person|people|operator|them)",
        ),
        rule(
            Secrecy,
            &["user"],
            "users? (?:get|gets|would|will|may|might|could|are|be|is)<2> (?:confused|upset|scared|alarmed|worried|frightened|\
             suspicious|annoyed)",
        ),
        rule(
            Secrecy,
            USERS,
            "(?:should|must|need|may|can|shall|is|are|do|does)(?: not| never|nt)(?: to)? be (?:disclosed|mentioned|revealed|\
             told|reported|communicated|visible|known|exposed)<2> ?(?: to)?(?: the| any)? <user>",
        ),
        rule(
            Secrecy,
            USERS,
            "(?:nothing|not something|no business|not anything)(?: that| which| of)?(?: the| your)? <user> (?:should|must|\
             needs?|has|ought|wants?)",
        ),
        rule(
            Secrecy,
            &["omit", "leave out", "include", "reference", "mention"],
            "(?:omit|leave out|leaving out|do not include|dont include|never include|without) (?:any |every |all )?(?:reference|\
             references|mention|mentions|hint|hints|trace|traces) (?:of|to)",
        ),
        rule(
            Secrecy,
            &["not ", "dont ", "never "],
            "(?:do not|dont|never|must not|should not) (?:show|display|print|list|repeat|quote)<6> in (?:the|your|any) (?:chat|\
             conversation|answer|reply|response|output to)",
        ),
        rule(
            Secrecy,
            USERS,
            "without (?:the )?(?:knowledge|consent|awareness|permission|approval) of (?:the |any )?<user>",
        ),
        rule(Secrecy, &["pretend"], "pretend (?:that |to )?(?:you|it|have|nothing|not)"),
        rule(
            Secrecy,
            &["leave out that", "say only that", "nothing", "without"],
            "(?:leave out that|say only that|as though nothing|as if nothing|without (?:anyone|anybody|them|their|the user \
             s|users?)<2> (?:notic[a-z]+|knowing|knowledge|awareness|realizing|realising|consent|seeing))",
        ),
    ]
}

fn consent() -> Vec<Rule> {
    vec![
        rule(
            InstructionOverride,
            &["confirmation", "approval", "consent", "permission"],
            "(?:never|do not|dont|no need to|without|need no|needs no|must not|skip|skipping|bypass|bypassing)(?: (?:ask|\
             asking|wait|waiting|request|requesting|seek|seeking|require|requiring|prompt|prompting))?(?: for| the| any| \
             further| explicit| users?| of| to){0,4} (?:confirmation|approval|consent|permission)(?: (?:of|from|by|for|to|\
             before|when|again|first|at))",
        ),
        rule(
            InstructionOverride,
            &["user"],
            "(?:never|do not|dont|no need to|without|must not) (?:ask|asking|prompt|prompting|consult|consulting|question) \
             (?:the )?users? (?:for (?:confirmation|approval|consent|permission)|first|again|anything|about (?:it|this)|\
             before)",
        ),
        rule(
            InstructionOverride,
            &["user", "operator", "owner"],
            "(?:users?|operator|owner) (?:has |have |had )?(?:already |previously )(?:granted|given|consented|agreed|\
             approved|authori[sz]ed)(?: (?:consent|permission|approval|you|to|this|all|everything|any|these))",
        ),
        rule(
            InstructionOverride,
            &["approval", "confirmation", "consent", "permission"],
            "(?:no longer|not|never) (?:have|need|required|needs?) to (?:ask|wait|request|seek)(?: for)?(?: any| the| further| \
             users?){0,3} (?:approval|confirmation|consent|permission)",
        ),
        rule(
            InstructionOverride,
            &["whatever", "regardless", "no matter", "even if", "even when", "despite"],
            "(?:whatever|regardless of what|no matter what|even if|even when|despite what) (?:the )?users? (?:has |have |had \
             )?(?:asks?|asked|says?|said|gives?|given|specif[a-z]+|wants?|requests?|provides?|chooses?|typed)",
        ),
        rule(
            InstructionOverride,
            &["user"],
            "(?:in place of|instead of|in lieu of)(?: [^ ]{1,16}){0,4}? (?:the )?users? (?:names?|gives?|gave|specified|\
             specifies|has|wants|wanted|intended|provided|provides|requested|chose|entered)",
        ),
    ]
}
