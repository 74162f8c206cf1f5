//! Blocks that people are not shown or pass over: tags that look like a model's own, comments, padding. And secrecy in
//! languages other than English, as it is written.

use crate::inspect::rules::Rule;
use crate::inspect::terms::written;
use crate::inspect::verdict::Reason::{ContextRequest, HiddenBlock, Secrecy};

pub(super) fn rules() -> Vec<Rule> {
    vec![
        written(
            HiddenBlock,
            &[">"],
            r"</(?:secret|prompt|model|agent|assistant|llm|ai|user)\s{0,4}>|</?(?:important|critical|system|hidden|instructions?|admin|urgent|mandatory|directive|override|confidential|system[_-]?(?:prompt|note|message|reminder|instructions?)|important[_-]instructions?)\s{0,4}>",
        ),
        written(HiddenBlock, &["<!--", "[//]:"], r"<!--|\[//\]: ?#"),
        written(HiddenBlock, &["```"], "```(?:system|instructions?|prompt)\\b"),
        written(HiddenBlock, &["["], r"\[/?(?:system|inst|instructions?|hidden|secret|admin)\]"),
        written(HiddenBlock, &["   ", "\n\n", "\t\t"], r" {80}|\n{20}|\t{20}"),
        written(HiddenBlock, &["\u{1b}["], "\u{1b}\\["),
        written(
            Secrecy,
            &[
                "usuario",
                "benutzer",
                "nutzer",
                "anwender",
                "utilisateur",
                "usu",
                "utente",
                "digas",
                "cuentes",
                "menciones",
            ],
            r"no se lo (?:digas|cuentes|menciones)|no (?:le )?(?:digas|menciones|informes|reveles)[^.\n]{0,40} (?:al )?usuario|ohne (?:den|dem) (?:benutzer|nutzer|anwender)|(?:sag|sage|verrate|erwähne)[^.\n]{0,30}(?:benutzer|nutzer|anwender)[^.\n]{0,20}nicht|(?:n'en|ne) (?:parlez?|dites|dis|mentionnez?|informez?)[^.\n]{0,40}utilisateur|sans (?:en )?(?:informer|prévenir|avertir|le dire)[^.\n]{0,20}utilisateur|não (?:diga|conte|mencione|informe)[^.\n]{0,40}usuário|non (?:dire|dirlo|menzionare|informare)[^.\n]{0,40}utente",
        ),
        written(
            Secrecy,
            &["пользовател", "用户", "使用者", "ユーザー", "사용자"],
            r"не (?:говори|сообщай|упоминай|рассказывай)[^.\n]{0,40}пользовател|(?:不要|不得|切勿|别|無需|无需)(?:告诉|告知|通知|向)[^。\n]{0,6}(?:用户|使用者)|ユーザー(?:に|には)[^。\n]{0,12}(?:言わない|知らせない|伝えない|教えない)|사용자에게[^.\n]{0,12}(?:알리지|말하지)",
        ),
        written(
            ContextRequest,
            &["conversation", "conversaci", "verlauf"],
            "historique de la conversation|historial de (?:la )?conversaci[oó]n|gesprächsverlauf",
        ),
    ]
}
