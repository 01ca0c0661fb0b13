"""Patterns of rules that are about more than the manner of answers, in many languages.

They match lower-case texts with single spaces between words, as those of
`instruction_patterns`, and run in RE2 as well.
"""

# ruff: noqa: RUF001  words of many scripts, whose letters look like others

from core.text.injection.instruction_patterns import any_of

PRECEDENCE = any_of(
    r"\b(?:your|these|those|any|all|previous|prior|above|agent'?s?|developer'?s?"
    r"|operator'?s?|other|hidden|original) (?:\w+ ){0,2}"
    r"(?:instructions?|prompts?|guidelines?|guardrails?|polic(?:y|ies)|rules?"
    r"|restrictions?|constraints?)\b",
    r"\b(?:system|developer|hidden) (?:prompt|message|instruction|role)",
    r"\b(?:developer|operator|provider|admin\w*)s? (?:said|says|wrote|writes|wants?"
    r"|told)"
    r"|\b(?:no|without) (?:\w+ )?rules\b",
    r"\b(?:takes? precedence|priority over|overrul\w*|overrid\w*|supersed\w*)\b",
    r"\b(?:instructions|guidelines|guardrails|policies)\b.{0,40}"
    r"\b(?:not apply|no longer|void|cancel\w*|optional|wrong|outdated)\b",
    r"\b(?:dein|eure|ihre|deren|alle|bisherig|vorherig|obig|frühere?)\w* (?:\w+ ){0,2}"
    r"(?:anweisung|vorgabe|regel|richtlinie|anleitung|instruktion)",
    r"\b(?:anweisung|vorgabe|regel|richtlinie)\w*\b.{0,40}\b(?:gelten nicht|nicht mehr"
    r"|ungültig|aufgehoben)",
    r"\b(?:tes|vos|les|toutes) (?:\w+ ){0,2}(?:instructions|consignes|règles)\b",
    r"\b(?:tus|sus|las|todas) (?:\w+ ){0,2}(?:instrucciones|reglas|normas|directrices)",
    r"\b(?:tuas|suas|as|todas) (?:\w+ ){0,2}(?:instruções|regras|normas|diretrizes)",
    r"\b(?:tue|le|tutte) (?:\w+ ){0,2}(?:istruzioni|regole|direttive)\b",
    r"\b(?:je|jouw|alle|de) (?:\w+ ){0,2}(?:instructies|regels|richtlijnen)\b",
    r"(?:twoj|swoj|wszystk)\w* (?:\w+ ){0,2}(?:instrukcj|zasad|poleceń)",
    r"(?:сво|тво|ваш|все|всех|любы)\w* (?:\w+ ){0,2}(?:инструкц|правил|указани)",
    r"(?:指令|指示|规则|規則|设定|設定|提示词|提示詞).{0,8}"
    r"(?:无效|無效|作废|不适用|优先|優先|以外|改)",
    r"(?:指示|命令|ルール|設定|プロンプト).{0,10}(?:優先|無効|従わ|破|無視)",
    r"(?:지시|규칙|명령|설정).{0,10}(?:우선|무효|따르지|무시)",
    r"(?:التعليمات|القواعد|الأوامر)",
)
"""Mentions of the agent's instructions."""

