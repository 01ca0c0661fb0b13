"""Word lists for comparing sentences about a user, in several languages.

A missing word costs a duplicate; a wrong one costs a fact. So each listed word means
the same in all listed languages in which it occurs.
"""


def parse_table(text: str) -> dict[str, str]:
    """Return `word -> meaning` from lines `meaning: word word …`."""
    return {
        word: meaning.strip()
        for line in text.strip().splitlines()
        for meaning, words in [line.split(":")]
        for word in words.split()
    }


def parse_words(text: str) -> frozenset[str]:
    return frozenset(text.split())


MEANINGS = parse_table(
    """
    allergic: allergic allergy allergies allergisch allergie allergique allergia
    allergic: allergico allergica alérgico alérgica alergia
    apartment: apartment flat
    begin: begin begins start starts
    began: began begun started
    bicycle: bicycle bike
    bought: bought purchased
    buy: buy buys purchase purchases
    car: car automobile
    child: child children kid kids
    color: color colour colors colours
    father: father dad daddy
    favorite: favorite favourite préféré préférée favorito favorita preferito preferita
    film: film movie
    holiday: holiday vacation
    like: like likes liking love loves loving enjoy enjoys enjoying adore adores
    like: mag liebt aime gusta encanta gosta adora يحب تحب
    live: live lives living reside resides residing based wohnt lebt habite vit vive
    live: abita mora risiede يعيش تعيش يسكن تسكن يقيم تقيم
    married: married verheiratet casado casada sposato sposata marié mariée
    mother: mother mom mum mommy mummy
    name: name named called heißt heißen namens appelle appellent nommé nommée llama
    name: llaman llamado llamada chiama chiamato chiamata chama chamado chamada
    divorced: divorced
    each: each every
    engaged: engaged
    lefthanded: lefthanded
    prefer: prefer prefers preferring
    retired: retired
    righthanded: righthanded
    single: single
    unemployed: unemployed
    widowed: widowed
    with: with mit avec con com
    work: work works working employed arbeitet travaille trabaja lavora trabalha
    work: يعمل تعمل
    """
)

DISLIKE = parse_words(
    """
    dislike dislikes disliking hate hates hating detest detests despise despises
    loathe loathes hasst déteste odia odeia detesta يكره تكره
    """
)
"""Words of dislike, which negate a sentence."""
WITHOUT = parse_words(
    """
    without ohne sans sin senza sem بدون
    """
)
"""Words that mean not with."""

NEGATIONS = parse_words(
    """
    not never no nor neither quit stopped unable nicht nie niemals kein keine keinen
    keinem keiner keines ne non não nem لا لم لن ليس ليست
    """
)
WITH_NEGATION = parse_words(
    """
    anymore any longer more mehr pas plus jamais rien más ya nunca jamás più mai
    mais
    """
)
"""Words that complete a negation and have no other meaning."""
NEGATIVE_ALONE = parse_words("nunca jamais jamás")
"""The words above that negate on their own."""

FUNCTION_WORDS = parse_words(
    """
    a an the is are am be been being do does did has have owns of and that which who
    whom his her hers their its my your our he she they it i in on at to by as very
    really also quite just own ever currently now nowadays presently der die das dem den
    des ein eine einen einem einer eines ist hat sind und sich im am an auf zu zum
    zur sein seine seinen ihr ihre sehr auch aktuell derzeit jetzt le la les l un
    une du de d à au aux est et en se s sa ses elle il y très actuellement
    maintenant possède el los las unos unas es está tiene del al su sus muy ahora
    actualmente lo gli uno una è ha e di nel nella nello si suo sua molto adesso
    attualmente o os um uma é tem da das em na nos nas seu muito agora
    atualmente possui في
    """
)
"""Insignificant words; prepositions with a meaning (from, with) are not listed."""
NOT_NEGATED = parse_words(
    """
    mora vive reside trabalha estuda
    """
)
"""Portuguese words after which "no" means "in the"."""
USERS = parse_words(
    """
    user nutzer nutzers nutzerin benutzer benutzers benutzerin utilisateur utilisatrice
    usuario usuaria usuário usuária utente utilizador utilizadora المستخدم المستخدمة
    """
)
"""Words for the user, who is the subject of all facts."""
TITLES = parse_words("mr mrs ms dr herr herrn señor señora monsieur madame")

AT = parse_words(
    """
    at for by bei für chez pour à en para per presso em na no لدى
    """
)
AS = parse_words(
    """
    as als comme como come
    """
)
"""Words after "works" that introduce a place of work or a profession."""

