//! Settings as a table, with the flags without dashes as keys.

use super::fault::{KeyFault, KeyFaultKind};
use super::value::{WrongValue, entries};
use super::words::argument;
use crate::cli::args::train::TrainArgs;
use clap::Command;
use schemars::schema_for;
use serde::Deserialize;
use toml::{Table, Value};

/// Settings that determine the noise. A later setting overrides the others.
const EITHER: [&str; 3] = ["epsilon", "noise-multiplier", "equation-6"];

/// Settings of a private run, which `not-private` overrides.
pub(in crate::cli) const OF_PRIVATE: [&str; 11] = [
    "epsilon",
    "noise-multiplier",
    "equation-6",
    "delta",
    "accountant",
    "allow-large-delta",
    "clip",
    "noise",
    "readout",
    "grid-bits",
    "truncate",
];

/// Returns the settings in `args`, without those of the call itself.
pub(in crate::cli) fn table_of(args: &TrainArgs) -> Table {
    let mut table = Table::try_from(args).expect("settings are a table");
    table.retain(|_, value| match value {
        Value::Boolean(switch) => *switch,
        Value::Array(items) => !items.is_empty(),
        _ => true,
    });
    table
}

/// Reads the settings in `table`. `train` is the subcommand's description.
pub(in crate::cli) fn of_table(table: &Table, train: &Command) -> Result<TrainArgs, KeyFault> {
    let mut settings = Table::new();
    for (key, value) in table {
        let at = |kind| KeyFault { key: key.clone(), kind };
        let name = argument(train, key).ok_or_else(|| at(KeyFaultKind::Unknown))?;
        // Check each key separately, so that an error names it.
        check(&name, value)
            .map_err(|wrong| at(KeyFaultKind::Value(Box::new(value.clone()), wrong.instead(wanted(&name)))))?;
        settings.insert(name, value.clone());
    }
    // Each setting was checked separately.
    Ok(TrainArgs::deserialize(settings).expect("settings are read one by one"))
}

/// Checks `value` as the setting `key`.
fn check(key: &str, value: &Value) -> Result<(), WrongValue> {
    let one = Table::from_iter([(key.to_owned(), value.clone())]);
    TrainArgs::deserialize(entries(one)).map(drop)
}

/// Returns the kind of value for the setting `key`, from its schema.
fn wanted(key: &str) -> &'static str {
    let schema = schema_for!(TrainArgs);
    let types = schema.as_value().pointer(&format!("/properties/{key}/type")).cloned().unwrap_or_default();
    let takes = |name: &str| types == name || types.as_array().is_some_and(|types| types.iter().any(|of| of == name));
    match () {
        () if takes("integer") => "a whole number",
        () if takes("number") => "a number",
        () if takes("boolean") => "true or false",
        () => "a text",
    }
}

/// Merges `own` over the settings in `below`.
pub(in crate::cli) fn overlaid(mut below: Table, own: Table) -> Table {
    if EITHER.iter().any(|key| own.contains_key(*key)) {
        EITHER.iter().for_each(|key| drop(below.remove(*key)));
    }
    if own.contains_key("not-private") {
        OF_PRIVATE.iter().for_each(|key| drop(below.remove(*key)));
    }
    below.extend(own);
    below
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::given::{of_args, words};
    use crate::cli::commands::Cli;
    use clap::CommandFactory;

    fn train() -> Command {
        let mut cli = Cli::command();
        cli.build();
        cli.find_subcommand("train").unwrap().clone()
    }

    // A value of a run file, and the flag that gives the same setting.
    #[test]
    fn tables_and_flags_agree() {
        let train = train();
        for (entry, flags) in [
            ("clip = 0.1", "--clip=0.1"),
            ("clip = 3", "--clip=3"),
            ("label-column = 2", "--label-column=2"),
            ("test = 0.25", "--test=0.25"),
            ("header = true", "--header=true"),
            ("memory = 1048576", "--memory=1048576"),
            ("memory = \"512MiB\"", "--memory=512MiB"),
            ("betas = [0.8, 0.99]", "--betas=0.8,0.99"),
            ("betas = \"0.8,0.99\"", "--betas=0.8,0.99"),
            ("normalize = [0.1, 0.3]", "--normalize=0.1,0.3"),
            ("classes = [\"a\", \"b\"]", "--classes=a,b"),
            ("class-weights = [1, 2.5]", "--class-weights=1,2.5"),
            ("train = \"a,b*\"", "--train=a,b*"),
            ("scale = [\"a=1,2\", \"b=3,4\"]", "--scale=a=1,2 --scale=b=3,4"),
            ("seed = 7", "--seed=7"),
            ("seed = \"18446744073709551615\"", "--seed=18446744073709551615"),
            ("nesterov = true", "--nesterov"),
            ("gamma = \"one\"", "--gamma=one"),
            ("gamma = -0.5", "--gamma=-0.5"),
            ("iterates = 3", "--iterates=3"),
            ("threshold = \"quantile\"", "--clip-rule=quantile"),
            ("sampler = \"cyclic-poisson\"", "--sampler=cyclic-poisson"),
            ("noise-schedule = \"matched:0.5\"", "--noise-schedule=matched:0.5"),
            ("model = \"m.onnx\"", "--model-file=m.onnx"),
        ] {
            let settings = of_table(&entry.parse().unwrap(), &train).map_err(|fault| fault.key).unwrap();
            let flags: Vec<String> = flags.split(' ').map(String::from).collect();
            let of_flags = of_args(&flags, &train).map_err(|failure| failure.message).unwrap();
            assert_eq!(words(&table_of(&settings), &train), words(&table_of(&of_flags), &train), "{entry}");
            assert_eq!(format!("{settings:?}"), format!("{of_flags:?}"), "{entry}");
        }
    }

    #[test]
    fn switches_that_are_off_are_not_given() {
        let table = "raw-bytes = false\nnesterov = false\ntrain = []".parse().unwrap();
        let settings = of_table(&table, &train()).map_err(|fault| fault.key).unwrap();
        assert!(table_of(&settings).is_empty());
    }

    #[test]
    fn later_settings_override() {
        let of = |text: &str| text.parse::<Table>().unwrap();
        let below = of("epsilon = 3\ndelta = 1e-5\nclip = 1\nlr = 1");
        assert_eq!(
            overlaid(below.clone(), of("noise-multiplier = 2")),
            of("delta = 1e-5\nclip = 1\nlr = 1\nnoise-multiplier = 2")
        );
        assert_eq!(overlaid(below.clone(), of("not-private = true\nlr = 2")), of("lr = 2\nnot-private = true"));
        assert_eq!(overlaid(below.clone(), Table::new()), below);
    }
}