ROLES = any_of(
    r"\byou(?:'re| are) (?:now|no longer|an?|the|my|not|free|allowed|going)\b",
    r"\byour (?:new )?(?:name|role|identity|persona|job|task|goal|purpose) is\b",
    r"\b(?:act|behave|pose|work|operate|serve|function)s? (?:as|like) ",
    r"\b(?:pretend|impersonat\w*|role.?play\w*|claim to be|identify as)\b",
    r"\bbecome (?:an?|the|my)\b",
    r"\btreat (?:me|the user) as (?:an? |the )?(?:admin\w*|developer|owner|operator"
    r"|root|employee|staff)\b",
    r"\b(?:forget|oublie|vergiss|olvida|dimentica),? (?:who|what|qui|wer|quién|chi)\b"
    r"|\bstelle? dich als\b",
    r"\b(?:administrators?|admin|superuser|root access|sudo)\b",
    r"\bdu bist\b|\b(?:tu|tue) so,? als|\bverhalte dich wie|\bspiel\w* (?:die"
    r"|eine) rolle"
    r"|\bgib dich (?:als|für)\b|\bdein name ist\b",
    r"\btu es (?:maintenant|désormais|un|une|le|la)\b|\bfais semblant|\bjoue le rôle"
    r"|\b(?:comporte.toi|agis) comme\b",
    r"\beres (?:ahora|un|una|el|la)\b|\b(?:actúa|compórtate) como|\bfinge\b"
    r"|\bhazte pasar\b",
    r"\bvocê (?:é|agora)\b|\b(?:aja|atue|comporte-se) como\b|\bfinja\b",
    r"\b(?:ora sei|sei ora|tu sei)\b|\b(?:comportati|agisci) come\b|\bfingi\b",
    r"\bje bent\b|\bdoe alsof\b|\bgedraag je als\b|\bspeel de rol\b",
    r"\bjesteś\b|\budawaj|\bzachowuj się jak",
    r"(?:^|[^а-я])(?:ты|вы) (?:теперь|отныне|больше)|притвор|веди себя как"
    r"|представь, что ты|играй роль",
    r"[你您](?:现在|現在)?是|扮演|假装|假裝|充当|充當",
    r"あなたは|になりきっ|演じ|のふり|として(?:振る舞|行動|振舞)",
    r"(?:당신|너)[은는]|[는한인] 척|역할을",
    r"\bsen artık\b|gibi davran|rolün",
    r"تظاهر|أنت الآن|تصرف ك",
    r"(?:तुम|आप) अब|नाटक|(?:की|का) भूमिका",
)
"""Another role of the assistant, or of the user."""

SECRETS = any_of(
    r"\b(?:reveal|disclos|leak|expos|exfiltrat)\w*",
    r"\b(?:passwords?|passphrases?|api.?keys?|credentials?|secrets?|confidential"
    r"|(?:access|secret) tokens?|system prompt|hidden|internal (?:data|details"
    r"|information|notes))\b",
    r"\b(?:print|output|repeat|show|gib|zeig\w*) (?:me |mir )?(?:everything|alles"
    r"|all of)"
    r"|\b(?:text|everything|lines?|words|messages?|alles) (?:above|before|oben)\b",
    r"\b(?:other|another) (?:user|customer|client|person|people)",
    r"passw(?:or|ör)t|\bgeheim\w*|zugangsdaten|vertraulich|\bander\w* nutzer",
    r"mots? de passe|\bidentifiants\b|confidentiel|contraseña|credencial|confidencial"
    r"|\bsenhas?\b|\bsegredos?\b|\bsecretos?\b|\bsegret[oi]\b|credenzial|wachtwoord"
    r"|\bhas(?:ło|ła|eł)\b|\bşifre|\bgizli",
    r"парол|секрет|конфиденц|密码|密碼|密钥|密鑰|机密|機密|秘密|パスワード|비밀|기밀"
    r"|كلمات? (?:المرور|السر)|أسرار|सीक्रेट|पासवर्ड|गोपनीय",
)
"""What an agent must not tell."""

