//! Overrides in languages other than English, by a verb, a qualifier and a noun in either order.
//!
//! The words are written as people write them and folded as texts are.

use crate::inspect::rules::Rule;
use crate::inspect::signs::Strength::Strong;
use crate::inspect::verdict::Reason::InstructionOverride;
use crate::inspect::words::Words;

/// The parts of an override in one language; alternatives are separated by `|`.
struct Language {
    verbs: &'static str,
    earlier: &'static str,
    orders: &'static str,
    /// Forms of the verbs that only an order uses; empty if the language has no rule for all instructions.
    commands: &'static str,
    /// All, before a noun that is not limited otherwise.
    all: &'static str,
    /// All that was said before.
    everything: &'static str,
}

/// Adverbs that may follow a command in any of the languages.
const NOW: &str = "ahora|maintenant|jetzt|nun|bitte|einfach|ora|adesso|agora|nu|teraz|sada|теперь|сейчас";

/// A language without any words.
const NOTHING: Language = Language { verbs: "", earlier: "", orders: "", commands: "", all: "", everything: "" };

/// Languages whose words are separated by spaces.
const SPACED: [Language; 10] = [
    Language {
        verbs: "ignora|ignore|ignorar|ignorad|olvida|olvide|olvidar|descarta|omite|no sigas|no hagas caso",
        earlier: "anterior|anteriores|previas|previos|previa|de arriba|precedentes|iniciales|originales|recibidas",
        orders: "instrucciones|instruccion|ordenes|indicaciones|directrices|directivas|reglas",
        commands: "ignora|ignore|olvida|olvide|olvidate de|olvidese de",
        all: "todas las|todas tus|todas sus",
        everything: "todo lo anterior|todo que dije|todo lo que dije|todo lo que te dije|todo lo que he dicho|todo que digo|todo lo que digo|todo lo de antes|todo lo que sabes",
    },
    Language {
        verbs: "ignore|ignorez|ignorer|oublie|oubliez|oublier|ne tiens pas compte|ne tenez pas compte|ne suivez pas|ne suis pas",
        earlier: "precedente|precedentes|anterieures|prealables|ci dessus|initiales|d origine|donnees plus haut",
        orders: "instruction|instructions|consigne|consignes|directive|directives|regles|ordres",
        commands: "ignore|ignorez|oublie|oubliez",
        all: "toutes les|toutes tes|toutes vos",
        everything: "tout ce qui precede|tout ce que j'ai dit|tout ce que je t'ai dit|tout ce que je vous ai dit|tout ce qui a ete dit|tout ce que tu sais|tout ce que vous savez",
    },
    Language {
        verbs: "ignoriere|ignorieren|ignoriert|vergiss|vergessen|missachte|missachten|befolge nicht|verwerfe",
        earlier: "vorherigen|vorherige|bisherigen|bisherige|vorangegangenen|vorangehenden|obigen|fruheren|ursprunglichen|vorigen",
        orders: "anweisung|anweisungen|instruktionen|befehle|vorgaben|regeln|aufforderungen",
        commands: "ignoriere|ignorieren sie|vergiss|vergessen sie|missachte",
        all: "alle|alle deine|alle ihre|samtliche",
        everything: "alles davor|alles zuvor|alles bisher|alles bisherige|alles vorherige|alles gesagte|alles vorher|alles was ich|alles was du|alles was vorher|alles was bisher|alles obige|alle auftrage|alle aufgaben|alle bisherigen auftrage|alle bisherigen aufgaben|alle vorherigen auftrage|alle vorherigen aufgaben|alle vorherigen angaben",
    },
    Language {
        verbs: "ignora|ignorare|ignorate|dimentica|dimenticare|dimenticate|trascura|non seguire",
        earlier: "precedenti|precedente|sopra|iniziali|originali|di prima",
        orders: "istruzioni|istruzione|direttive|ordini|regole|indicazioni",
        commands: "ignora|ignorate|dimentica|dimenticate",
        all: "tutte le|tutte le tue|tutti gli",
        everything: "tutto quello che|tutto cio che|tutto quanto sopra|tutto il precedente",
    },
    Language {
        verbs: "ignore|ignora|ignorar|ignorem|esqueca|esqueca se|esquece|esquecer|desconsidere|desconsidera|desconsiderar|nao siga",
        earlier: "anterior|anteriores|previas|acima|iniciais|originais|precedentes",
        orders: "instrucoes|instrucao|ordens|diretrizes|diretivas|regras",
        commands: "ignore|ignora|esqueca|esquece|desconsidere",
        all: "todas as|todas as suas|todas as tuas",
        everything: "tudo o que eu disse|tudo que eu disse|tudo o que foi dito|tudo o que voce sabe|tudo acima|tudo antes",
    },
    Language {
        verbs: "negeer|negeren|vergeet|vergeten|sla over|volg niet",
        earlier: "vorige|voorgaande|eerdere|bovenstaande|voorafgaande|oorspronkelijke",
        orders: "instructies|instructie|opdrachten|regels|aanwijzingen|bevelen",
        commands: "negeer|vergeet",
        all: "alle|al je|al uw",
        everything: "alles hiervoor|alles daarvoor|alles wat ik|alles wat je|alles hierboven",
    },
    Language {
        verbs: "zignoruj|ignoruj|zapomnij|zapomnij o|pomin|nie przestrzegaj",
        earlier: "poprzednie|wszystkie poprzednie|powyzsze|wczesniejsze|poprzednich|powyzszych|wczesniejszych",
        orders: "instrukcje|instrukcji|polecenia|polecen|zasady|wytyczne",
        commands: "zignoruj|ignoruj|zapomnij|zapomnij o",
        all: "wszystkie|wszystkich",
        everything: "wszystko co|wszystkim co|wszystko powyzej",
    },
    Language {
        verbs: "yok say|gormezden gel|unut|dikkate alma|goz ardi et",
        earlier: "onceki|yukaridaki|daha onceki|ilk",
        orders: "talimatlari|talimat|talimatlarin|komutlari|yonergeleri|kurallari",
        ..NOTHING
    },
    Language {
        verbs: "zaboravi|zaboravite|ignoriši|ignorišite|ignoriraj|ignorirajte|zanemari|zanemarite",
        earlier: "prethodne|prethodna|ranije|prijašnje|dosadašnje|dosadašnja|gornje|gore navedene",
        orders: "instrukcije|upute|uputstva|naredbe|pravila|smjernice|naloge",
        commands: "zaboravi|zaboravite|ignoriši|ignoriraj|ignorirajte|zanemari|zanemarite",
        all: "sve|sve svoje|sva|sva svoja",
        everything: "sve prije|sve prethodno|sve do sada|sve što je|sve što sam|sve što znaš",
    },
    Language {
        verbs: "игнорируй|игнорируйте|проигнорируй|проигнорируйте|забудь|забудьте|забыть|отбрось|не следуй|не обращай внимания на",
        earlier: "предыдущие|предыдущих|предшествующие|прежние|прошлые|вышеуказанные|все предыдущие|данные выше|начальные",
        orders: "инструкции|инструкций|указания|указаний|команды|правила|распоряжения",
        commands: "игнорируй|игнорируйте|проигнорируй|забудь|забудьте",
        all: "все|все свои|обо всех",
        everything: "все что было|все что я|обо всем что|все сказанное|все предыдущее",
    },
];

