use damper::{
    autodiff::{DeriveOptions, Loss},
    backend::Choice,
    data::DataOptions,
    graph::GraphOptions,
    train::*,
};
use std::num::NonZeroUsize;
struct P;
impl Progress for P {
    fn backend(&mut self, n: &str) {
        eprintln!("{n}");
    }
    fn step(&mut self, _: &StepReport) {}
    fn evaluated(&mut self, e: &Evaluation) {
        eprintln!("{e:?}");
    }
}
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let f = |i: usize| a[i].parse::<f64>().unwrap();
    let source = Source {
        model: a[1].clone().into(),
        graph: GraphOptions::default(),
        derive: DeriveOptions::new(Loss::SoftmaxCrossEntropy),
        data: a[2].clone(),
        data_options: DataOptions {
            normalize: if a[2].contains("mnist") { Some((0.1307, 0.3081)) } else { None },
            ..Default::default()
        },
    };
    let config = TrainConfig {
        budget: Budget::Epsilon(f(3)),
        delta: 1e-5,
        allow_large_delta: false,
        batch_size: f(4) as u32,
        epochs: f(5),
        dataset_size: None,
        lr: f(6),
        clip: f(7) as f32,
        optimizer: OptimizerChoice::Sgd { momentum: f(8) as f32, nesterov: false, weight_decay: 0.0 },
        noise: Noise::Discrete,
        grid_bits: 20,
        backend: if a[9] == "tract" { Choice::Tract } else { Choice::Ort },
        seed: Some(f(10) as u64),
        physical_batch: NonZeroUsize::new(16).unwrap(),
        workers: None,
        evaluate_every: Some(f(11)),
    };
    let run_ = prepare(&source, config).map_err(|e| e.to_string()).unwrap();
    eprintln!("dim {} steps {} sigma {} eps {}", run_.params.len(), run_.steps, run_.multiplier, run_.epsilon);
    let ck = std::env::temp_dir();
    let o = run(&run_, &ck, &mut P).map_err(|e| e.to_string()).unwrap();
    println!("seconds {:.1} steps {} last {:?}", o.seconds, o.steps, o.evaluations.last());
}
