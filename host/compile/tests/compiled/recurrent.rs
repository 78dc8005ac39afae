//! Recurrent networks: loops over time, whose source does not grow with the number of steps.

use super::{compiled, of_graph};
use damper_compile::{CompileOptions, Compiled, Language};
use damper_grad::{DeriveOptions, Loss};
use damper_onnx::graph::{DType, GraphOptions};
use damper_onnx::pb::{GraphProto, ModelProto, NodeProto, TensorProto};
use damper_onnx::{
    Extent, make_attr_int, make_attr_ints, make_attr_string, make_node, make_tensor_f32, make_tensor_i64,
    make_value_info,
};
use damper_testing::Random;

/// Recurrent network. It reads sequences of three numbers and classifies them by the output of their last step.
#[derive(Clone, Copy, Debug)]
pub struct Recurrent {
    /// `GRU`, `LSTM` or `RNN`.
    pub op: &'static str,
    pub steps: usize,
    pub hidden: usize,
    pub layers: usize,
    pub is_bidirectional: bool,
    /// Attribute of a GRU. PyTorch's is linear before its reset.
    pub is_linear_before_reset: bool,
}

impl Recurrent {
    pub fn new(op: &'static str, steps: usize, hidden: usize) -> Self {
        Self { op, steps, hidden, layers: 1, is_bidirectional: false, is_linear_before_reset: true }
    }

    fn directions(&self) -> usize {
        1 + usize::from(self.is_bidirectional)
    }

    /// Nodes and weights of layer `at`, as PyTorch exports them. Reads `[steps, N, inputs]`.
    fn layer(&self, at: usize, inputs: usize, random: &mut Random) -> (Vec<NodeProto>, Vec<TensorProto>) {
        let gates = match self.op {
            "RNN" => 1,
            "GRU" => 3,
            _ => 4,
        };
        let (directions, hidden) = (self.directions(), self.hidden);
        let name = |part: &str| format!("{part}{at}");
        let mut weights = vec![];
        for (part, shape) in [
            ("w", vec![directions, gates * hidden, inputs]),
            ("r", vec![directions, gates * hidden, hidden]),
            ("b", vec![directions, 2 * gates * hidden]),
        ] {
            let values: Vec<f32> = (0..shape.iter().product()).map(|_| random.signed() * 0.5).collect();
            weights.push(make_tensor_f32(&name(part), &shape, &values));
        }
        let direction = if self.is_bidirectional { "bidirectional" } else { "forward" };
        let mut attributes =
            vec![make_attr_int("hidden_size", hidden as i64), make_attr_string("direction", direction)];
        if self.op == "GRU" {
            attributes.push(make_attr_int("linear_before_reset", self.is_linear_before_reset.into()));
        }
        let [x, w, r, b, y, turned] = ["x", "w", "r", "b", "y", "turned"].map(name);
        let next = format!("x{}", at + 1);
        let nodes = vec![
            make_node(self.op, &name("layer"), &[&x, &w, &r, &b], &[&y], attributes),
            make_node("Transpose", &name("turn"), &[&y], &[&turned], vec![make_attr_ints("perm", &[0, 2, 1, 3])]),
            make_node("Reshape", &name("join"), &[&turned, "joined"], &[&next], vec![]),
        ];
        (nodes, weights)
    }

    pub fn model(&self, random: &mut Random) -> ModelProto {
        let first = make_node("Transpose", "first", &["x"], &["x0"], vec![make_attr_ints("perm", &[1, 0, 2])]);
        let (mut node, mut initializer) = (vec![first], vec![make_tensor_i64("joined", &[3], &[0, 0, -1])]);
        let width = self.directions() * self.hidden;
        for at in 0..self.layers {
            let (nodes, weights) = self.layer(at, if at == 0 { 3 } else { width }, random);
            node.extend(nodes);
            initializer.extend(weights);
        }
        let last = format!("x{}", self.layers);
        node.extend([
            make_node("Gather", "last", &[&last, "end"], &["state"], vec![make_attr_int("axis", 0)]),
            make_node("Gemm", "dense", &["state", "fw", "fb"], &["y"], vec![make_attr_int("transB", 1)]),
        ]);
        let values: Vec<f32> = (0..4 * width).map(|_| random.signed() * 0.5).collect();
        initializer.extend([
            make_tensor_i64("end", &[], &[self.steps as i64 - 1]),
            make_tensor_f32("fw", &[4, width], &values),
            make_tensor_f32("fb", &[4], &[0.0, 0.1, -0.1, 0.0]),
        ]);
        let graph = GraphProto {
            node,
            input: vec![make_value_info(
                "x",
                DType::F32,
                &[Extent::Batch, Extent::Fixed(self.steps), Extent::Fixed(3)],
            )],
            output: vec![make_value_info("y", DType::F32, &[Extent::Batch, Extent::Fixed(4)])],
            initializer,
            ..GraphProto::default()
        };
        of_graph(graph)
    }

