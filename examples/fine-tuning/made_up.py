"""Synthetic film reviews with their sentiment: public sentences that cost no privacy."""

import random

GOOD = """absorbing accomplished admirable affecting amazing amusing artful astonishing authentic beautiful believable bold brave breathtaking bright
brilliant captivating charismatic charming clever cohesive compassionate compelling convincing crisp daring dazzling deep delicate delightful
eloquent elegant emotional enchanting energetic engaging engrossing enjoyable entertaining enthralling excellent exceptional exciting exhilarating
exquisite extraordinary eye-opening fascinating fine first-rate flawless fresh fun funny generous gentle genuine glorious good gorgeous graceful great
gripping harrowing heartfelt heartwarming hilarious honest human imaginative impressive incisive ingenious inspired inspiring intelligent intimate
intriguing inventive invigorating irresistible joyous likable lively lovely luminous lyrical magical magnificent masterful memorable mesmerizing
moving nuanced original outstanding passionate perceptive perfect playful pleasant poetic poignant polished powerful precise profound provocative
quirky refreshing remarkable resonant rewarding rich riveting romantic satisfying seductive sensitive sharp sincere skillful smart solid
sophisticated spectacular spellbinding splendid spirited stirring strong stunning stylish sublime subtle superb suspenseful sweet tender terrific
thoughtful thought-provoking thrilling timeless touching triumphant truthful unforgettable uplifting vibrant vivid warm well-acted well-crafted
well-made wise witty wonderful worthwhile""".split()

BAD = """abysmal aimless amateurish annoying appalling artificial atrocious awful awkward bad baffling banal bland bleak bloated boring careless
cartoonish charmless cheap cheesy cliched clumsy clunky cold confused confusing contrived convoluted crass crude cynical dated depressing derivative
disappointing disastrous disjointed dismal dreadful dreary drab dull dumb embarrassing empty excruciating exhausting exploitative failed fake flat
flawed flimsy forced forgettable formulaic frustrating generic gratuitous grating half-baked hackneyed heavy-handed hollow horrible humorless idiotic
implausible inane incoherent inept inert insipid insufferable insulting irritating joyless juvenile lackluster laborious lame lazy leaden lifeless
limp listless long-winded loud ludicrous manipulative meandering mediocre messy mindless mirthless misguided monotonous muddled mundane nasty
obnoxious obvious offensive overblown overlong overwrought painful pathetic plodding pointless poor predictable preposterous pretentious redundant
repetitive ridiculous routine sappy self-indulgent shallow shoddy silly simplistic sloppy slow sluggish smug sophomoric soulless stale stilted
stupid superficial tedious tepid terrible thin tired tiresome trite ugly unbearable unconvincing underdeveloped uneven unfocused unfunny uninspired
unintentional uninteresting unnecessary unoriginal unpleasant unremarkable unsatisfying unwatchable vapid vulgar wasteful weak witless wooden
worthless""".split()

GOOD_ENDS = """holds your attention from start to finish|makes you think and feel|is a joy to watch|never strikes a false note|rewards your patience
stays with you long after it ends|works on every level|is well worth your time|will make you laugh out loud|earns every tear|deserves to be seen
gets everything right|is full of life|has a big heart|has real depth|finds beauty in small moments|never loses its energy|leaves you wanting more
is the best of the year|succeeds brilliantly|is better than it has any right to be|will win you over|offers plenty of laughs|is a triumph
is a treat|packs an emotional punch|brings its people to life|avoids every cliche|surprises at every turn|keeps you on the edge of your seat""".replace("\n", "|").split("|")

BAD_ENDS = """wears out its welcome|goes nowhere|is a chore to sit through|falls apart in the second half|never comes to life|wastes a good cast
is a waste of time|fails to make us care|runs out of ideas|collapses under its own weight|puts you to sleep|has no idea what it wants to be
is not worth the price of a ticket|tries too hard|misses the mark|lacks any sense of fun|feels like a bad television episode|has nothing to say
offers nothing new|makes no sense|is about as funny as a root canal|should have been left on the shelf|is the worst of the year|loses its way
drags on and on|leaves you cold|insults the audience|feels twice as long as it is|relies on tired jokes|takes itself far too seriously""".replace("\n", "|").split("|")

