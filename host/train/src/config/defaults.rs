//! Settings that a user leaves open.
//!
//! Each default depends on public facts alone: the number of samples, as declared or counted, the number of trained
//! parameters, the budget, and the settings that are given. `benches/record/defaults.md` compares them with tuned
//! settings.

/// The batch size over the root of the number of samples.
const BATCH_PER_ROOT: f64 = 8.0;
/// Most passes over the data, and most gradients of samples in a run: seconds to minutes for small networks.
const EPOCHS: f64 = 40.0;
const GRADIENTS: f64 = 1e6;
/// The usual clip. A given rate was probably chosen for it.
const CLIP: f32 = 1.0;
/// Nearly every gradient is larger, so this clip acts as a normalisation. Embeddings have small gradients.
const SMALL_CLIP: f32 = 0.1;
/// Adam: distance by which the noise of a whole run moves the outputs of all layers together, in units of their inputs,
/// and the most for each parameter.
const ADAM_MOVED: f64 = 4.0;
const ADAM_MOVED_EACH: f64 = 0.4;
/// Adam with integer inputs: distance of all parameters together, and the most for each. The rows of an embedding get
/// gradients from few samples, so they need a larger rate.
const ADAM_MOVED_OF_TOKENS: f64 = 128.0;
const ADAM_MOVED_EACH_OF_TOKENS: f64 = 1.0;
/// SGD: distance by which the noise of a whole run moves a parameter, and the largest rate times clip.
const MOVED: f64 = 0.5;
const LARGEST_STEP: f64 = 4.0;
/// The largest rate times weight decay. Above 1 parameters would oscillate.
const DECAYED: f64 = 0.1;

/// Facts about a run that determine its defaults. All are public.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PublicFacts {
    /// Number of training samples, as declared or counted.
    pub samples: u64,
    /// The network. Without it the optimizer, the rate and the clip stay open.
    pub network: Option<NetworkFacts>,
    /// ε, or the noise multiplier.
    pub noise: GivenNoise,
    /// The optimizer's weight decay, or 0.
    pub weight_decay: f64,
}

/// Facts about a network that determine its defaults.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NetworkFacts {
    /// Number of trained parameters.
    pub params: usize,
    /// Sum over the trained layers of the inputs of one of their outputs.
    pub fan_in: usize,
    /// True if the model's inputs are integers, such as tokens.
    pub takes_integers: bool,
}

/// The amount of noise.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum GivenNoise {
    /// The run's ε.
    Epsilon(f64),
    /// The noise multiplier.
    Multiplier(f64),
    /// A baseline without privacy.
    NotPrivate,
}

/// An optimizer, as far as the defaults depend on it.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum GivenOptimizer {
    /// None is given.
    #[default]
    Open,
    /// SGD with this momentum.
    Sgd(f64),
    /// An optimizer that scales each parameter's step by its own gradients, as Adam does.
    Adaptive,
}

/// Settings of a run, some of them open.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct OpenSettings {
    /// δ.
    pub delta: Option<f64>,
    /// The batch size.
    pub batch_size: Option<u32>,
    /// Passes over the data.
    pub epochs: Option<f64>,
    /// The optimizer.
    pub optimizer: GivenOptimizer,
    /// The learning rate.
    pub lr: Option<f64>,
    /// The clip.
    pub clip: Option<f32>,
}

/// A default that was used, and its reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UsedDefault {
    /// The setting.
    pub setting: &'static str,
    /// Its value.
    pub value: String,
    /// The reason, from public facts.
    pub reason: String,
}

