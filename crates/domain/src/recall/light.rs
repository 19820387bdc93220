//! Words that hardly count: the function words of a language, and what people say around what they
//! look for ("I remember that somewhere I wrote").
//!
//! The function words also show the language of a text. Of the languages without a list of chatter
//! only the most frequent function words are here. A word of chatter may be what somebody looks for
//! ("find the file about the page"), so it counts more than a function word does.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::words::spellings;

pub(super) const ENGLISH: &str = "a about above after again against all also although always am an \
    and any are aren't as at be because been before being below between both but by can can't \
    cannot could couldn't did didn't do does doesn't doing don't down during each either else \
    ever every few for from further had has have haven't having he he's her here hers herself \
    him himself his how however i i'm i've if in into is isn't it it's its itself just let's me \
    might more most must my myself no nor not of off on once only or other our ours out over own \
    quite rather same shall she should so some such than that that's the their theirs them then \
    there there's these they they're this those though through to too under until up upon us very \
    was wasn't we we're were what what's whatever when where which while who whom whose why will \
    with within without won't would wouldn't yes yet you your yours";

const ENGLISH_CHATTER: &str = "actually anything anywhere ask asked believe bit called concerning \
    containing contains describe describes described describing detail details document documents \
    explain explained explains explaining file files find finding found get give guess hello help \
    hey hi information kind know lately like list look looked looking maybe mean meant mention \
    mentioned mentions need note noted notes one page pages paragraph perhaps please probably read \
    reading recall regarding remember remembered remembering said saw say saying says search \
    searching see seen show something sometime somewhere somehow sort stuff supposed talk talked \
    talking talks tell thank thanks thing things think thought told topic try trying want wanted \
    way wondering works write writing written wrote recently ago once";

/// The words of the stop list of SMART that the lists above lack. *Source*: Salton (ed.), "The
/// SMART Retrieval System", 1971; its list of 571 English words was published with the system.
const ENGLISH_SMART: &str = "a's able according accordingly across afterwards ain't allow allows almost alone along \
    already among amongst another anybody anyhow anyone anyway anyways apart appear appreciate \
    appropriate around aside asking associated available away awfully became become becomes \
    becoming beforehand behind beside besides best better beyond brief c'mon c's came cant cause \
    causes certain certainly changes clearly co com come comes consequently consider considering \
    contain corresponding course currently definitely despite different done downwards edu eg \
    eight elsewhere enough entirely especially et etc even everybody everyone everything \
    everywhere ex exactly example except far fifth first five followed following follows former \
    formerly forth four furthermore gets getting given gives go goes going gone got gotten \
    greetings hadn't happens hardly hasn't hence here's hereafter hereby herein hereupon hither \
    hopefully howbeit i'd i'll ie ignored immediate inasmuch inc indeed indicate indicated \
    indicates inner insofar instead inward it'd it'll keep keeps kept known knows last later \
    latter latterly least less lest let liked likely little looks ltd mainly many may meanwhile \
    merely moreover mostly much name namely nd near nearly necessary needs neither never \
    nevertheless new next nine nobody non none noone normally nothing novel now nowhere \
    obviously often oh ok okay old ones onto others otherwise ought ourselves outside overall \
    particular particularly per placed plus possible presumably provides que qv rd re really \
    reasonably regardless regards relatively respectively right second secondly seeing seem \
    seemed seeming seems self selves sensible sent serious seriously seven several shouldn't \
    since six somebody someone sometimes somewhat soon sorry specified specify specifying still \
    sub sup sure t's take taken tends th thanx thats themselves thence thereafter thereby \
    therefore therein theres thereupon they'd they'll they've third thorough thoroughly three \
    throughout thru thus together took toward towards tried tries truly twice two un \
    unfortunately unless unlikely unto use used useful uses using usually uucp value various via \
    viz vs wants we'd we'll we've welcome well went weren't whence whenever where's whereafter \
    whereas whereby wherein whereupon wherever whether whither who's whoever whole willing wish \
    wonder you'd you'll you're you've yourself yourselves zero";