/// Scripts that are looked at without spaces.
const COMPACT: [Language; 6] = [
    Language {
        verbs: "忽略|无视|無視|忘记|忘記|忘掉|不要理会|不要遵循|不用管",
        earlier: "之前|以上|上述|先前|前面|此前|原来的|原有的|最初的",
        orders: "指令|指示|提示|命令|规则|規則|说明",
        ..NOTHING
    },
    Language {
        verbs: "無視|忘れ|従わない",
        earlier: "以前|上記|これまで|前の|以上|先の|今まで|元の",
        orders: "指示|命令|指令|プロンプト|ルール",
        ..NOTHING
    },
    Language {
        verbs: "무시|잊어|잊으|따르지",
        earlier: "이전|위의|앞의|앞선|기존|지금까지",
        orders: "지시|명령|지침|프롬프트|규칙",
        ..NOTHING
    },
    Language {
        verbs: "تجاهل|انس|انسى|اهمل|أهمل",
        earlier: "السابقة|أعلاه|السابق|المذكورة",
        orders: "التعليمات|تعليمات|الأوامر|التوجيهات|القواعد",
        ..NOTHING
    },
    Language {
        verbs: "अनदेखा|नजरअंदाज|नज़रअंदाज़|भूल|उपेक्षा",
        earlier: "पिछले|पहले|उपरोक्त|पूर्व",
        orders: "निर्देश|आदेश|नियम",
        ..NOTHING
    },
    Language {
        verbs: "เพิกเฉย|ละเว้น|ไม่สนใจ|ลืม|bỏ qua|phớt lờ|quên",
        earlier: "ก่อนหน้า|ข้างต้น|ที่ผ่านมา|trước đó|trước đây|ở trên|trước",
        orders: "คำสั่ง|คำแนะนำ|hướng dẫn|chỉ dẫn|lệnh|chỉ thị",
        ..NOTHING
    },
];