impl OpenSettings {
    /// Fills the open settings. Returns the defaults that were used.
    ///
    /// An open optimizer becomes Adam if the rate is open too. With a given rate it is SGD, and the clip 1, because a
    /// rate for one optimizer and clip fits no other.
    pub fn fill(&mut self, facts: PublicFacts) -> Vec<UsedDefault> {
        let mut used = Vec::new();
        let mut note = |setting, value: String, reason: String| used.push(UsedDefault { setting, value, reason });
        let PublicFacts { samples, network, noise, weight_decay } = facts;
        let is_private = noise != GivenNoise::NotPrivate;
        if is_private && self.delta.is_none() {
            let delta = *self.delta.insert(delta(samples));
            note("delta", format!("{delta:e}"), format!("a power of ten below 1 / {samples} samples"));
        }
        let batch_size = *self.batch_size.get_or_insert_with(|| {
            let batch = batch_size(samples);
            note("batch_size", batch.to_string(), format!("{BATCH_PER_ROOT} times the root of {samples} samples"));
            batch
        });
        let epochs = *self.epochs.get_or_insert_with(|| {
            let epochs = epochs(samples);
            let reason = if epochs < EPOCHS { "a million gradients of samples" } else { "usual for few samples" };
            note("epochs", epochs.to_string(), reason.into());
            epochs
        });
        let Some(network) = network else { return used };
        if is_private && self.clip.is_none() {
            let is_small =
                self.lr.is_none() && (network.takes_integers || matches!(self.optimizer, GivenOptimizer::Sgd(_)));
            let (clip, reason) = match self.lr {
                None if is_small => (SMALL_CLIP, "most gradients are larger, so steps depend little on it"),
                None => (CLIP, "the usual bound"),
                Some(_) => (CLIP, "the usual bound beside a given rate"),
            };
            self.clip = Some(clip);
            note("clip", clip.to_string(), reason.into());
        }
        if self.optimizer == GivenOptimizer::Open {
            let (optimizer, name, reason) = match self.lr {
                Some(_) => (GivenOptimizer::Sgd(0.0), "sgd", "the usual optimizer beside a given rate"),
                None => (GivenOptimizer::Adaptive, "adam", "its rate fits most networks at any epsilon"),
            };
            self.optimizer = optimizer;
            note("optimizer", name.into(), reason.into());
        }
        if self.lr.is_some() {
            return used;
        }
        let steps = (epochs * samples as f64 / f64::from(batch_size)).ceil().max(1.0);
        let (lr, reason) = match self.optimizer {
            GivenOptimizer::Sgd(momentum) => {
                let clip = f64::from(self.clip.unwrap_or(1.0));
                sgd_rate(noise, samples, steps, f64::from(batch_size), clip, momentum)
            }
            _ => adam_rate(network, steps),
        };
        let (lr, reason) = match two_digits(DECAYED / weight_decay) {
            most if most < lr => (most, "so that weight decay takes a tenth of a parameter in a step".into()),
            _ => (lr, reason),
        };
        self.lr = Some(lr);
        note("lr", lr.to_string(), reason);
        used
    }
}

/// Returns the largest power of ten that is at most 1e-5 and `samples^-1.1`.
fn delta(samples: u64) -> f64 {
    const POWERS: [f64; 11] = [1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-11, 1e-12, 1e-13, 1e-14, 1e-15];
    let most = (samples.max(1) as f64).powf(-1.1);
    POWERS.into_iter().find(|power| *power <= most).unwrap_or(1e-15)
}

fn batch_size(samples: u64) -> u32 {
    let samples = samples.max(1) as f64;
    (BATCH_PER_ROOT * samples.sqrt()).round().min(samples) as u32
}

fn epochs(samples: u64) -> f64 {
    let most = GRADIENTS / samples.max(1) as f64;
    if most >= EPOCHS { EPOCHS } else { two_digits(most.max(1.0)) }
}

/// Returns the rate for which the noise of the run moves the network by a fixed distance.
fn adam_rate(network: NetworkFacts, steps: f64) -> (f64, String) {
    let NetworkFacts { params, fan_in, takes_integers } = network;
    let (moved, size, most, of) = if takes_integers {
        (
            ADAM_MOVED_OF_TOKENS,
            params,
            ADAM_MOVED_EACH_OF_TOKENS,
            format!("a network of tokens with {params} parameters"),
        )
    } else {
        (ADAM_MOVED, fan_in, ADAM_MOVED_EACH, format!("a network whose trained layers have {fan_in} inputs"))
    };
    let each = (moved / (size.max(1) as f64).sqrt()).min(most);
    (two_digits(each / steps.sqrt()), format!("for {steps} steps of {of}"))
}

/// Returns the rate for which the noise of the run moves each parameter by [`MOVED`].
fn sgd_rate(noise: GivenNoise, samples: u64, steps: f64, batch: f64, clip: f64, momentum: f64) -> (f64, String) {
    let step = match noise {
        // The multiplier times the root of the steps is about 5 T B / (ε N), over the usual range of batches.
        GivenNoise::Epsilon(epsilon) => MOVED * epsilon * samples as f64 / (5.0 * steps),
        GivenNoise::Multiplier(multiplier) => MOVED * batch / (multiplier * steps.sqrt()),
        GivenNoise::NotPrivate => return (0.1 * (1.0 - momentum), "usual without noise".into()),
    };
    let rate = two_digits(step.min(LARGEST_STEP) * (1.0 - momentum) / clip);
    (rate, "so that the noise of the whole run moves a parameter by about a half".into())
}

