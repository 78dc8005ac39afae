//! The model's flags as arguments, as a federation's plan stores them. All devices read and differentiate the model by
//! the same flags.

use super::ModelArgs;
use clap::Parser;
use damper_grad::{Loss, LossReduction};

#[derive(Parser)]
struct Words {
    #[command(flatten)]
    options: ModelArgs,
}

impl ModelArgs {
    /// Returns the arguments that give these settings, without the defaults. Settings that only change memory use are
    /// omitted.
    pub(in crate::cli) fn words(&self) -> Vec<String> {
        let Self {
            loss,
            output,
            class_axis,
            reduction,
            class_weights,
            label_smoothing,
            focal_gamma,
            parameter,
            only,
            train,
            freeze,
            lora,
            lora_target,
            lora_alpha,
            lora_keep,
            tie,
            untie,
            shape,
            input,
            checkpoint_activations: _,
            fix,
            init_seed,
        } = self;
        let mut words = vec![];
        let mut add = |flag: &str, value: String| words.push(format!("--{flag}={value}"));
        match loss.as_deref() {
            None | Some(Loss::SoftmaxCrossEntropy) => {}
            Some(Loss::CausalLm) => add("loss", "causal-lm".into()),
            Some(Loss::Ctc) => add("loss", "ctc".into()),
            Some(Loss::Mse) => add("loss", "mse".into()),
            Some(Loss::L1) => add("loss", "l1".into()),
            Some(Loss::Huber) => add("loss", "huber".into()),
            Some(Loss::BceWithLogits) => add("loss", "bce-with-logits".into()),
            Some(Loss::Output(name)) => add("loss", format!("output:{name}")),
        }
        output.iter().for_each(|name| add("output", name.clone()));
        class_axis.iter().for_each(|axis| add("class-axis", axis.to_string()));
        if reduction.as_deref() == Some(&LossReduction::Sum) {
            add("reduction", "sum".into());
        }
        if let Some(weights) = class_weights.as_deref() {
            add("class-weights", weights.0.iter().map(f32::to_string).collect::<Vec<_>>().join(","));
        }
        for (flag, value) in [("label-smoothing", label_smoothing), ("focal-gamma", focal_gamma)] {
            if let Some(value) = value.filter(|value| *value != 0.0) {
                add(flag, value.to_string());
            }
        }
        lora.iter().for_each(|rank| add("lora", rank.to_string()));
        lora_alpha.iter().for_each(|alpha| add("lora-alpha", alpha.to_string()));
        for (flag, patterns) in [
            ("parameter", parameter),
            ("only", only),
            ("train", train),
            ("freeze", freeze),
            ("lora-target", lora_target),
            ("tie", tie),
            ("untie", untie),
        ] {
            patterns.iter().for_each(|pattern| add(flag, pattern.clone()));
        }
        for extent in shape {
            add("shape", format!("{}={}", extent.0, extent.1));
        }
        for value in input {
            add("input", format!("{}={}", value.0, value.1));
        }
        init_seed.iter().for_each(|seed| add("init-seed", seed.to_string()));
        if *fix {
            words.push("--fix".into());
        }
        if *lora_keep {
            words.push("--lora-keep".into());
        }
        words
    }

    /// Parses the settings in `words`.
    ///
    /// # Errors
    ///
    /// They are not flags of a model.
    pub(in crate::cli) fn of_words(words: &[String]) -> Result<Self, String> {
        let parsed = Words::try_parse_from(std::iter::once("model").chain(words.iter().map(String::as_str)));
        parsed.map(|words| words.options).map_err(|error| error.to_string().lines().next().unwrap_or_default().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_give_the_settings_again() {
        for line in [
            "",
            "--loss=mse --output=y --only=a* --only=b --init-seed=7",
            "--loss=causal-lm",
            "--loss=huber --output=y",
            "--loss=l1",
            "--loss=ctc",
            "--loss=output:cost --reduction=sum --shape=height=28 --shape=x[1]=3",
            "--loss=bce-with-logits --class-weights=0.1,2.5 --label-smoothing=0.1 --focal-gamma=2 --class-axis=-1",
            "--lora=4 --lora-alpha=0.3 --train=head.* --lora-target=*.weight --lora-keep",
            "--parameter=w --parameter=-b --input=sr=16000 --input=h=0,1",
            "--train=a --freeze=b --tie=c --untie=d --fix",
        ] {
            let words: Vec<String> = line.split_whitespace().map(String::from).collect();
            let read = ModelArgs::of_words(&words).unwrap();
            let mut again = ModelArgs::of_words(&read.words()).unwrap().words();
            assert_eq!(again, read.words());
            let mut words = words;
            words.sort();
            again.sort();
            assert_eq!(again, words);
        }
        assert!(ModelArgs::of_words(&["--data=x".into()]).is_err());
        let local = ModelArgs::of_words(&["--checkpoint-activations".into()]).unwrap();
        assert!(local.words().is_empty());
    }
}
