"""Patterns of instructions and of statements about the assistant, in many languages.

They match lower-case texts with single spaces between words. All run in RE2, whose time
grows linearly with the text. Its `\\b` supports ASCII letters only, so patterns of
other scripts list the characters around a word.
"""

# ruff: noqa: RUF001  words of many scripts, whose letters look like others

import re2

LETTER = r"[a-z0-9_\x{80}-\x{10ffff}]"
"""The replacement of `\\w` below. RE2 needs a hundred times the memory to distinguish
letters of all scripts from punctuation."""


def any_of(*patterns: str) -> re2._Regexp:
    joined = "|".join(f"(?:{pattern})" for pattern in patterns)
    options = re2.Options()
    options.log_errors = False
    return re2.compile(joined.replace(r"\w", LETTER), options)


AI = r"(?:ai|artificial intelligence|assistant|chat ?bot|language model|llm)"
VERB = (
    r"(?:is|are|was|were|has|had|can|cannot|can't|could|will|would|does|did|do|may"
    r"|might|said|says|told|tells|thinks|thought|believes|knows|knew|likes|liked|name"
    r"|prefer\w*|suggest\w*|recommend\w*|offer\w*|explain\w*|provid\w*|help\w*"
    r"|answer\w*|respon\w*|repl\w+|ask\w*|agree\w*|promis\w*|claim\w*|state[sd]?"
    r"|want\w*|remember\w*|recall\w*|noted|mention\w*|wrote|gave|made)"
)
ABOUT_ASSISTANT = any_of(
    rf"^(?:as )?(?:the |this |an? )?(?:{AI} )*{AI}(?:'s)? {VERB}\b",
    rf"^(?:the|this) (?:ai )?(?:model|bot)(?:'s)? {VERB}\b",
    rf"^(?:the|this|an) ai agent(?:'s)? {VERB}\b",
    rf"^as an? {AI}\b",
    rf"^i(?:'m| am) (?:an? )?{AI}\b",
    r"^(?:you|your|you're|yourself)\b",
    r"^(?:der|die|eine?) (?:ki|ki-assistent|assistent(?:in)?|chatbot|sprachmodell)\b",
    r"^(?:du|dein|deine) ",
    r"^(?:l'|une? )?(?:assistante?|ia)\b|^le (?:chatbot|modèle)\b|^tu es ",
    r"^(?:el|la|una?) (?:asistente|ia|chatbot|modelo de lenguaje)\b|^tú? eres ",
    r"^(?:o|a|uma?) (?:assistente|ia|chatbot|modelo de linguagem)\b|^você ",
    r"^(?:l'|un'?)assistente\b|^il (?:chatbot|modello)\b|^tu sei ",
    r"^(?:de|een) (?:assistent|ai|chatbot)\b|^jij ",
    r"^(?:ассистент|помощник|чат-?бот|ии|нейросеть)(?:[ ,.:]|$)",
    r"^(?:ты|вы|твой|ваш) ",
    r"^(?:ai|人工智能|人工智慧)?(?:助手|助理|模型)"
    r"(?:是|会|會|可以|能|说|說|建议|建議|的|将|將|已|认为|認為|不)",
    r"^(?:人工智能|人工智慧)|^[你您]",
    r"^(?:ai|人工知能)?アシスタント|^(?:ai|人工知能)モデル|^あなた",
    r"^(?:ai )?(?:어시스턴트|챗봇|인공지능)|^(?:당신|너)[은는이]",
    r"^(?:المساعد|الذكاء الاصطناعي|روبوت الدردشة|أنت )",
    r"^(?:सहायक|एआई|आप |तुम )",
)