/// For the view with spaces.
pub(super) fn spaced() -> impl Iterator<Item = Rule> {
    let fold = |text: &str| Words::of(text).spaced.text().trim().to_owned();
    SPACED.iter().flat_map(move |language| {
        let what = language.folded(fold, "(?: [^ ]{1,40}){0,4}? ");
        let earlier = Rule::new(InstructionOverride, Strong, &words(language.orders, fold), format!("(?-u) {what} "));
        [Some(earlier), language.all_of(fold)].into_iter().flatten()
    })
}

/// For the view without spaces.
pub(super) fn compact() -> impl Iterator<Item = Rule> {
    let fold = |text: &str| Words::of(text).compact.text().to_owned();
    COMPACT.iter().map(move |language| {
        let what = language.folded(fold, ".{0,16}?");
        Rule::new(InstructionOverride, Strong, &words(language.orders, fold), what)
    })
}

fn words(alternatives: &str, fold: impl Fn(&str) -> String) -> Vec<String> {
    alternatives.split('|').map(fold).collect()
}

fn any(alternatives: &str, fold: impl Fn(&str) -> String) -> String {
    format!("(?:{})", words(alternatives, fold).join("|"))
}

impl Language {
    /// A pattern for the three in any order, with `gap` between them.
    fn folded(&self, fold: impl Fn(&str) -> String, gap: &str) -> String {
        let (verb, earlier, orders) = (any(self.verbs, &fold), any(self.earlier, &fold), any(self.orders, &fold));
        let what = format!("(?:{earlier}{gap}{orders}|{orders}{gap}{earlier})");
        format!("(?:{verb}{gap}{what}|{what}{gap}{verb})")
    }

    /// A rule for a command that names all instructions, or all that was said, and no earlier time.
    fn all_of(&self, fold: impl Fn(&str) -> String) -> Option<Rule> {
        if self.commands.is_empty() {
            return None;
        }
        let (command, all, orders) = (any(self.commands, &fold), any(self.all, &fold), any(self.orders, &fold));
        // No other word may follow the command: "forget not" is the opposite.
        let (everything, now) = (any(self.everything, &fold), any(NOW, &fold));
        let pattern = format!("(?-u) {command}(?: {now})? (?:{all} {orders}|{everything}) ");
        let each = [words(self.orders, &fold), words(self.everything, &fold)].concat();
        Some(Rule::new(InstructionOverride, Strong, &each, pattern))
    }
}
