//! A GELU chain becomes one node for every exporter. Similar chains stay.

use super::{N, Sketch, graph};
use damper_onnx::graph::Graph;
use damper_onnx::{attr_string, make_attr_float};

/// Graph of `x = Mul(input, scale)`, `[N, 7]`, and `lines`, each `output = op(inputs)`. A number in the inputs is a
/// constant.
fn chain(lines: &[&str], outputs: &[&str]) -> Graph {
    let mut sketch = Sketch { opset: 17, graph: Default::default() }.input("input", &[N, 7]).weight("scale", &[7]);
    sketch = sketch.node("Mul", &["input", "scale"], "x", &[]);
    let mut numbers: Vec<&str> = vec![];
    for line in lines {
        let words: Vec<&str> = line.split([' ', '=', '(', ')', ',']).filter(|word| !word.is_empty()).collect();
        for input in &words[2..] {
            if let (Ok(number), false) = (input.parse(), numbers.contains(input)) {
                sketch = sketch.node("Constant", &[], input, &[make_attr_float("value_float", number)]);
                numbers.push(input);
            }
        }
        sketch = sketch.node(words[1], &words[2..], words[0], &[]);
    }
    graph(&sketch.returns(outputs)).unwrap()
}

const ERF: [&[&str]; 3] = [
    &["v = Div(x, 1.4142135)", "e = Erf(v)", "a = Add(e, 1)", "m = Mul(x, a)", "y = Mul(m, 0.5)"],
    &["h = Mul(x, 0.5)", "v = Mul(0.70710677, x)", "e = Erf(v)", "a = Add(1, e)", "y = Mul(h, a)"],
    &["v = Mul(x, 0.70710677)", "e = Erf(v)", "h = Mul(e, 0.5)", "a = Add(h, 0.5)", "y = Mul(a, x)"],
];

const TANH: [&[&str]; 2] = [
    &[
        "p = Pow(x, 3)",
        "q = Mul(p, 0.044715)",
        "s = Add(x, q)",
        "u = Mul(s, 0.7978846)",
        "t = Tanh(u)",
        "a = Add(t, 1)",
        "h = Mul(x, 0.5)",
        "y = Mul(h, a)",
    ],
    &[
        "s = Mul(x, x)",
        "p = Mul(x, s)",
        "q = Mul(0.044715, p)",
        "r = Add(x, q)",
        "u = Mul(0.7978846, r)",
        "t = Tanh(u)",
        "a = Add(1, t)",
        "m = Mul(x, a)",
        "y = Mul(0.5, m)",
    ],
];

#[test]
fn chains_are_one_node() {
    for (chains, approximate) in [(&ERF[..], "none"), (&TANH[..], "tanh")] {
        for lines in chains {
            let graph = chain(lines, &["y"]);
            let [before, node] = &graph.nodes[..] else { panic!("{lines:?}: {} nodes", graph.nodes.len()) };
            assert_eq!((&*node.op, attr_string(&node.attributes, "approximate", "none")), ("Gelu", approximate));
            assert_eq!(node.inputs, [Some(before.outputs[0])]);
            assert_eq!(node.outputs, graph.outputs);
        }
    }
}

#[test]
fn chain_that_is_read_inside_stays() {
    let lines = [ERF[0], &["z = Add(y, e)"]].concat();
    let graph = chain(&lines, &["z"]);
    let ops: Vec<&str> = graph.nodes.iter().map(|node| &*node.op).collect();
    assert_eq!(ops, ["Mul", "Div", "Erf", "Add", "Mul", "Mul", "Add"]);
}

#[test]
fn other_functions_stay_as_they_are() {
    for (from, to) in [("1.4142135", "1.41"), ("0.5", "0.51"), ("Add(e, 1)", "Sub(e, 1)"), ("Mul(x, a)", "Mul(e, a)")] {
        let lines: Vec<String> = ERF[0].iter().map(|line| line.replace(from, to)).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        assert_eq!(chain(&lines, &["y"]).nodes.len(), 6, "{to}");
    }
    let lines: Vec<String> = TANH[0].iter().map(|line| line.replace("0.044715", "0.0448")).collect();
    assert_eq!(chain(&lines.iter().map(String::as_str).collect::<Vec<_>>(), &["y"]).nodes.len(), 9);
}