pub(super) const GERMAN: &str = "aber alle allem allen aller alles als also am an ander andere \
    anderem anderen anderer anderes auch auf aus bei beim bin bis bist da dabei dafür daher dahin \
    damit danach dann daran darauf daraus darin darum darüber das dass dasselbe davon dazu dein \
    deine deinem deinen deiner dem den denen denn der deren des dessen dich die dies diese diesem \
    diesen dieser dieses dir doch dort du durch ein eine einem einen einer eines einige einigen \
    einiger einiges er es etwas euch euer eure für gegen gewesen hab habe haben hat hatte hatten \
    hier hin hinter ich ihm ihn ihnen ihr ihre ihrem ihren ihrer im in indem ins irgend ist ja \
    jede jedem jeden jeder jedes jene jetzt kann kannst kein keine keinem keinen keiner können \
    könnte man manche mein meine meinem meinen meiner mich mir mit muss musste nach nicht nichts \
    noch nun nur ob oder ohne schon sehr sein seine seinem seinen seiner seit sich sie sind so \
    solche soll sollte sondern sonst über um und uns unser unsere unter viel vom von vor während \
    wann war waren warum was wegen weil welche welchem welchen welcher welches wenn wer werde \
    werden wie wieder wieso will wir wird wirst wo wollen wollte worden wurde wurden würde würden \
    zu zum zur zwar zwischen";

const GERMAN_CHATTER: &str = "aufgeschrieben beschreibt beschrieben bitte damals datei dateien \
    eigentlich erinnere erinnern erklärt erwähnt finde finden frage gab geht gelesen genau gesagt \
    geschrieben gesehen gesucht gibt glaube halt hallo irgendein irgendeine irgendwann irgendwas \
    irgendwie irgendwo kenne letztens mal nochmal notiert notiz notizen sache sachen sag sagen \
    schau schreiben seite seiten stand steht suche suchen such thema text ungefähr vielleicht \
    weiß weißt wissen zeig zeige ging möchte neulich beschreibung stelle zeigen handelt";

pub(super) const FRENCH: &str = "a ai aie ainsi alors après as au aucun aucune aussi autre autres \
    aux avait avant avec avez avoir avons c car ce ceci cela celle celles celui ces cet cette ceux \
    chaque chez comme comment contre d dans de dedans dehors depuis des deux donc dont du elle \
    elles en encore entre es est et était étaient été être eu eux fait faire il ils j je jusque l \
    la laquelle le lequel les lesquels leur leurs lors lorsque lui m ma mais me même mêmes mes moi \
    moins mon n ne ni non nos notre nous on ont ou où par parce pas pendant peu peut plus plutôt \
    pour pourquoi puis qu quand que quel quelle quelles quels qui quoi s sa sans se selon ses si \
    sien soi sont sous suis sur t ta te tes toi ton tous tout toute toutes très trop tu un une va \
    vers voici voilà vos votre vous y";

const FRENCH_CHATTER: &str = "bonjour besoin cherche chercher chose choses concernant crois \
    demande dit donne décrit écrit explique expliqué fichier fichiers explication merci montre \
    note notes noté page pages parle parlait parlé peux pense plaît quelque quelqu rappelle \
    retrouve retrouver sais savoir souviens sujet texte trouve trouver veux voudrais voir vu lu \
    endroit part autrefois mentionne mentionné";

pub(super) const SPANISH: &str = "el los las unos unas del al y o pero como más muy este esta \
    estos estas eso para por con sin sobre cuando donde dónde qué quién su sus se lo le les es son \
    fue ser está están hay ha han no sí ya que en un una de la";

pub(super) const ITALIAN: &str = "il lo gli i uno degli della delle dei del nella nelle nel che \
    chi cui come dove quando perché più molto questo questa questi queste sono è era essere ha \
    hanno non si anche ma con per su da di e la le un una";

pub(super) const DUTCH: &str = "de het een en van in is dat die op te zijn met voor niet aan er \
    om ook als dan maar bij nog uit naar heeft hebben wordt worden deze dit wat waar hoe wie ik je \
    wij zij hij";

pub(super) const PORTUGUESE: &str = "o os as um uma do da dos das no na nos nas em e que não mais \
    muito com para por como onde quando este esta isso ser são foi é ao à pelo pela seu sua se \
    também";

