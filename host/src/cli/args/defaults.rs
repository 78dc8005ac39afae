//! Defaults of `damper train` for settings that neither flags nor a file give.

use crate::cli::args::train::TrainArgs;
use damper_train::{GivenNoise, OpenSettings, PublicFacts, RunInputs};

impl TrainArgs {
    /// Fills the settings that are open, for this number of training samples. A declared number counts instead. Until
    /// the model is read, the optimizer, its rate and the clip stay open.
    pub(in crate::cli) fn fill(&mut self, samples: u64, model: Option<&RunInputs<'_>>) {
        let privacy = &self.privacy;
        let noise = match (privacy.epsilon.or(privacy.equation_6), privacy.noise_multiplier) {
            _ if privacy.not_private => GivenNoise::NotPrivate,
            (Some(epsilon), _) => GivenNoise::Epsilon(epsilon),
            (None, multiplier) => GivenNoise::Multiplier(multiplier.unwrap_or(1.0)),
        };
        let samples = privacy.dataset_size.unwrap_or(samples);
        let network = model.map(RunInputs::network);
        let facts = PublicFacts { samples, network, noise, weight_decay: self.optimizer.weight_decay() };
        let is_open = self.method.takes_any_optimizer();
        let (privacy, training, optimizer) = (&mut self.privacy, &mut self.training, &mut self.optimizer);
        let mut settings = OpenSettings {
            delta: privacy.delta,
            batch_size: training.batch_size,
            epochs: training.epochs,
            optimizer: optimizer.given(is_open),
            lr: optimizer.schedule.lr,
            clip: privacy.clip,
        };
        self.defaults.extend(settings.fill(facts));
        (training.batch_size, training.epochs) = (settings.batch_size, settings.epochs);
        (privacy.delta, privacy.clip) = (settings.delta, settings.clip);
        optimizer.schedule.lr = settings.lr;
        if network.is_some() {
            optimizer.take(settings.optimizer);
        }
    }
}
