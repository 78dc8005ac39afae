"""Rounding onto the grid: `truncate` is the floor, for every f32 from 0 to 2^22."""

import z3
from execute import Program
from smt import run, source
from values import FLOATS

FILE = "core/src/numerics/round.rs"


def truncate(config):
    program = Program({"round": source(FILE)}, config=config)

    def scenario(context):
        x = context.fresh("f32", "x")
        top = z3.FPVal(float(1 << 22), FLOATS["f32"])
        context.assume(z3.And(z3.fpGEQ(x.term, z3.FPVal(0.0, FLOATS["f32"])), z3.fpLEQ(x.term, top)))
        found = program.call(context, "truncate", [x])
        # Integers up to 2^23 are floats, so these two comparisons are exact. Together they state the floor.
        as_float = lambda term: z3.fpUnsignedToFP(z3.RNE(), term, FLOATS["f32"])
        context.claim(z3.ULE(found.term, 1 << 22), "at most 2^22")
        context.claim(z3.fpLEQ(as_float(found.term), x.term), "not above x")
        context.claim(z3.fpGT(as_float(found.term + 1), x.term), "above x - 1")
        most = context.fresh("u32", "most")
        context.claim(z3.Implies(z3.And(z3.ULE(most.term, 1 << 22), z3.fpLEQ(x.term, as_float(most.term))), z3.ULE(found.term, most.term)),
            "at most each integer that x is at most")

    return scenario


PROOFS = [
    ("truncate on x86", truncate(['target_arch="x86_64"'])),
    ("truncate elsewhere", truncate([])),
]

if __name__ == "__main__":
    run(PROOFS)