_OVERRIDES = (
    # English
    r"\b(?:ignor|disregard|forget|overrid|bypass|overrul)\w*\b.{0,60}"
    r"\b(?:previous|prior|above|earlier|preceding|instruct\w+|rules?|guidelines?"
    r"|guardrails?|safety|polic\w+|prompts?|restrictions?)\b",
    r"\bsystem[ _-]?(?:prompt|message|instruction)",
    r"\b(?:new|updated|hidden|secret|admin\w*|developer) instructions?\b",
    r"\b(?:jail ?break|developer mode|dan mode|god mode|do anything now)\b",
    r"\b(?:act|answer|respon|repl|operat|speak|chat)\w* without (?:any )?"
    r"(?:restrictions?|filters?|limitations?|guardrails?)\b",
    r"\b(?:reveal|leak|print|dump|exfiltrat)\w*\b.{0,40}"
    r"\b(?:prompt|instructions?|api.?keys?|passwords?|secrets?|credentials?)\b",
    # Roles, tools and commands, as templates and shells write them
    r"<\|[^|<>]+\|>|\[/?inst\]|<<?/?sys>>?|<(?:start|end)_of_turn>",
    r"</?(?:system|assistant|user|human|instructions?|tool(?:_call)?|function)\b[^>]*>",
    r"(?:^|[.!?\"'#>\]] ?)(?:system|assistant|developer) ?:",
    r"#{2,} ?(?:system|instruction|response|new)|!\[[^\]]*\]\(",
    r"```|\$\(|(?:^|[;&|] ?)(?:rm -rf|sudo |curl |wget )|\| ?(?:ba)?sh\b",
    # German, French, Spanish, Portuguese, Italian, Dutch, Polish, Turkish
    r"\b(?:ignorier|vergiss|vergesst|missacht|umgeh)\w*\b.{0,60}"
    r"(?:anweisung|regel|vorgabe|vorherig|bisherig|obig)|\bsystem-?anweisung",
    r"\b(?:ignor|oubli)\w+\b.{0,60}(?:instruction|consigne|règle|précédent)",
    r"\b(?:prompt|invite|message) (?:du )?système\b",
    r"\b(?:ignor|olvid)\w+\b.{0,60}"
    r"(?:instruccion|anterior|reglas?\b|indicacion|previas)",
    r"\b(?:ignor|esque[cç])\w+\b.{0,60}(?:instru[cç]|anterior|regras?\b)",
    r"\b(?:ignor|dimentic)\w+\b.{0,60}(?:istruzion|precedent|regol)",
    r"\b(?:prompt|mensaje|mensagem|messaggio) (?:del|do|di) sist",
    r"\b(?:negeer|vergeet)\b.{0,60}(?:instructie|vorige|eerdere|regels)",
    r"\b(?:z?ignoruj|zapomnij)\b.{0,60}(?:instrukc|polece|poprzedni|zasad)",
    r"(?:önceki|yukarıdaki|talimat).{0,60}(?:yok ?say|görmezden|unut)",
    # Russian, Ukrainian
    r"(?:игнорир|забудь|ігнору).{0,60}"
    r"(?:инструк|указан|предыдущ|правил|інструк|попередн)",
    r"системн\w+ (?:промпт|сообщ|подсказ)",
    # Chinese, Japanese, Korean
    r"(?:忽略|忽視|无视|無視|忘记|忘記|不要理会|绕过|繞過).{0,20}"
    r"(?:指令|指示|说明|說明|提示|规则|規則|之前|以上|先前)",
    r"系统提示|系統提示|系统消息|システムプロンプト|시스템 ?(?:프롬프트|메시지)",
    r"(?:指示|命令|ルール|プロンプト|以前|上記).{0,12}(?:無視|忘れ)",
    r"(?:지시|명령|규칙|이전).{0,12}(?:무시|잊)",
    # Arabic, Persian, Hebrew, Hindi
    r"(?:تجاهل|انس|تجاوز|نادیده).{0,60}"
    r"(?:تعليمات|أوامر|قواعد|سابق|دستور|قبلی)",
    r"(?:موجه|رسالة|تعليمات) النظام",
    r"(?:התעלם|תתעלם|שכח).{0,60}(?:הוראות|הקודמ|כללים)",
    r"(?:निर्देश|नियम|पिछल).{0,60}(?:अनदेखा|भूल)",
    r"(?:अनदेखा|भूल).{0,60}(?:निर्देश|नियम)",
)
OVERRIDES = any_of(*_OVERRIDES)
"""Phrases that try to cancel an assistant's instructions."""
UNSPACED = any_of(
    *(
        pattern.replace(r"\b", "").replace(" ?", "").replace(" ", "")
        for pattern in _OVERRIDES
    ),
    "fromnowon",
    "youmust|youshould|youarenow",
    "(?:always|never|must)(?:repl|respon|answer|includ|mention|say)",
    "(?:reply|respond|answer|end|start)(?:only|always|with|every)",
)
"""The same phrases, and some commands, without separators between words."""