    pub fn compile(&self, to: &CompileOptions) -> Compiled {
        let (model, options) = (self.model(&mut Random(7)), DeriveOptions::new(Loss::SoftmaxCrossEntropy));
        let name = format!("{} {} {}", self.op, self.steps, self.hidden);
        compiled(&name, &model, &GraphOptions::default(), &options, to.clone()).unwrap()
    }
}

/// Compiles recurrent networks of each operator, with two directions and two layers.
pub fn networks(to: &CompileOptions) -> Vec<Compiled> {
    let networks = [
        Recurrent::new("GRU", 100, 12),
        Recurrent { is_linear_before_reset: false, ..Recurrent::new("GRU", 30, 5) },
        Recurrent::new("LSTM", 100, 8),
        Recurrent::new("RNN", 100, 8),
        // So narrow that the gradients of its steps are added, not concatenated.
        Recurrent::new("RNN", 25, 1),
        Recurrent { is_bidirectional: true, ..Recurrent::new("LSTM", 20, 4) },
        Recurrent { is_bidirectional: true, layers: 2, ..Recurrent::new("GRU", 20, 4) },
        Recurrent { layers: 2, ..Recurrent::new("RNN", 16, 6) },
    ];
    networks.iter().map(|network| network.compile(to)).collect()
}

/// Returns the lines and the bytes of the generated source.
fn source(compiled: &Compiled) -> (usize, usize) {
    let is_source = |path: &str| match path.rsplit_once('.') {
        Some((_, "rs")) => path.starts_with("src/"),
        Some((name, "c")) => name != "test",
        _ => false,
    };
    let files: Vec<&[u8]> =
        compiled.files.iter().filter(|file| is_source(&file.path)).map(|file| &*file.bytes).collect();
    (files.concat().split(|byte| *byte == b'\n').count(), files.concat().len())
}

// The source of 200 steps has as many lines as that of 20, and longer numbers in some of them. Each step of time takes
// the same memory.
#[test]
fn source_is_independent_of_steps() {
    for language in [Language::Rust, Language::C] {
        let to = CompileOptions { language, damper: Some(super::root()), ..CompileOptions::default() };
        for network in [Recurrent::new("GRU", 20, 12), Recurrent::new("LSTM", 20, 8), Recurrent::new("RNN", 20, 8)] {
            let [few, some, many] = [20, 100, 200].map(|steps| Recurrent { steps, ..network }.compile(&to));
            let [(lines, bytes), of_some, (most_lines, most_bytes)] = [&few, &some, &many].map(source);
            println!("{network:?} {language:?}: {bytes}, {}, {most_bytes} bytes of source", of_some.1);
            // In C, each step is an element of the array that sums a bias's gradient.
            let per_step = if language == Language::C { "1.0f, ".len() * 180 } else { 0 };
            assert!(most_bytes - bytes < 700 + per_step, "{network:?} {language:?}: {bytes} and {most_bytes} bytes");
            assert!(language == Language::C || lines == most_lines, "{network:?}: {lines} and {most_lines} lines");
            let [few, some, many] = [few, some, many].map(|compiled| compiled.figures.memory);
            assert_eq!((some - few) * 100, (many - some) * 80, "{network:?}: {few}, {some} and {many} bytes of memory");
        }
    }
}

// A GRU of 100 steps: its states, gates, and what the backward pass reads of them take 6·H floats for each step. All
// else takes at most 25 KiB.
#[test]
fn memory_is_states_and_little_else() {
    let memory = Recurrent::new("GRU", 100, 12).compile(&CompileOptions::default()).figures.memory;
    let states = 4 * 100 * 6 * 12;
    assert!(memory - states <= 25 << 10, "{memory} bytes");
}
