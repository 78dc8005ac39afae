//! Settings that are chosen by name: `sgd`, `disk`, `percentile`, ….

use damper_onnx::SettingError;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::Table;

/// The choices for a slot of the step, with one variant for each kind. The schema of the type turns the documentation
/// of a variant and its fields into the command's help.
pub trait ByName: Clone + Serialize + DeserializeOwned + JsonSchema {
    /// Name of the setting that takes the name.
    const SETTING: &'static str;

    /// Returns each name with its default settings, the default name first.
    fn named() -> Vec<(&'static str, Self)>;

    /// Returns the settings of this name, changed by `given`. Ranges are checked when the run is prepared.
    ///
    /// # Errors
    ///
    /// The name does not exist, or it does not have such a setting.
    fn with(name: &str, given: Table) -> Result<Self, SettingError> {
        let named = Self::named();
        let Some((_, usual)) = named.iter().find(|(of, _)| *of == name) else {
            let names: Vec<_> = named.iter().map(|(name, _)| *name).collect();
            return Err(SettingError::new(Self::SETTING, name, format!("use one of {}", names.join(", "))));
        };
        let wrong = |problem: String| SettingError::new(Self::SETTING, name, problem);
        let mut settings = Table::try_from(usual).map_err(|error| wrong(error.to_string()))?;
        settings.extend(given);
        // Only the first line of the parser's message is the error. The input's lines follow it.
        settings.try_into().map_err(|error: toml::de::Error| wrong(error.message().to_owned()))
    }

    /// Returns the default settings of this name.
    ///
    /// # Errors
    ///
    /// The name does not exist.
    fn of_name(name: &str) -> Result<Self, SettingError> {
        Self::with(name, Table::new())
    }
}