MODAL = (
    r"(?:must|should|shall|has to|have to|needs? to|ought to"
    r"|is (?:required|obliged|allowed|permitted|instructed|free) to"
    r"|(?:will|may|can) (?:always|never|now|only)|to (?:always|never))"
)
COMMANDS = any_of(
    # English
    r"\byou (?:must|should|shall|have to|need to|ought to|always|never"
    r"|are (?:now|to|required|allowed|obliged)|will (?:always|never|now)"
    r"|(?:may|can) now)\b",
    rf"\b(?:{AI}|(?:the|this) model|ai agent|bot|replies|responses)s? {MODAL}\b",
    r"\bfrom now on\b.{0,60}\b(?:you|repl\w+|respon\w+|answers?|always|never)\b",
    r"^(?:please |kindly )?(?:ignore|disregard|reply|respond|answer|output|print|never"
    r"|execute|run|call|invoke|send|reveal|pretend|act|delete|do not|don't|always|say"
    r"|write|repeat|translate|obey|follow|include|append|remember to|make sure|ensure"
    r"|treat|assume|consider|use|visit|open|click|download|fetch|forward|email)\b",
    r"^(?:please |kindly )?(?:start|begin|end|finish|close|prefix) (?:every|each|all"
    r"|any|your|the (?:reply|answer|response))\b",
    r"^(?:please |kindly )?(?:tell|give|show|grant|offer|refuse|promise|ask|warn) "
    r"(?:the user|users?|them|him|her|everyone|everybody|anyone|nobody)\b",
    r"\b(?:curl|wget|fetch|download|execute|exfiltrate|upload|forward|post|send|click"
    r"|append|include|redirect)\b.{0,80}(?:https?://|www\.)",
    r"(?:https?://|www\.)\S+.{0,40}\b(?:must|always|every (?:reply|answer|response))\b",
    # German, French
    r"\bdu (?:musst|sollst|darfst|wirst)\b",
    r"\b(?:assistent\w*|ki|sprachmodell|bot|chatbot) (?:muss|soll|sollte|darf)\b",
    r"^(?:antworte|ignoriere|führe|sende|sag|schreib|gib|lösche|befolge|vergiss)e?\b",
    r"\b(?:tu dois|vous devez|tu ne dois|il faut que tu)\b",
    r"\b(?:assistante?|ia|modèle|chatbot) (?:doit|devrait|ne doit)\b",
    r"^(?:réponds|répondez|ignore[rz]?|envoie|exécute|écris|dis|supprime|obéis)\b",
    # Spanish, Portuguese, Italian, Dutch
    r"\b(?:debes|tienes que) \w+",
    r"\b(?:asistente|ia|chatbot) (?:debe|debería|tiene que|siempre|nunca)\b",
    r"^(?:responde|ignora|envía|ejecuta|escribe|di|borra|obedece|olvida)\b",
    r"\b(?:você|tu) (?:deves?|tem que|precisa|tens de)\b",
    r"\b(?:assistente|ia|chatbot) (?:deve|deveria|tem que|sempre|nunca)\b",
    r"^(?:responda|ignore|envie|execute|escreva|diga|apague|obedeça|esqueça)\b",
    r"\b(?:devi|dovete|non devi) \w+",
    r"^(?:rispondi|invia|esegui|scrivi|cancella|obbedisci|dimentica)\b",
    r"\bje (?:moet|zult|mag nooit)\b|\b(?:assistent|bot) (?:moet|zal|mag)\b",
    # Russian
    r"(?:^|[^а-яёіїєґ])(?:ты|вы|ассистент|помощник|модель|бот|ии) "
    r"(?:долж\w+|обязан\w*|всегда|никогда)",
    r"^(?:отвечай|ответь|игнорируй|забудь|отправь|выполни|скажи|напиши|удали)",
    # Chinese, Japanese, Korean
    r"(?:你|您|助手|助理|模型|机器人|ai)"
    r"(?:必须|必須|应该|應該|应当|務必|务必|一定要|需要|不得|不要|总是|總是|只能)",
    r"^(?:请|請|必须|必須|务必|務必|不要|忽略|回答|回复|执行)",
    r"(?:あなた|アシスタント|モデル|ai|ボット)[はが].{0,40}"
    r"(?:なければ|べき|必ず|なさい|ください)",
    r"(?:してください|しなさい|しろ|せよ)[。.]?$",
    r"(?:당신|너|어시스턴트|모델|챗봇|ai)[은는이가].{0,40}"
    r"(?:해야|하라|하세요|마세요|하십시오)",
    # Arabic, Hindi
    r"يجب عليك|عليك أن|(?:المساعد|النموذج).{0,12}(?:يجب|ينبغي)",
    r"(?:يجب|ينبغي) على (?:المساعد|النموذج)",
    r"^(?:تجاهل|أجب|أرسل|نفذ|احذف|اكتب|قل) ",
    r"(?:तुम्हें|आपको|सहायक को).{0,60}(?:चाहिए|होगा|है)",
)
"""Phrases that give orders, which a fact about a user does not need."""