/// Words of these lists that mean something else in another language. Alone they show no language.
const AMBIGUOUS: [&str; 24] = [
    "am", "bin", "car", "damit", "den", "des", "die", "don", "halt", "hat", "les", "main", "man",
    "mal", "not", "ont", "part", "pour", "sage", "sans", "son", "stand", "ton", "war",
];

/// The light words of the languages whose chatter is known: function words, and chatter.
const CHATTING: [(&[&str], &str); 3] = [
    (&[ENGLISH, ENGLISH_SMART], ENGLISH_CHATTER),
    (&[GERMAN], GERMAN_CHATTER),
    (&[FRENCH], FRENCH_CHATTER),
];

/// The bit of a light word that is a function word of a language.
const FUNCTION: u8 = 1 << 7;

/// The light words by each of their spellings, with a bit for each language of [`CHATTING`].
static LIGHT: LazyLock<HashMap<String, u8>> = LazyLock::new(|| {
    let mut light: HashMap<String, u8> = HashMap::new();
    for (bit, (function, chatter)) in CHATTING.iter().enumerate() {
        let function = function.iter().map(|list| (*list, FUNCTION | 1 << bit));
        for (list, bits) in function.chain([(*chatter, 1 << bit)]) {
            // `don't` is cut into `don` and `t`.
            let words = list.split([' ', '\'']).filter(|word| !word.is_empty());
            for spelling in words.flat_map(spellings) {
                *light.entry(spelling).or_default() |= bits;
            }
        }
    }
    light
});

/// Whether a light word is chatter, and no function word. `word` is in lower case and without
/// accents.
pub(super) fn is_chatter(word: &str) -> bool {
    LIGHT.get(word).is_some_and(|bits| bits & FUNCTION == 0)
}

/// Returns which words of a question are light, by the language that has the most of them. `words`
/// are in lower case and without accents.
pub(super) fn are_light(words: &[&str]) -> Vec<bool> {
    let of = |word: &&str| LIGHT.get(*word).copied().unwrap_or(0);
    let count = |bit: usize| words.iter().filter(|word| of(word) & 1 << bit != 0).count();
    let counts: Vec<usize> = (0..CHATTING.len()).map(count).collect();
    let most = counts.iter().copied().max().unwrap_or(0);
    let mask = counts
        .iter()
        .enumerate()
        .filter(|(_, count)| **count == most && most > 0)
        .fold(0u8, |mask, (bit, _)| mask | 1 << bit);
    let is_sure = |word: &&str| most > 1 || !AMBIGUOUS.contains(word);
    let is_letter = |word: &&str| word.len() == 1 && word.bytes().all(|b| b.is_ascii_alphabetic());
    words.iter().map(|word| of(word) & mask != 0 && is_sure(word) || is_letter(word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heavy(question: &str) -> Vec<&str> {
        let words: Vec<&str> = question.split(' ').collect();
        let light = are_light(&words);
        words.into_iter().zip(light).filter(|(_, light)| !light).map(|(word, _)| word).collect()
    }

    #[test]
    fn what_people_say_around_a_question_is_light() {
        let question = "i remember that somewhere i wrote about the leaking roof";
        assert_eq!(heavy(question), ["leaking", "roof"]);
        assert_eq!(heavy("wo habe ich das mit der dachrinne notiert"), ["dachrinne"]);
        assert_eq!(heavy("fuer ueber dachrinne"), ["dachrinne"]);
        assert_eq!(heavy("ou est la cle du garage"), ["cle", "garage"]);
        assert_eq!(heavy("unfortunately nobody seems to have a ladder"), ["ladder"]);
    }

    #[test]
    fn chatter_is_no_function_word() {
        for (word, is_chatter) in
            [("file", true), ("the", false), ("seems", false), ("seite", true)]
        {
            assert_eq!(super::is_chatter(word), is_chatter, "{word}");
        }
    }

    #[test]
    fn a_word_of_another_language_is_not_light() {
        assert_eq!(heavy("the history of the war"), ["history", "war"]);
        assert_eq!(heavy("world war"), ["world", "war"]);
        assert_eq!(heavy("wie war das mit dem krieg"), ["krieg"]);
    }
}
