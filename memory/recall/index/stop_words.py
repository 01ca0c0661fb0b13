"""Stop words of the search.

English is complete. German, French, Spanish, Italian and Portuguese are limited to
words without a meaning in the other languages: users may search for "die", "son",
"car", "war" or "come", and where these are common their frequency lowers their weight.
"""

ENGLISH = """
a about above after again all also am an and any are aren as at be because been before
being below between both but by can could couldn d did didn do does doesn doing don down
during each else ever few for from further had hadn has hasn have haven having he her
here hers herself him himself his how i if in into is isn it its itself just ll m me
more most my myself no nor not now of off on once only or other our ours ourselves out
over own re s same shall she should shouldn so some such t than that the their theirs
them themselves then there these they this those through to too under until up upon us
ve very was wasn we were weren what when where which while who whom whose why will with
won would wouldn you your yours yourself yourselves please tell
"""
GERMAN = """
aber als auch auf aus bei beim bist dann das dass dein deine dem den denn der des dich
dir doch dort du durch ein eine einem einen einer eines er es euch euer fur habe haben
hast hatte hier ich ihm ihn ihnen ihr ihre im ist ja jetzt kann kein keine konnen mein
meine meinem meinen meiner mich mir mit nach nicht noch nur ob oder ohne sehr sein seine
sich sie sind um und uns unser vom von vor warum weil welche wenn wer wie wieder wir
wird wo wurde zu zum zur uber
"""
FRENCH = """
au aux avec ce ces cet cette chez comme dans de des du elle elles en est et etait ete
etre eux il ils j je l la le les leur leurs lui ma mais mes moi mon ne nos notre nous on
ont ou par pas plus pour qu quand que quel quelle qui quoi sa ses si suis sur ta te tes
toi ton tu un une vos votre vous y n
"""
SPANISH = """
al algo como con cual cuando del desde donde el ella ellas ellos era eres es esta estas
este esto estos estoy fue ha hay hasta las lo los mas mi mis muy nos nosotros o os otra
otro para pero porque que quien se ser sobre soy su sus tambien te tiene tengo todo tu
tus un una uno unos y ya yo
"""
ITALIAN = """
ai al alla alle allo anche che chi ci con cosa da dal dalla degli dei del dell della
delle dello di dove e ed gli ha hai hanno ho il io la le lei lo loro lui mia mie mio ne
nel nella noi non o per perche piu quale quando quella quello questa questo sei si sono
su sua suo sul sulla ti tra tu tua tuo un una uno vi voi
"""
PORTUGUESE = """
ao aos as com como da das de dele dela do dos e ela elas ele eles em entre era essa esse
esta estou eu foi ha isso isto ja la lhe mais mas me meu meus minha muito na nao nas nem
no nos num numa o os ou para pela pelo por porque qual quando que quem sao se sem ser
seu seus sua suas tambem te tem tenho teu tua um uma voce voces
"""
STOP_WORDS = frozenset(
    " ".join((ENGLISH, GERMAN, FRENCH, SPANISH, ITALIAN, PORTUGUESE)).split()
)
STOP_CHARACTERS = frozenset("的了是我你他她它在有和不也都就吗呢吧啊这那个么人")
"""Chinese characters that are no search terms on their own."""
