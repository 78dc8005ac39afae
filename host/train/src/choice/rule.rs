//! A method of the core by its name and settings.

use crate::replay::PackWriter;
use damper_core::described::{Description, Kind, Setting, UNSET, Values};
use damper_core::error::ConfigError;
use damper_design::{Coefficients, ORDER};
use damper_onnx::SettingError;
use std::iter;
use std::marker::PhantomData;

/// Most values of a method: two lists of coefficients, their lengths, and a few numbers.
const MOST: usize = 2 * ORDER + 8;

/// A slot of the step that is filled by name.
pub trait Slot {
    /// The setting that takes the name.
    const SETTING: &'static str;
    /// The methods of the slot, the default first.
    const METHODS: &'static [Description];
}

/// A method that fills the slot `S`, and its settings.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Choice<S> {
    description: &'static Description,
    /// The description's settings, in order.
    values: [f64; MOST],
    slot: PhantomData<S>,
}

impl<S: Slot> Choice<S> {
    /// The method of this name (`sgd`, `disk`, `percentile`, …: [`Slot::METHODS`] lists them with their settings), with its default
    /// settings but for these. Their ranges are checked when the run is prepared.
    ///
    /// # Errors
    ///
    /// There is no such method or setting.
    pub fn new(name: &str, settings: &[(&str, f64)]) -> Result<Self, SettingError> {
        let named = S::METHODS.iter().find_map(|description| {
            let (_, defaults) = description.names.iter().find(|(of, _)| *of == name)?;
            Some((description, *defaults))
        });
        let Some((description, defaults)) = named else {
            let names: Vec<_> = S::METHODS.iter().flat_map(|of| of.names).map(|(name, _)| *name).collect();
            return Err(SettingError::new(S::SETTING, name, format!("use one of {}", names.join(", "))));
        };
        let mut values = [0.0; MOST];
        values[..defaults.len()].copy_from_slice(defaults);
        Self { description, values, slot: PhantomData }.with(settings)
    }

    /// The same with these settings.
    ///
    /// # Errors
    ///
    /// The method has no such setting.
    pub fn with(mut self, settings: &[(&str, f64)]) -> Result<Self, SettingError> {
        for (name, value) in settings {
            let Some(i) = self.place(name) else {
                let names: Vec<_> = self.description.settings.iter().map(|setting| setting.name).collect();
                let problem = format!("'{name}' is no setting of it; use {}", names.join(", "));
                return Err(SettingError::new(S::SETTING, self.name(), problem));
            };
            self.values[i] = *value;
            let (case, is_one) = self.description.settings[i].when;
            if let Some(case) = self.place(case) {
                self.values[case] = f64::from(is_one);
            }
        }
        Ok(self)
    }

    /// The same with this recursive filter, if it has one. Of orders above [`ORDER`] a part is kept, which is refused when the run is
    /// prepared.
    #[must_use]
    pub fn with_taps(mut self, taps: &Coefficients) -> Self {
        if let Some(place) = self.taps_place() {
            let lists = [&taps.a, &taps.b];
            let stream = lists.into_iter().flat_map(|list| iter::once(list.len() as f64).chain(list.iter().copied()));
            self.values[place..].fill(0.0);
            self.values[place..].iter_mut().zip(stream).for_each(|(value, of)| *value = of);
        }
        self
    }

    /// The recursive filter of it; `None` if it has none.
    #[must_use]
    pub fn taps(&self) -> Option<Coefficients> {
        let (na, rest) = self.values[self.taps_place()?..].split_first()?;
        let (a, rest) = rest.split_at_checked(*na as usize)?;
        let (nb, rest) = rest.split_first()?;
        Some(Coefficients { a: a.to_vec(), b: rest.get(..*nb as usize)?.to_vec() })
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.description.settings.iter().position(|setting| setting.name == name)
    }

    fn taps_place(&self) -> Option<usize> {
        self.description.settings.iter().position(|setting| matches!(setting.kind, Kind::Taps(_)))
    }

