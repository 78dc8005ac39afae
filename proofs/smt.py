"""Proves claims on all paths of a piece of Rust, for all inputs."""

import os
import sys
import time

import z3
from values import FLOATS, WIDTHS, Num, Panic

HERE = os.path.dirname(os.path.abspath(__file__))
# A copy of the sources, in which `faults` plants changes. By default the repository.
ROOT = os.environ.get("PROOFS_ROOT", os.path.dirname(HERE))
LIMIT = 600_000


class Failed(Exception):
    pass


class Infeasible(Exception):
    pass


def source(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as file:
        return file.read()


class Context:
    """One path: the choices at its branches, and what was assumed and claimed along it."""

    def __init__(self, choices, prune):
        self.choices, self.taken, self.prune = choices, [], prune
        self.path, self.claims = [], []
        # If a dictionary, a product of f32s is any number that `product` admits.
        self.products, self.any_integer_product = None, False

    def product(self, a, b):
        """A product as a fresh number. The proof "a product of finite numbers" shows the two facts of one of floats. One of
        integers has none."""
        if z3.is_app_of(b, z3.Z3_OP_FPA_NEG):
            return z3.fpNeg(self.product(a, b.arg(0)))
        key = (a.get_id(), b.get_id())
        if key not in self.products:
            x = z3.FreshConst(a.sort(), "product")
            if z3.is_bv(a):
                self.products[key] = (x, a, b)
                return x
            finite = [z3.Not(z3.Or(z3.fpIsNaN(one), z3.fpIsInf(one))) for one in (a, b)]
            self.assume(z3.Implies(z3.And(*finite), z3.Not(z3.fpIsNaN(x))), definition=True)
            # The key keeps the terms alive, so that their numbers are not used again.
            self.products[key] = (x, a, b)
        return self.products[key][0]

    def fresh(self, kind, name):
        """An input: any value of its type. A float is any bits, NaN among them."""
        if kind in FLOATS:
            return Num(kind, z3.FreshConst(FLOATS[kind], name))
        return Num(kind, z3.FreshConst(z3.BoolSort() if kind == "bool" else z3.BitVecSort(WIDTHS[kind]), name))

    def assume(self, condition, definition=False):
        """A precondition, or the definition of a fresh value."""
        self.path.append(condition)

    def claim(self, condition, words):
        """A claim that must hold at this point. It may rely on what the path has so far."""
        self.claims.append((z3.Implies(z3.And(*self.path), condition), words))

    def decide(self, condition):
        fixed = z3.simplify(condition)
        if z3.is_true(fixed) or z3.is_false(fixed):
            return z3.is_true(fixed)
        at = len(self.taken)
        choice = self.choices[at] if at < len(self.choices) else True
        self.taken.append(choice)
        self.path.append(condition if choice else z3.Not(condition))
        if self.prune and at >= len(self.choices) - 1 and solve(self.path, 5000) == z3.unsat:
            raise Infeasible
        return choice


def solve(terms, limit=LIMIT, model=False):
    solver = z3.SolverFor("QF_FPBV") if any_float(terms) else z3.Solver()
    solver.set("timeout", limit)
    solver.add(*terms)
    result = solver.check()
    return (result, solver.model() if result == z3.sat else None) if model else result


def any_float(terms):
    seen, todo = set(), list(terms)
    while todo:
        term = todo.pop()
        if term.get_id() in seen:
            continue
        seen.add(term.get_id())
        if z3.is_fp(term) or isinstance(term, z3.FPRef):
            return True
        todo += term.children()
    return False


def prove(name, scenario, prune=True):
    """Proves a scenario: a function of a context that runs code and makes claims. Returns the number of its paths."""
    start, choices, paths, reached = time.monotonic(), [], 0, False
    while True:
        context = Context(choices, prune)
        try:
            scenario(context)
            ended = True
        except Infeasible:
            ended = False
        except Panic as panic:
            context.claim(z3.BoolVal(False), f"no panic: {panic}")
            ended = True
        if ended:
            paths += 1
            check(name, context)
            reached = reached or (bool(context.claims) and solve(context.path) == z3.sat)
        # The next path: the last branch that was taken as true becomes false.
        taken = context.taken
        while taken and not taken[-1]:
            taken.pop()
        if not taken:
            break
        choices = [*taken[:-1], False]
    if not reached:
        raise Failed(f"{name}: no input satisfies the assumptions, so nothing was proved")
    print(f"  {name}: {paths} paths, {time.monotonic() - start:.1f} s", flush=True)
    return paths


def check(name, context):
    if not context.claims:
        return
    result, model = solve([z3.Not(z3.And(*[claim for claim, _ in context.claims]))], model=True)
    if result == z3.unsat:
        return
    if result == z3.unknown:
        raise Failed(f"{name}: the solver found no answer in {LIMIT // 1000} s")
    broken = [words for claim, words in context.claims if z3.is_false(model.eval(claim, model_completion=True))]
    raise Failed(f"{name}: not true: {', '.join(broken)}; for {model}")


def run(proofs):
    """Runs the proofs of a script, for `check`. The exit status is 1 if one fails."""
    wanted = sys.argv[1:]
    try:
        for name, scenario in proofs:
            if wanted and not any(part in name for part in wanted):
                continue
            prove(name, scenario)
    except Failed as failure:
        print(str(failure)[:1500], file=sys.stderr)
        sys.exit(1)
