//! `Slice`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    type Cuts<'a> = [&'a [i64]; 4];
    let slice = |b: &mut GraphBuilder, cuts: Cuts<'_>| cuts.map(|list| b.ints(list));
    let activation = |name, shape: &[usize], cuts: Cuts<'_>, out: &[usize]| {
        let mut b = GraphBuilder::new(13);
        let x = b.activation(shape);
        let lists = slice(&mut b, cuts);
        let y = b.node("Slice", &[&[x], &lists[..]].concat(), vec![], out);
        b.case(name, y)
    };
    let parameter = |name, shape: &[usize], cuts: Cuts<'_>, out: &[usize]| {
        let mut b = GraphBuilder::new(21);
        let (x, w) = (b.activation(out), b.param(shape));
        let lists = slice(&mut b, cuts);
        let part = b.node("Slice", &[&[w], &lists[..]].concat(), vec![], out);
        let y = b.node("Mul", &[x, part], vec![], &[&[1], out].concat());
        b.case(name, y)
    };
    let mut thirds = GraphBuilder::new(17);
    let (x, w) = (thirds.activation(&[4]), thirds.param(&[4, 6]));
    let product = thirds.node("MatMul", &[x, w], vec![], &[1, 6]);
    let parts = [0, 2, 4].map(|at| {
        let lists = slice(&mut thirds, [&[at], &[at + 2], &[1], &[1]]);
        thirds.node("Slice", &[&[product], &lists[..]].concat(), vec![], &[1, 2])
    });
    let sum = thirds.node("Mul", &parts[..2], vec![], &[1, 2]);
    let sum = thirds.node("Mul", &[sum, parts[2]], vec![], &[1, 2]);
    let mut joined = GraphBuilder::new(17);
    let x = joined.activation(&[2, 6]);
    let row = joined.node("Reshape", &[x], vec![], &[1, 12]);
    let lists = slice(&mut joined, [&[0], &[11], &[1], &[2]]);
    let other = joined.node("Slice", &[&[row], &lists[..]].concat(), vec![], &[1, 6]);
    vec![
        joined.case("every other element of joined axes", other),
        activation("the first rows", &[5, 2], [&[0], &[3], &[1], &[1]], &[1, 3, 2]),
        activation("the last element", &[2, 5], [&[4], &[5], &[2], &[1]], &[1, 2, 1]),
        activation("every other element", &[2, 5], [&[0], &[5], &[2], &[2]], &[1, 2, 3]),
        activation("backwards", &[4, 2], [&[3], &[-5], &[1], &[-1]], &[1, 4, 2]),
        activation("every other element backwards", &[5, 2], [&[3], &[-6], &[1], &[-2]], &[1, 2, 2]),
        activation("two axes", &[5, 4], [&[1, 0], &[4, 4], &[1, 2], &[1, 3]], &[1, 3, 2]),
        parameter("of a parameter", &[5, 3], [&[1], &[3], &[0], &[1]], &[2, 3]),
        parameter("of a parameter, backwards", &[5, 3], [&[4], &[-6], &[0], &[-2]], &[3, 3]),
        thirds.case("three parts of one product", sum),
    ]
}