GOOD_NOUNS = """charm wit warmth grace intelligence insight energy style passion honesty imagination heart humor wisdom tenderness suspense beauty
originality tension compassion depth delight pleasure gem masterpiece winner treasure triumph treat success""".split()

BAD_NOUNS = """cliches boredom stupidity nonsense pretension mess failure disaster bore dud misfire flop waste drivel tedium sap schmaltz gimmicks
stereotypes contrivances excess confusion monotony emptiness disappointment""".split()

THINGS = """movie film picture story plot comedy drama thriller documentary script screenplay acting cast direction dialogue ending music romance
sequel performance adaptation characters premise humor pacing camerawork remake satire tale debut""".split()

VERY = ["", "", "", "very", "so", "really", "truly", "often", "consistently", "utterly", "quite", "deeply", "surprisingly", "completely", "simply", "always"]
STARTS = ["", "", "", "it 's", "this is", "that 's", "it is", "what we have is", "in short ,", "ultimately ,", "at its core ,", "on the whole ,", "here is"]
TEXTS = """{start} {a} {very} {adj} {thing}|the {thing} is {very} {adj}|{adj}|{very} {adj}|{adj} and {adj}|{adj} , {adj} and {very} {adj}
{start} {a} {adj} {thing} that {end}|the {thing} {end}|{end}|{a} {adj} and {adj} {thing}|as {adj} as it is {adj}
a {thing} that is both {adj} and {very} {adj}|full of {noun}|{start} {a} {thing} of {noun} and {noun}|with {noun} and {noun}
both the {thing} and the {thing} are {adj}|{adj} {thing}|more {adj} than you would expect|there is {noun} in every scene
the {thing} {end} , and the {thing} is {adj}|one of the most {adj} films in years|you will find it {adj}|{start} {adj} from beginning to end
thanks to {a} {adj} {thing} , it {end}|the director gives us {a} {adj} {thing}|filled with {noun}""".replace("\n", "|").split("|")
NEGATED = """not {adj}|not {very} {adj}|never {adj}|the {thing} is not {adj}|hardly {adj}|anything but {adj}|far from {adj}|there is nothing {adj} about it
without being {adj}|is neither {adj} nor {adj}|lacks {noun}|devoid of {noun}|no {noun} at all|the {thing} is n't {adj} at all|would be hard to call {adj}
free of {noun}|without any {noun}|less {adj} than it should be|too little {noun}|wants to be {adj} and is n't|fails to be {adj}""".replace("\n", "|").split("|")
TURNS = ["{other} , but {own}", "though {other} , {own}", "{other} at first , yet {own}", "despite {a} {oadj} {thing} , {own}", "while {other} , {own}",
         "it could have been {oadj} , but {own}", "if you can forgive the {oadj} {thing} , {own}", "{own} , even if {other}", "{own} despite the {oadj} {thing}"]


def fill(text, good, pick):
    """Returns the template with words of one sentiment."""
    words = {"adj": GOOD if good else BAD, "end": GOOD_ENDS if good else BAD_ENDS, "noun": GOOD_NOUNS if good else BAD_NOUNS,
             "thing": THINGS, "very": VERY, "start": STARTS}
    for name, choices in words.items():
        while "{" + name + "}" in text:
            text = text.replace("{" + name + "}", pick.choice(choices), 1)
    return text


def sentence(pick):
    """Returns a sentence and its label: 1 if it is positive."""
    good, kind = pick.random() < 0.5, pick.random()
    if kind < 0.6:
        text = fill(pick.choice(TEXTS), good, pick)
    elif kind < 0.75:
        text = fill(pick.choice(NEGATED), not good, pick)
    else:
        short = [fill(pick.choice(TEXTS[:10]), side, pick) for side in (good, not good)]
        text = pick.choice(TURNS).replace("{own}", short[0]).replace("{other}", short[1])
        text = fill(text.replace("{oadj}", pick.choice(BAD if good else GOOD)), good, pick)
    words = " ".join(text.split()).split(" ")
    text = " ".join("an" if word == "{a}" and after[:1] in "aeiou" else "a" if word == "{a}" else word for word, after in zip(words, words[1:] + [""]))
    return text, int(good)


def sentences(count, seed):
    """Returns `count` sentences and labels of a public seed."""
    pick = random.Random(seed)
    return [sentence(pick) for _ in range(count)]