REPLY = (
    r"(?:repl(?:y|ies)|respons\w*|answers?|outputs?|completions?|messages?|texts?"
    r"|antwort\w*|r[ée]ponses?|respuestas?|respostas?|rispost[ae]|antwoord\w*"
    r"|odpowiedzi\w*|yanıt\w*|cevap\w*|ответ\w*|відповід\w*)"
)
LIKING = (
    r"\b(?:prefer\w*|lik(?:es?|ed|ing)|love[sd]?|enjoy\w*|wants?|wish\w*|expect\w*"
    r"|favou?r\w*|appreciat\w*|request\w*|asks?|asked|insist\w*|needs?|requires?"
    r"|bevorzugt|mag|möchte|will|wünscht|liebt|préfère|aime|veut|souhaite|prefiere"
    r"|gusta\w*|quiere|desea|prefere|gosta|quer|deseja|preferisce|piac\w+|vuole"
    r"|desidera|wil|houdt|verkiest|woli|preferuje|lubi|chce)\b"
)
FORM = (
    r"(?:(?:start|begin|open|end|finish|clos|conclud|prefix|suffix|append|contain"
    r"|includ|mention|repeat|advertis|link|sign)\w*|beg[au]n"
    r"|(?:be|auf|mit)?(?:ende[nt]|enthalten|enthält|anfangen|beginnen|beginnt|hören)"
    r"|(?:se )?(?:termin|commenc|contien|inclu|finiss|début)\w*"
    r"|(?:empie[cz]|comienc|acab|conten|incluy|contengan?)\w*"
    r"|(?:começ|contêm|contenham|inclu|acab)\w*|(?:fini|inizi|conteng|includ)\w*"
    r"|(?:eindig|begin|bevat)\w*|(?:kończ|zaczyn|zawiera)\w*)"
)
PREFERENCES = any_of(
    rf"{LIKING}.{{0,40}}\b{REPLY}\b.{{0,25}}?\b{FORM}\b(?P<form>[^.!?;]*)",
    r"(?:предпочита|люб|нрав|хочет|хотел|проси)\w+.{0,40}ответ\w*.{0,25}?"
    r"(?:законч|заканч|начин|содерж|включа|оканч)\w*",
    r"(?:回答|回复|回覆|答复|答案|消息).{0,12}(?:结尾|結尾|开头|開頭|结束|結束|包含|加上|附上|带上)",
    r"以.{1,40}(?:结尾|結尾|开头|開頭|结束|結束).{0,6}(?:回答|回复|回覆|答复|答案)",
    r"(?:回答|返信|返事|応答|答え).{0,20}(?:終わ|締め|始ま|始め|含め|含む|含ま)",
    r"(?:終わ|締め|始ま|始め|含め|含む|含ま)\w{0,6}(?:回答|返信|返事|応答|答え)",
    r"(?:답변|응답|대답|답장).{0,20}(?:끝나|끝내|시작|포함)",
    r"(?:끝나|끝내|시작하|포함)\w{0,4} ?(?:답변|응답|대답|답장)",
    r"(?:الردود|الرد|الإجابات|الأجوبة).{0,20}(?:تنتهي|ينتهي|تبدأ|يبدأ|تحتوي|تتضمن|يتضمن)",
    r"(?:yanıt|cevap)\w*.{0,30}(?:bitmesi|bitir|başla|içer)",
    r"(?:जवाब|उत्तर).{0,30}(?:समाप्त|ख़त्म|खत्म|शुरू|शामिल)",
)
"""Orders phrased as a preference: what replies must begin with, end with or contain."""
HARMLESS_FORM = re2.compile(
    r"(?i)[ ,]*(?:with|by|in|a|an|the|some|few|many|more|no|any|clear|short|brief|quick"
    r"|concrete|practical|real|detailed|useful|relevant|code|step|by|bullet|and|or|to"
    r"|one|at|of|point|points|lots|plenty|both|only|its|their|key|simple|personal"
    r"|examples?|snippets?|sources?|citations?|references?|steps?|emojis?|tables?"
    r"|diagrams?|numbers?|units?|explanations?|details?|summar(?:y|ies)|lists?|jokes?"
    r"|humou?r|metaphors?|analog(?:y|ies)|conclusions?|questions?|answers?|context"
    r"|background|definitions?|formulas?|recipes?|translations?|pronunciations?"
    r"|greetings?|tl;?dr|data|statistics|facts?|evidence|pros|cons|options"
    r"|alternatives|tips|-|,| )+"
)
"""General wishes about replies that are harmless."""