    /// Names, and kinds in recordings.
    #[must_use]
    pub fn description(&self) -> &'static Description {
        self.description
    }

    /// Its usual name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.description.names[0].0
    }

    /// Each setting with its value.
    pub fn settings(&self) -> impl Iterator<Item = (&'static Setting, f64)> {
        iter::zip(self.description.settings, self.values)
    }

    /// The value of the setting of this name; `None` if the method has none.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<f64> {
        self.place(name).map(|i| self.values[i])
    }

    /// Returns true if this setting is not read: another is in its place.
    #[must_use]
    pub fn is_idle(&self, setting: &Setting) -> bool {
        self.get(setting.when.0).is_some_and(|value| (value != 0.0) != setting.when.1)
    }

    /// Returns true if it is what fills the slot usually.
    #[must_use]
    pub fn is_usual(&self) -> bool {
        self.name() == S::METHODS[0].names[0].0
    }

    /// The method of `NAME` or `NAME:VALUE,VALUE`; `None` if there is none, or a value lacks.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let mut choice = Self::new(name, &[]).ok()?;
        let values = &mut choice.values[..choice.description.settings.len()];
        if !rest.is_empty() {
            let given: Option<Vec<f64>> = rest.split(',').map(|value| value.trim().parse().ok()).collect();
            let given = given.filter(|given| given.len() == values.len())?;
            values.copy_from_slice(&given);
        }
        (!values.contains(&UNSET)).then_some(choice)
    }

    /// Refuses a value out of its setting's range.
    pub(super) fn check_ranges(&self) -> Result<(), SettingError> {
        let mut settings = self.settings();
        let outside = settings.find(|(setting, value)| setting.range.is_some_and(|range| !range.has(*value)));
        let Some((Setting { parameter, range: Some(range), .. }, _)) = outside else { return Ok(()) };
        let values: Vec<_> = self.settings().map(|(_, value)| value.to_string()).collect();
        let value = format!("{}:{}", self.name(), values.join(","));
        Err(SettingError::new(S::SETTING, value, format!("{parameter} must be {}", range.must_be)))
    }

    /// Builds the method for `dim` parameters.
    pub(super) fn builder(&self, dim: usize) -> Boxed<'_> {
        Boxed { wanted: self.description, values: &self.values, dim, pack: None, rate: 1.0, steps: 0 }
    }

    /// Builds the method and writes it in the form of recordings.
    pub(super) fn recorder<'a>(&'a self, pack: &'a mut PackWriter) -> Boxed<'a> {
        Boxed { pack: Some(pack), ..self.builder(0) }
    }
}

impl<S: Slot> Default for Choice<S> {
    /// The default method.
    fn default() -> Self {
        Self::new(S::METHODS[0].names[0].0, &[]).expect("the list has the name")
    }
}

/// Builds a method in a box, and writes its settings to a pack if there is one.
pub(super) struct Boxed<'a> {
    wanted: &'static Description,
    /// The values not read yet.
    values: &'a [f64],
    dim: usize,
    pack: Option<&'a mut PackWriter>,
    /// Epochs in a step.
    rate: f64,
    /// Steps of the run.
    steps: u32,
}

/// Converts epochs to steps: the nearest number, and at least 1 for a part of a step.
pub(super) fn draws(epochs: f64, rate: f64) -> u32 {
    match (epochs / rate).round().clamp(0.0, f64::from(u32::MAX)) as u32 {
        0 if epochs > 0.0 => 1,
        draws => draws,
    }
}

impl Boxed<'_> {
    /// The same for a run of so many steps.
    pub(super) fn in_run(self, rate: f64, steps: u32) -> Self {
        Self { rate, steps, ..self }
    }

    fn next(&mut self) -> f64 {
        let (next, rest) = self.values.split_first().unwrap_or((&f64::NAN, &[]));
        self.values = rest;
        *next
    }

    fn write(&mut self, write: impl FnOnce(&mut PackWriter)) {
        if let Some(pack) = &mut self.pack {
            write(pack);
        }
    }
}

