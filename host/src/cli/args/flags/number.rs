//! Numbers as flags and run files take them.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// Two values with a comma between them, as a flag takes them.
pub(in crate::cli) fn pair<T: std::str::FromStr>(text: &str) -> Result<(T, T), String> {
    text.split_once(',')
        .and_then(|(a, b)| Some((a.trim().parse().ok()?, b.trim().parse().ok()?)))
        .ok_or_else(|| "give two, with a comma between them".into())
}

/// A number that is kept in 32 bits, so that what is beyond them is not taken for infinite.
pub(in crate::cli) fn number32(text: &str) -> Result<f32, String> {
    let number: f64 = text.parse().map_err(|_| "give a number".to_owned())?;
    // Text is rounded once.
    within32(number)?;
    text.parse().map_err(|_| "give a number".to_owned())
}

fn within32(number: f64) -> Result<f32, String> {
    let rounded = number as f32;
    if rounded.is_infinite() && number.is_finite() {
        return Err(format!("beyond the largest 32-bit number, {:e}", f32::MAX));
    }
    Ok(rounded)
}

/// The same of a run file.
pub(in crate::cli) fn read32<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f32>, D::Error> {
    f64::deserialize(from).and_then(|number| within32(number).map_err(D::Error::custom)).map(Some)
}

/// A whole number of 64 bits. A run file's integers have a sign, so larger numbers are texts.
pub(in crate::cli) mod whole {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Whole {
        Number(u64),
        Text(String),
    }

    pub(in crate::cli) fn serialize<S: Serializer>(given: &Option<u64>, to: S) -> Result<S::Ok, S::Error> {
        match given.map(i64::try_from) {
            None => to.serialize_none(),
            Some(Ok(number)) => number.serialize(to),
            Some(Err(_)) => given.unwrap_or_default().to_string().serialize(to),
        }
    }

    pub(in crate::cli) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
        const GIVE: &str = "give a whole number";
        match Whole::deserialize(from).map_err(|_| D::Error::custom(GIVE))? {
            Whole::Number(number) => Ok(Some(number)),
            Whole::Text(text) => text.parse().map(Some).map_err(|_| D::Error::custom(GIVE)),
        }
    }
}
