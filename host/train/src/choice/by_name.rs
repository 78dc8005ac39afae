//! Settings that are chosen by a name: `sgd`, `disk`, `percentile`, ….

use damper_onnx::SettingError;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::Table;

/// What fills a slot of the step, one variant for each kind of it. The documentation of a variant and of its fields is the help of the
/// command, by way of the type's schema.
pub trait ByName: Clone + Serialize + DeserializeOwned + JsonSchema {
    /// The setting that takes the name.
    const SETTING: &'static str;

    /// Each name with its default settings, the usual one first.
    fn named() -> Vec<(&'static str, Self)>;

    /// The settings of this name, but for `given`. Ranges are checked when the run is prepared.
    ///
    /// # Errors
    ///
    /// There is no such name, or it has no such setting.
    fn with(name: &str, given: Table) -> Result<Self, SettingError> {
        let named = Self::named();
        let Some((_, usual)) = named.iter().find(|(of, _)| *of == name) else {
            let names: Vec<_> = named.iter().map(|(name, _)| *name).collect();
            return Err(SettingError::new(Self::SETTING, name, format!("use one of {}", names.join(", "))));
        };
        let wrong = |problem: String| SettingError::new(Self::SETTING, name, problem);
        let mut settings = Table::try_from(usual).map_err(|error| wrong(error.to_string()))?;
        settings.extend(given);
        // The parser's message has lines of its input behind the first.
        settings.try_into().map_err(|error: toml::de::Error| wrong(error.message().to_owned()))
    }

    /// The default settings of this name.
    ///
    /// # Errors
    ///
    /// There is no such name.
    fn of_name(name: &str) -> Result<Self, SettingError> {
        Self::with(name, Table::new())
    }
}