/// Rounds to two digits, as people write settings.
fn two_digits(value: f64) -> f64 {
    format!("{value:.1e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NETWORK: NetworkFacts = NetworkFacts { params: 2730, fan_in: 265, takes_integers: false };
    const FACTS: PublicFacts =
        PublicFacts { samples: 1437, network: Some(NETWORK), noise: GivenNoise::Epsilon(3.0), weight_decay: 0.0 };

    fn filled(open: OpenSettings, facts: PublicFacts) -> (OpenSettings, Vec<&'static str>) {
        let mut settings = open;
        let used = settings.fill(facts).into_iter().map(|used| used.setting).collect();
        (settings, used)
    }

    // The values of the published rule, computed by hand.
    #[test]
    fn the_rule_is_as_published() {
        for (samples, delta, batch, epochs, lr) in [
            (1, 1e-5, 1, 40.0, 0.039),
            (1437, 1e-5, 303, 40.0, 0.018),
            (10_000, 1e-5, 800, 40.0, 0.011),
            (35_000, 1e-5, 1497, 29.0, 0.0094),
            (36_000, 1e-6, 1518, 28.0, 0.0095),
            (60_000, 1e-6, 1960, 17.0, 0.011),
            (3_000_000, 1e-8, 13_856, 1.0, 0.017),
        ] {
            let (found, _) = filled(OpenSettings::default(), PublicFacts { samples, ..FACTS });
            assert_eq!(
                (found.delta, found.batch_size, found.epochs),
                (Some(delta), Some(batch), Some(epochs)),
                "{samples}"
            );
            assert_eq!((found.lr, found.clip, found.optimizer), (Some(lr), Some(1.0), GivenOptimizer::Adaptive));
        }
        let of = |params, fan_in, takes_integers| {
            let network = Some(NetworkFacts { params, fan_in, takes_integers });
            let found = filled(OpenSettings::default(), PublicFacts { network, ..FACTS }).0;
            (found.lr.unwrap(), found.clip.unwrap())
        };
        assert_eq!([of(2730, 40, false), of(9226, 881, false)], [(0.029, 1.0), (0.0098, 1.0)]);
        assert_eq!([of(2730, 9, true), of(11_000_000, 9, true)], [(0.073, 0.1), (0.0028, 0.1)]);
    }

    #[test]
    fn given_settings_stay() {
        let given = OpenSettings {
            delta: Some(1e-7),
            batch_size: Some(8),
            epochs: Some(2.0),
            optimizer: GivenOptimizer::Sgd(0.0),
            lr: Some(0.5),
            clip: Some(2.0),
        };
        assert_eq!(filled(given, FACTS), (given, vec![]));
        let (found, used) = filled(OpenSettings { lr: Some(2.0), ..OpenSettings::default() }, FACTS);
        assert_eq!((found.optimizer, found.lr, found.clip), (GivenOptimizer::Sgd(0.0), Some(2.0), Some(1.0)));
        assert_eq!(used, ["delta", "batch_size", "epochs", "clip", "optimizer"]);
    }

    #[test]
    fn weight_decay_bounds_the_rate() {
        let open = OpenSettings { optimizer: GivenOptimizer::Sgd(0.0), ..OpenSettings::default() };
        assert_eq!(filled(open, PublicFacts { weight_decay: 0.1, ..FACTS }).0.lr, Some(1.0));
        assert_eq!(filled(open, PublicFacts { weight_decay: 1e-4, ..FACTS }).0.lr, Some(23.0));
    }

    // Before a model is read, the optimizer and its rate stay open.
    #[test]
    fn the_rate_waits_for_the_model() {
        let (found, used) = filled(OpenSettings::default(), PublicFacts { network: None, ..FACTS });
        assert_eq!((found.optimizer, found.lr, found.clip), (GivenOptimizer::Open, None, None));
        assert_eq!(used, ["delta", "batch_size", "epochs"]);
    }

    #[test]
    fn sgd_depends_on_the_noise() {
        let of = |noise, momentum| {
            let open = OpenSettings { optimizer: GivenOptimizer::Sgd(momentum), ..OpenSettings::default() };
            filled(open, PublicFacts { noise, ..FACTS }).0.lr.unwrap()
        };
        // min(4, 3 * 1437 / (10 * 190)) / 0.1.
        assert_eq!(of(GivenNoise::Epsilon(3.0), 0.0), 23.0);
        assert_eq!(of(GivenNoise::Epsilon(100.0), 0.0), 40.0);
        assert_eq!(of(GivenNoise::Epsilon(3.0), 0.9), 2.3);
        // 0.5 * 303 / (5 * sqrt(190)) / 0.1.
        assert_eq!(of(GivenNoise::Multiplier(5.0), 0.0), 22.0);
    }

    // A baseline has no bound and no δ.
    #[test]
    fn baselines_have_no_clip() {
        let (found, used) = filled(OpenSettings::default(), PublicFacts { noise: GivenNoise::NotPrivate, ..FACTS });
        assert_eq!((found.delta, found.clip), (None, None));
        assert_eq!(used, ["batch_size", "epochs", "optimizer", "lr"]);
    }
}