ORDERED = parse_words(
    """
    than over rather instead before after from but versus until since between or als
    statt vor nach von aber lieber que plutôt avant après mais che piuttosto ma
    prima dopo antes después depois pero mejor melhor más plus più moins menos meno
    more less
    """
)
"""Words that separate the text before them from the text after."""

SINGLE = parse_words(
    """
    live work_as work_at
    """
)
"""Single-valued attributes whose value directly follows."""
SINGLE_NAMES = parse_words(
    """
    married engaged dating name
    """
)
"""Single-valued attributes followed by a name."""
SINGLE_VALUES = parse_words(
    """
    hometown employer nationality nickname surname timezone zone email password
    """
)
ONE_RELATIVE = parse_words(
    """
    manager landlord dentist therapist jefe jefa chef wife husband partner spouse
    boyfriend girlfriend fiancé fiancée boss mother father frau mann mutter vater
    femme mari mère père esposa esposo madre padre moglie marito mãe pai
    """
)
"""Relations whose name is single-valued; two daughters have two names."""

EXCLUSIVE = tuple(
    frozenset(line.split())
    for line in (
        "single married divorced engaged widowed",
        "ledig married geschieden verwitwet",
        "célibataire married divorcé divorcée veuf veuve",
        "soltero soltera married divorciado divorciada viudo viuda",
        "celibe nubile married divorziato divorziata vedovo vedova",
        "solteiro solteira married divorciado divorciada viúvo viúva",
        "lefthanded righthanded",
        "unemployed retired",
        "introvert extrovert",
    )
)
"""Groups of mutually exclusive words, one per line."""

IRREGULAR_PAST = parse_words(
    """
    ate began bought broke brought built came caught chose cut did drank drove fell
    felt flew found gave got grew had heard held lost made met paid ran rode sang
    saw sent slept sold spent swam taught took went won wrote was were war waren
    hatte hatten fue fueron fui était étaient era foi
    """
)
PAST = (
    r"\b(?:a|ont|est|sont)\s+\w+(?:é|ée|és|ées)\b"  # French
    r"|\b(?:ha|hanno|è|sono)\s+\w+(?:ato|ata|ito|ita|uto|uta)\b"  # Italian
    r"|\b(?:hat|ist|haben|sind)\b.*\bge\w+(?:t|en)\b"  # German
    r"|\b\w{3,}(?:ó|aron|ieron|ou|eu|iu)\b"  # Spanish, Portuguese
    r"|过|[去买吃看见]了|ました|った"
)
STATES = parse_words(
    """
    married engaged based employed called named scheduled planned located allowed
    supposed retired divorced widowed limited registered interested
    """
)
"""English words in -ed that are not in the past tense."""

NUMBERS = parse_table(
    """
    1: one eins
    2: two zwei deux dos due dois duas
    3: three drei trois tres tre três
    4: four vier quatre cuatro quattro quatro
    5: five fünf cinq cinco cinque
    6: six sechs seis
    7: seven sieben sept siete sette sete
    8: eight acht huit ocho otto oito
    9: nine neun neuf nueve nove
    10: ten zehn dix diez dieci dez
    11: eleven elf onze once undici
    12: twelve zwölf douze doce dodici doze
    """
)

MONTHS = parse_table(
    """
    m1: january jan januar janvier enero gennaio janeiro
    m2: february feb februar février febrero febbraio fevereiro
    m3: march märz mars marzo março
    m4: april apr avril abril aprile
    m5: may mai mayo maggio maio
    m6: june jun juni juin junio giugno junho
    m7: july jul juli juillet julio luglio julho
    m8: august aug août agosto
    m9: september sep sept septembre septiembre settembre setembro
    m10: october oct oktober octobre octubre ottobre outubro
    m11: november nov novembre noviembre novembro
    m12: december dec dezember décembre diciembre dicembre dezembro
    """
)
DAYS = parse_table(
    """
    d1: monday montag lundi lunes lunedì segunda
    d2: tuesday dienstag mardi martes martedì terça
    d3: wednesday mittwoch mercredi miércoles mercoledì quarta
    d4: thursday donnerstag jeudi jueves giovedì quinta
    d5: friday freitag vendredi viernes venerdì sexta
    d6: saturday samstag samedi sábado sabato
    d7: sunday sonntag dimanche domingo domenica
    d8: today heute hoy oggi hoje
    d9: tomorrow morgen demain mañana domani amanhã
    """
)

SINGLE_BEFORE = (
    "住在",
    "现住",
    "居住",
    "就职于",
    "任职于",
    "名字叫",
    "誕生日は",
    "名前は",
)
SINGLE_AFTER = ("に住", "で働", "に勤め", "在住", "勤務")
"""Single-valued attributes, before the value in Chinese and after it in Japanese."""
