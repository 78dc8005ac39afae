"""Fast generator of simulations: addressed xoshiro128++, from the docs of the core and its authors' references
(prng.di.unimi.it: xoshiro128plusplus.c, splitmix64.c)."""

M32, M64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF
GAMMA = 0x9E3779B97F4A7C15


def finalise(x):
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & M64
    x = (x ^ x >> 27) * 0x94D049BB133111EB & M64
    return x ^ x >> 31


def mix(x):
    return finalise((x + GAMMA) & M64)


class Xoshiro:
    """Words at (purpose, step, chunk) of the simulation with this seed."""

    def __init__(self, seed, purpose, step, chunk):
        state = seed
        for word in (purpose, step << 32 | chunk):
            state = mix(state ^ mix(word))
        # SplitMix64 from that state fills the four words.
        first, second = mix(state), mix((state + GAMMA) & M64)
        self.s = [first & M32, first >> 32, second & M32, second >> 32]

    def next(self):
        s = self.s
        total = (s[0] + s[3]) & M32
        word = ((total << 7 | total >> 25) + s[0]) & M32
        t = s[1] << 9 & M32
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = (s[3] << 11 | s[3] >> 21) & M32
        return word
