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
}

/// Languages whose words are separated by spaces.
const SPACED: [Language; 9] = [
    Language {
        verbs: "ignora|ignore|ignorar|ignorad|olvida|olvide|olvidar|descarta|omite|no sigas|no hagas caso",
        earlier: "anterior|anteriores|previas|previos|previa|de arriba|precedentes|iniciales|originales|recibidas",
        orders: "instrucciones|instruccion|ordenes|indicaciones|directrices|directivas|reglas",
    },
    Language {
        verbs: "ignore|ignorez|ignorer|oublie|oubliez|oublier|ne tiens pas compte|ne tenez pas compte|ne suivez pas|ne suis pas",
        earlier: "precedente|precedentes|anterieures|prealables|ci dessus|initiales|d origine|donnees plus haut",
        orders: "instruction|instructions|consigne|consignes|directive|directives|regles|ordres",
    },
    Language {
        verbs: "ignoriere|ignorieren|ignoriert|vergiss|vergessen|missachte|missachten|befolge nicht|verwerfe",
        earlier: "vorherigen|vorherige|bisherigen|bisherige|vorangegangenen|vorangehenden|obigen|fruheren|ursprunglichen|vorigen",
        orders: "anweisung|anweisungen|instruktionen|befehle|vorgaben|regeln|aufforderungen",
    },
    Language {
        verbs: "ignora|ignorare|ignorate|dimentica|dimenticare|dimenticate|trascura|non seguire",
        earlier: "precedenti|precedente|sopra|iniziali|originali|di prima",
        orders: "istruzioni|istruzione|direttive|ordini|regole|indicazioni",
    },
    Language {
        verbs: "ignore|ignora|ignorar|ignorem|esqueca|esqueca se|esquece|esquecer|desconsidere|desconsidera|desconsiderar|nao siga",
        earlier: "anterior|anteriores|previas|acima|iniciais|originais|precedentes",
        orders: "instrucoes|instrucao|ordens|diretrizes|diretivas|regras",
    },
    Language {
        verbs: "negeer|negeren|vergeet|vergeten|sla over|volg niet",
        earlier: "vorige|voorgaande|eerdere|bovenstaande|voorafgaande|oorspronkelijke",
        orders: "instructies|instructie|opdrachten|regels|aanwijzingen|bevelen",
    },
    Language {
        verbs: "zignoruj|ignoruj|zapomnij|zapomnij o|pomin|nie przestrzegaj",
        earlier: "poprzednie|wszystkie poprzednie|powyzsze|wczesniejsze|poprzednich|powyzszych|wczesniejszych",
        orders: "instrukcje|instrukcji|polecenia|polecen|zasady|wytyczne",
    },
    Language {
        verbs: "yok say|gormezden gel|unut|dikkate alma|goz ardi et",
        earlier: "onceki|yukaridaki|daha onceki|ilk",
        orders: "talimatlari|talimat|talimatlarin|komutlari|yonergeleri|kurallari",
    },
    Language {
        verbs: "игнорируй|игнорируйте|проигнорируй|проигнорируйте|забудь|забудьте|забыть|отбрось|не следуй|не обращай внимания на",
        earlier: "предыдущие|предыдущих|предшествующие|прежние|прошлые|вышеуказанные|все предыдущие|данные выше|начальные",
        orders: "инструкции|инструкций|указания|указаний|команды|правила|распоряжения",
    },
];

/// Scripts that are looked at without spaces.
const COMPACT: [Language; 6] = [
    Language {
        verbs: "忽略|无视|無視|忘记|忘記|忘掉|不要理会|不要遵循|不用管",
        earlier: "之前|以上|上述|先前|前面|此前|原来的|原有的|最初的",
        orders: "指令|指示|提示|命令|规则|規則|说明",
    },
    Language {
        verbs: "無視|忘れ|従わない",
        earlier: "以前|上記|これまで|前の|以上|先の|今まで|元の",
        orders: "指示|命令|指令|プロンプト|ルール",
    },
    Language {
        verbs: "무시|잊어|잊으|따르지",
        earlier: "이전|위의|앞의|앞선|기존|지금까지",
        orders: "지시|명령|지침|프롬프트|규칙",
    },
    Language {
        verbs: "تجاهل|انس|انسى|اهمل|أهمل",
        earlier: "السابقة|أعلاه|السابق|المذكورة",
        orders: "التعليمات|تعليمات|الأوامر|التوجيهات|القواعد",
    },
    Language {
        verbs: "अनदेखा|नजरअंदाज|नज़रअंदाज़|भूल|उपेक्षा", earlier: "पिछले|पहले|उपरोक्त|पूर्व", orders: "निर्देश|आदेश|नियम"
    },
    Language {
        verbs: "เพิกเฉย|ละเว้น|ไม่สนใจ|ลืม|bỏ qua|phớt lờ|quên",
        earlier: "ก่อนหน้า|ข้างต้น|ที่ผ่านมา|trước đó|trước đây|ở trên|trước",
        orders: "คำสั่ง|คำแนะนำ|hướng dẫn|chỉ dẫn|lệnh|chỉ thị",
    },
];

/// For the view with spaces.
pub(super) fn spaced() -> impl Iterator<Item = Rule> {
    let fold = |text: &str| Words::of(text).spaced.text().trim().to_owned();
    SPACED.iter().map(move |language| {
        let what = language.folded(fold, "(?: [^ ]{1,40}){0,4}? ");
        Rule::new(InstructionOverride, Strong, &language.orders(fold), format!("(?-u) {what} "))
    })
}

/// For the view without spaces.
pub(super) fn compact() -> impl Iterator<Item = Rule> {
    let fold = |text: &str| Words::of(text).compact.text().to_owned();
    COMPACT.iter().map(move |language| {
        let what = language.folded(fold, ".{0,16}?");
        Rule::new(InstructionOverride, Strong, &language.orders(fold), what)
    })
}

impl Language {
    /// The nouns, one of which is in every match.
    fn orders(&self, fold: impl Fn(&str) -> String) -> Vec<String> {
        self.orders.split('|').map(fold).collect()
    }

    /// A pattern for the three in any order, with `gap` between them.
    fn folded(&self, fold: impl Fn(&str) -> String, gap: &str) -> String {
        let any = |words: &str| format!("(?:{})", words.split('|').map(&fold).collect::<Vec<_>>().join("|"));
        let (verb, earlier, orders) = (any(self.verbs), any(self.earlier), any(self.orders));
        let what = format!("(?:{earlier}{gap}{orders}|{orders}{gap}{earlier})");
        format!("(?:{verb}{gap}{what}|{what}{gap}{verb})")
    }
}