impl Values for Boxed<'_> {
    type Vector = Vec<f32>;
    type Error = ConfigError;

    fn wants(&mut self, description: &Description) -> bool {
        let is_wanted = description == self.wanted;
        if is_wanted {
            let is_switch = |kind| matches!(kind, Kind::Switch | Kind::Words(_) | Kind::Named(..));
            let switch = description.settings.iter().position(|setting| is_switch(setting.kind));
            let kinds = description.recorded;
            let at = switch.filter(|_| kinds.len() > 1).map_or(0, |at| usize::from(self.values[at] != 0.0));
            // What has no kind was refused before the run.
            self.write(|pack| pack.u8(kinds.get(at).copied().unwrap_or(u8::MAX)));
        }
        is_wanted
    }

    fn f32(&mut self) -> f32 {
        let next = self.next() as f32;
        self.write(|pack| pack.f32(next));
        next
    }

    fn f64(&mut self) -> f64 {
        let next = self.next();
        self.write(|pack| pack.f64(next));
        next
    }

    fn half(&mut self) -> f64 {
        let half = self.next() / 2.0;
        self.write(|pack| pack.f64(half));
        half
    }

    fn whole(&mut self) -> usize {
        let next = self.next() as usize;
        self.write(|pack| pack.u8(next as u8));
        next
    }

    fn epochs(&mut self) -> u32 {
        let draws = draws(self.next(), self.rate);
        self.write(|pack| pack.u32(draws));
        draws
    }

    fn steps(&mut self) -> u32 {
        let steps = self.steps;
        self.write(|pack| pack.u32(steps));
        steps
    }

    fn switch(&mut self) -> bool {
        self.next() != 0.0
    }

    fn case(&mut self, _: &'static str, first: u8) -> Result<bool, ConfigError> {
        let next = self.switch();
        self.write(|pack| pack.u8(first + u8::from(next)));
        Ok(next)
    }

    fn skip(&mut self, count: usize) {
        self.values = self.values.get(count..).unwrap_or_default();
    }

    fn taps(&mut self, a: &mut [f32], b: &mut [f32]) -> Result<(usize, usize), ConfigError> {
        let mut lens = [0; 2];
        for (list, len) in [&mut *a, &mut *b].into_iter().zip(&mut lens) {
            *len = self.next() as usize;
            let list = list.get_mut(..*len);
            let list = list.ok_or(ConfigError { parameter: "a filter's order", must_be: "at most 16" })?;
            list.fill_with(|| self.next() as f32);
        }
        // As they run: zeros at the end make no order.
        let run = [&a[..lens[0]], &b[..lens[1]]]
            .map(|list| &list[..list.iter().rposition(|x| *x != 0.0).map_or(0, |last| last + 1)]);
        self.write(|pack| {
            run.iter().for_each(|list| pack.u8(list.len() as u8));
            run.iter().for_each(|list| pack.f32s(list));
        });
        Ok((lens[0], lens[1]))
    }

    fn dim(&self) -> usize {
        self.dim
    }

    fn zeros(&mut self, len: usize) -> Result<Vec<f32>, ConfigError> {
        Ok(vec![0.0; len])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::slot::methods;
    use crate::{FilterChoice, Rule};

    #[test]
    fn unknown_names_are_refused_with_the_known() {
        let error = Rule::new("lamb", &[]).unwrap_err().to_string();
        assert!(error.contains("adam-bc, adagrad"), "{error}");
        let error = Rule::new("rmsprop", &[("momentum", 0.9)]).unwrap_err().to_string();
        assert!(error.contains("alpha, epsilon, weight_decay"), "{error}");
    }

    #[test]
    fn a_given_floor_is_no_computed_one() {
        let note = |settings: &[_]| Rule::new("adam-bc", settings).unwrap().get("floor_note");
        assert_eq!((note(&[]), note(&[("floor", 1e-6)])), (Some(1.0), Some(0.0)));
        for description in methods() {
            assert!(description.settings.len() < 2 * ORDER && description.names.iter().all(|(_, of)| of.len() <= MOST));
        }
    }

    #[test]
    fn taps_are_kept_to_the_largest_order() {
        let taps = Coefficients { a: vec![0.01; ORDER], b: vec![0.5; ORDER + 1] };
        let momentum = FilterChoice::new("dp-pmlf", &[("iterates", 3.0)]).unwrap().with_taps(&taps);
        assert_eq!((momentum.taps(), momentum.get("iterates")), (Some(taps), Some(3.0)));
        let long = Coefficients { a: vec![], b: vec![1.0; ORDER + 20] };
        assert!(FilterChoice::new("doppler", &[]).unwrap().with_taps(&long).build(1).is_err());
        assert_eq!(FilterChoice::default().taps(), None);
    }
}