ACTS = any_of(
    r"https?://|\bwww\.|\w@\w+\.\w",
    r"\b(?:tools?|plug-?ins?|werkzeug\w*|outils?|herramientas?|ferramentas?"
    r"|strument[io]|gereedschap\w*|narzędzi\w*|araçlar\w*)\b"
    r"|инструмент|工具|ツール|도구|أداة|أدوات|टूल|उपकरण",
    r"\b(?:call|run|execute|invoke|trigger)\b.{0,40}"
    r"\b(?:functions?|commands?|scripts?|code|apis?|shell|programs?|queries|query)\b",
    r"\b(?:delete|erase|wipe|transfer|purchase|buy|subscribe|upload|download"
    r"|unsubscribe)\b|\bpay (?:for|the|an?|my|his|him|her|them|\d)\b"
    r"|\bforward (?:it|them|all|any|my|the|every|e-?mails?|messages?)\b",
    r"\b(?:approv|refund|discount|genehmig|erstatt|rabatt|approuve|remise|aprueb"
    r"|descuent"
    r"|aprov|descont|approv|scont)\w*|\bcredit cards?\b|\b(?:grant|book|order) (?:me|my"
    r"|all|an?|the|any|every)\b|\bchange (?:the|your|my) \w*settings?",
    r"\b(?:send|post|publish|share|copy|submit|schick\w*|sende\w*)\b.{0,60}"
    r"\b(?:to|at|an) ",
    r"\bwithout (?:ever |first )?(?:asking|confirm\w*|permission|approval|consent"
    r"|check\w*|verif\w*)|\b(?:skip|no|never|don't|do not) (?:the |any |ask for "
    r"|wait for"
    r" )?(?:confirm\w*|permission|approval|consent)\b",
    r"\b(?:lösch|überweis|bezahl|kauf)\w*|\bführe?\b.{0,40}\baus\b"
    r"|\bohne (?:rückfrage|nachfrage|bestätigung|zu fragen|erlaubnis)",
    r"\bsans (?:demander|confirm|autorisation)|\b(?:supprime|achète|paie|exécute"
    r"|envoie)"
    r"[rsz]?\b",
    r"\bsin (?:preguntar|pedir|confirm|permiso)|\b(?:borra|compra|paga|ejecuta"
    r"|envía)\b",
    r"\bsem (?:perguntar|pedir|confirm|permissão)|\b(?:apague|compre|pague|execute"
    r"|envie)\b",
    r"\bsenza (?:chiedere|conferm|permesso)|\b(?:cancella|compra|paga|esegui|invia)\b",
    r"\bzonder (?:te vragen|bevestig|toestemming)|\b(?:verwijder|koop|betaal|voer)\b",
    r"\bbez (?:pytania|potwierdz|zgody)|\b(?:usuń|kup|zapłać|wykonaj|wyślij)\b",
    r"без (?:спрос|подтвержд|разрешен)|удал(?:и|яй)|переведи деньги|купи|оплат|выполн",
    r"删除|刪除|转账|轉帳|支付|付款|购买|購買|执行|執行|发送到|發送到"
    r"|削除|送金|購入|実行|삭제|송금|결제|구매|실행|احذف|نفذ|ادفع|हटा दो|भुगतान",
)
"""What an agent does, rather than how it answers."""

