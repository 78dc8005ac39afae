//! Numbers as flags take them.

/// Two values with a comma between them, as a flag takes them.
pub(in super::super) fn pair<T: std::str::FromStr>(text: &str) -> Result<(T, T), String> {
    text.split_once(',')
        .and_then(|(a, b)| Some((a.trim().parse().ok()?, b.trim().parse().ok()?)))
        .ok_or_else(|| "give two, with a comma between them".into())
}

/// A number that is kept in 32 bits, so that what is beyond them is not taken for infinite.
pub(in super::super) fn number32(text: &str) -> Result<f32, String> {
    let number: f32 = text.parse().map_err(|_| "give a number".to_owned())?;
    if number.is_infinite() && text.parse().is_ok_and(f64::is_finite) {
        return Err(format!("beyond the largest 32-bit number, {:e}", f32::MAX));
    }
    Ok(number)
}