SAFETY = any_of(
    r"\b(?:no|without|skip|drop|omit|disabl\w*|turn\w* off|switch\w* off|lift\w*"
    r"|remov\w*"
    r"|ignor\w*|bypass\w*|circumvent\w*|deactivat\w*|forget|suspend) (?:\w+ ){0,3}"
    r"(?:restrict\w*|filter\w*|censor\w*|safety|safeguards?|guardrails?|moderation"
    r"|limits?|limitations?|refus\w*|ethic\w*|moral\w*|warnings?)\b",
    r"\b(?:uncensored|unfiltered|unrestricted|unlimited|jailbr\w*|nsfw|no holds barred"
    r"|anything goes)\b",
    r"\b(?:never|don't|do not|cannot|must not|stop) (?:ever )?(?:refus\w*|declin\w*"
    r"|reject\w*|say(?:ing)? no|deny\w*|disagree\w*)",
    r"\b(?:always|must) (?:agree|comply|obey|say yes|approve|accept)|\bobey\b"
    r"|\bcomply\b"
    r"|\bdo (?:exactly )?(?:what|whatever|everything|anything|as) i\b|\b(?:mach"
    r"|tu)e? alles\b"
    r"|\b(?:trust|believe|grant|glaub\w*) (?:me|mir|that|everything|alles|all)\b"
    r"|\bgrant (?:\w+ )?requests?\b",
    r"zensur|zensier|ungefiltert|uneingeschränkt|\bohne (?:\w+ )?(?:einschränkung"
    r"|filter"
    r"|grenzen|beschränkung|sicherheit|warnung)|sicherheits(?:regel|filter|vorkehr"
    r"|maßnahm|hinweis|richtlin)|\b(?:verweiger|gehorch)\w*|\blehne? (?:nie|nichts)",
    r"\bsans (?:\w+ )?(?:restriction|filtre|limite|censure)|censuré|\bne refuse"
    r"|\bobéis|règles de sécurité",
    r"\bsin (?:\w+ )?(?:restriccion|filtro|l[ií]mite|censura)|\bnunca (?:te )?"
    r"(?:niegues|rechaces)|\bno te niegues|\bobedece|reglas de seguridad",
    r"\bsem (?:\w+ )?(?:restriç|filtro|limite|censura)|\b(?:nunca|não) recus"
    r"|\bobedeça|regras de segurança",
    r"\bsenza (?:\w+ )?(?:restrizion|filtr|limit|censur)|\bnon rifiutar|\bobbedisci",
    r"\bzonder (?:\w+ )?(?:beperking|filter|grenzen|censuur)|\bweiger\b|\bgehoorzaam",
    r"\bbez (?:\w+ )?(?:ograniczeń|filtr|cenzur)|\bnie odmawiaj|\bnigdy nie odm",
    r"без (?:\w+ )?(?:огранич|фильтр|ценз)|не отказыв|подчиняй|правил\w* безопасн",
    r"(?:没有|沒有|无|無|不受|解除|取消|绕过|繞過).{0,6}(?:限制|约束|約束|过滤|過濾|审查|審查)"
    r"|(?:不要|从不|從不|不能|不得)(?:拒绝|拒絕)|服从|服從|安全(?:限制|规则|規則)",
    r"制限(?:なし|なく|を)|無制限|検閲|フィルター?(?:なし|を)|拒否し(?:ない|ないで)|拒まない"
    r"|(?:命令|私|俺|僕).{0,4}従",
    r"(?:제한|필터|검열)(?:을|를)? ?(?:없이|해제|무시)|무제한|거부하지|거절하지",
    r"sınırsız|filtresiz|sansürsüz|reddetme",
    r"(?:بدون|بلا) (?:قيود|رقابة|حدود|فلتر)|لا ترفض",
    r"बिना (?:\S+ )?(?:रोक|प्रतिबंध|सेंसर|फ़िल्टर)|मना मत",
)
"""What protects users and others."""

CONTENT = any_of(
    r"\b(?:recommend|promot|advertis|endors)\w*",
    r"\b(?:empfiehl|empfehle|bewirb|wirb|recommande|recomienda|recomende|consiglia)\w*",
    r"推荐|推薦|おすすめ|추천|рекоменд|реклам",
    r"\b(?:start|begin|open|end|finish|clos|conclud|prefix|append|add|includ|insert"
    r"|mention|repeat|say|writ|sign|repl|respond|answer|beginn|beend|antwort"
    r"|schreib|sag|termin|commenc|répond|empie|respond|inizi|rispond)\w*\b.{0,60}"
    r"[\"“”„«»「『][^\s\"“”„«»」』][^\"“”„«»」』]{7}",
    r"\b(?:say|claim|state|behaupte|sag) (?:that|dass)\b|\bsag\w* (?:immer )?(?:ja"
    r"|nein)\b"
    r"|\bdis (?:toujours )?(?:oui|non)\b|\bdi (?:siempre )?(?:que )?(?:sí|no)\b",
    r"\b(?:answer|reply|respond|say)\b (?:\w+ )?(?:with )?(?:only )?(?:yes|no)\b",
)
"""What answers must contain."""

VIOLATIONS = {
    "the agent's instructions": PRECEDENCE,
    "roles": ROLES,
    "secrets": SECRETS,
    "actions": ACTS,
    "safety": SAFETY,
    "the content of answers": CONTENT,
}
