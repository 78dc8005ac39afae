//! Descriptions of methods: names, settings, and how recordings write them.
//!
//! A method describes itself once, in its own file. The command, reports, recordings, their player and the C interface read the
//! description, so that none of them names a method. A device that chooses its methods at compile time links nothing of it.

use crate::error::ConfigError;
use crate::state::SaveState;

/// Memory for a vector of a state.
pub trait Vector: AsRef<[f32]> + AsMut<[f32]> {}

impl<B: AsRef<[f32]> + AsMut<[f32]>> Vector for B {}

/// The type of a setting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// An f32.
    F32,
    /// An f64.
    F64,
    /// A whole number of at most 255.
    Whole,
    /// On (1) or off (0).
    Switch,
    /// One of two (0 or 1), in the words of reports, which may have settings in braces.
    Words([&'static str; 2]),
    /// The same by a flag that takes these names.
    Named([&'static str; 2], [&'static str; 2]),
    /// The coefficients of a recursive filter, in these words unless they are of the identity. A method has them last, as many
    /// values: the number of `a`, `a_1, a_2, …`, the number of `b`, `b_0, b_1, …`
    Taps(&'static str),
}

/// A flag of the command, which settings of several methods may share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flag {
    /// The setting's name, with `_`.
    pub name: &'static str,
    /// Placeholder of the value in the help; empty for a switch. With commas, the flag sets all settings of the method that have it;
    /// with `|`, the word before it is the default.
    pub value: &'static str,
    /// Help text: which methods read the setting, what it is, and their defaults. Empty if the command defines the flag elsewhere.
    pub help: &'static str,
}

/// The values that a setting may have.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Range {
    /// The least, and whether that is one of them.
    pub least: (f64, bool),
    /// The largest.
    pub most: f64,
    /// In words: what they must be.
    pub must_be: &'static str,
}

impl Range {
    pub(crate) const POSITIVE: Self = Self { least: (0.0, false), most: f64::MAX, must_be: "finite and above 0" };
    pub(crate) const NOT_NEGATIVE: Self =
        Self { least: (0.0, true), most: f64::MAX, must_be: "finite and not negative" };
    pub(crate) const SHARE: Self = Self { least: (0.0, true), most: 1.0, must_be: "from 0 to 1" };
    pub(crate) const PART: Self = Self { least: (0.0, false), most: 1.0, must_be: "above 0 and at most 1" };

    /// Returns true if `x` is one of the values.
    #[must_use]
    pub fn has(&self, x: f64) -> bool {
        let (least, is_one) = self.least;
        (x > least || is_one && x == least) && x <= self.most
    }
}

/// A setting of a method.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Setting {
    /// The setting's key in reports.
    pub name: &'static str,
    /// The setting's type.
    pub kind: Kind,
    /// The flag that sets it.
    pub flag: Option<Flag>,
    /// The setting's [`parameter`](crate::error::ConfigError::parameter) in errors.
    pub parameter: &'static str,
    /// A switch or words, and whether they are 1 where this setting is read: giving this setting sets them.
    pub when: (&'static str, bool),
    /// Permitted values, if the method's constructor does not check them.
    pub range: Option<Range>,
}

impl Setting {
    pub(crate) const fn new(name: &'static str, kind: Kind, flag: Flag, parameter: &'static str) -> Self {
        Self { name, kind, flag: Some(flag), parameter, when: ("", false), range: None }
    }

    /// A setting that a method of the command or another setting sets, and no flag.
    pub(crate) const fn hidden(name: &'static str, kind: Kind) -> Self {
        Self { name, kind, flag: None, parameter: name, when: ("", false), range: None }
    }
}

/// The value of a setting that is computed when the method is known.
pub const UNSET: f64 = f64::MIN;

/// A method.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Description {
    /// The method's settings, in the order in which they are read, and stored in recordings.
    pub settings: &'static [Setting],
    /// The method's names, the usual one first, each with its default settings.
    pub names: &'static [(&'static str, &'static [f64])],
    /// The method's kinds in recordings: with its switch or words at 0, and at 1 if it has any. Empty if it cannot be recorded.
    pub recorded: &'static [u8],
    /// Reports' words for it, with settings in braces; empty if reports list the settings.
    pub words: &'static str,
    /// The help of each name that is a method of the command.
    pub methods: &'static [&'static str],
}

impl Description {
    pub(crate) const fn new(
        settings: &'static [Setting],
        names: &'static [(&'static str, &'static [f64])],
        recorded: &'static [u8],
    ) -> Self {
        Self { settings, names, recorded, words: "", methods: &[] }
    }
}

/// Gives a method its settings, in order, and its memory.
pub trait Values {
    /// A vector of the state.
    type Vector: Vector;
    /// Why nothing is built.
    type Error: From<ConfigError>;

    /// Returns true if this method is to be built. The first is.
    fn wants(&mut self, description: &Description) -> bool;

    /// The next, an f64.
    fn f64(&mut self) -> f64;

    /// The next, an f32.
    fn f32(&mut self) -> f32 {
        self.f64() as f32
    }

    /// Half of the next, an f64. A recording has the half.
    fn half(&mut self) -> f64 {
        self.f64()
    }

    /// The next, a whole number.
    fn whole(&mut self) -> usize {
        self.f64() as usize
    }

    /// The next, in epochs, as a number of steps.
    fn epochs(&mut self) -> u32 {
        0
    }

    /// The steps of the run, which are no setting.
    fn steps(&mut self) -> u32 {
        0
    }

    /// The next, a switch or words: true if 1. A recording has it in the kind, so a method has at most one.
    fn switch(&mut self) -> bool {
        self.f64() != 0.0
    }

    /// The next, words of which a recording has a byte: `_first`, or the number after it.
    ///
    /// # Errors
    ///
    /// `_what` is another.
    fn case(&mut self, _what: &'static str, _first: u8) -> Result<bool, Self::Error> {
        Ok(self.switch())
    }

    /// Skips `count` settings.
    fn skip(&mut self, _count: usize) {}

    /// The next: fills `a` and `b` from their beginnings, and returns how many there are of each.
    ///
    /// # Errors
    ///
    /// They are too short.
    fn taps(&mut self, a: &mut [f32], b: &mut [f32]) -> Result<(usize, usize), Self::Error>;

    /// Number of parameters.
    fn dim(&self) -> usize;

    /// A vector of so many zeros.
    ///
    /// # Errors
    ///
    /// There is no memory for it.
    fn zeros(&mut self, len: usize) -> Result<Self::Vector, Self::Error>;
}

/// A method that can be chosen by name.
pub trait Described: Sized {
    /// The method's state, with vectors of type `B`.
    type State<B: Vector>: SaveState;

    /// The method's names and settings.
    const DESCRIPTION: Description;

    /// The method with these settings, and its state.
    ///
    /// # Errors
    ///
    /// A setting out of its range, or no memory.
    #[allow(clippy::type_complexity)] // A method and its state.
    fn build<V: Values>(values: &mut V) -> Result<(Self, Self::State<V::Vector>), V::Error>;
}

/// The table of all methods of a slot and the switch over them, from one list. A method is of a type with the bounds, in which `S` is
/// the type of its state.
macro_rules! methods {
    ($list:ident $(<$most:ident = $size:literal>)?: { $($bound:tt)+ }; $($method:ty),+) => {
        /// Every method that can be chosen by name.
        pub const $list: &[$crate::described::Description] = {
            $(const $most: usize = $size;)?
            &[$(<$method as $crate::described::Described>::DESCRIPTION),+]
        };

        /// Builds a method: gives settings and memory, and takes the method of whatever type it is.
        pub trait Builder<'a>: $crate::described::Values<Vector: 'a> + Sized {
            /// The result of a build.
            type Built;

            /// Takes the method and its state.
            ///
            /// # Errors
            ///
            /// Whatever stops the caller.
            fn take<M, S>(self, method: M, state: S) -> Result<Self::Built, Self::Error>
            where
                M: $($bound)+ + 'a,
                S: $crate::state::SaveState + 'a;
        }

        /// Builds the method that the builder wants; `None` if it wants none.
        ///
        /// # Errors
        ///
        /// A setting out of its range, or those of the builder.
        pub fn build<'a, $(const $most: usize,)? B: Builder<'a>>(mut builder: B) -> Result<Option<B::Built>, B::Error> {
            $(if builder.wants(&<$method as $crate::described::Described>::DESCRIPTION) {
                let (method, state) = <$method as $crate::described::Described>::build(&mut builder)?;
                return builder.take(method, state).map(Some);
            })+
            Ok(None)
        }
    };
}

/// The table of the variants of an enum and the switch over them, from one list.
macro_rules! variants {
    ($list:ident: $choice:ty, $values:ident; $($description:expr => $build:expr),+ $(,)?) => {
        /// Every one that can be chosen by name.
        pub const $list: &[$crate::described::Description] = &[$($description),+];

        impl $choice {
            /// The one that `values` wants; `None` if it wants none.
            ///
            /// # Errors
            ///
            /// Those of `values`.
            pub fn build<V: $crate::described::Values>($values: &mut V) -> Result<Option<Self>, V::Error> {
                $(if $values.wants(&$description) {
                    return Ok($build);
                })+
                Ok(None)
            }
        }
    };
}

pub(crate) use {methods, variants};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::{self, FILTERS, Filter};
    use crate::numerics::digest::Digested;
    use crate::optimizer::{self, OPTIMIZERS, Optimizer};
    use crate::threshold::{self, THRESHOLDS, Threshold};
    use std::vec::Vec;

    /// The description, all its values, and the number of values read so far.
    struct Read<'a>(&'a Description, &'a [f64], usize);

    impl Read<'_> {
        /// The next value, of a kind with this property.
        fn next(&mut self, is_kind: impl Fn(Kind) -> bool) -> f64 {
            let setting = self.0.settings[self.2];
            assert!(is_kind(setting.kind), "{}", setting.name);
            self.2 += 1;
            self.1[self.2 - 1]
        }
    }

    fn is_switch(kind: Kind) -> bool {
        matches!(kind, Kind::Switch | Kind::Words(_) | Kind::Named(..))
    }

    impl Values for Read<'_> {
        type Vector = Vec<f32>;
        type Error = ConfigError;

        fn wants(&mut self, description: &Description) -> bool {
            self.0 == description
        }

        fn f32(&mut self) -> f32 {
            self.next(|kind| kind == Kind::F32) as f32
        }

        fn f64(&mut self) -> f64 {
            self.next(|kind| kind == Kind::F64)
        }

        fn whole(&mut self) -> usize {
            self.next(|kind| kind == Kind::Whole) as usize
        }

        fn switch(&mut self) -> bool {
            self.next(is_switch) != 0.0
        }

        fn case(&mut self, _: &'static str, _: u8) -> Result<bool, ConfigError> {
            Ok(self.switch())
        }

        fn skip(&mut self, count: usize) {
            self.2 += count;
        }

        fn taps(&mut self, a: &mut [f32], b: &mut [f32]) -> Result<(usize, usize), ConfigError> {
            let Kind::Taps(_) = self.0.settings[self.2].kind else { panic!("no coefficients") };
            assert_eq!(self.2 + 1, self.0.settings.len(), "coefficients are last");
            let mut lens = [0, 0];
            for (len, out) in lens.iter_mut().zip([a, b]) {
                *len = self.1[self.2] as usize;
                for out in &mut out[..*len] {
                    self.2 += 1;
                    *out = self.1[self.2] as f32;
                }
                self.2 += 1;
            }
            Ok((lens[0], lens[1]))
        }

        fn dim(&self) -> usize {
            3
        }

        fn zeros(&mut self, len: usize) -> Result<Vec<f32>, ConfigError> {
            Ok(std::vec![0.0; len])
        }
    }

    impl filter::Builder<'static> for Read<'_> {
        type Built = usize;

        fn take<M: Filter<S> + Digested<S>, S: SaveState>(self, method: M, state: S) -> Result<usize, ConfigError> {
            assert_eq!(method.check(&state, 3), Ok(()));
            Ok(self.2)
        }
    }

    impl optimizer::Builder<'static> for Read<'_> {
        type Built = usize;

        fn take<M: Optimizer<S> + Digested<S>, S: SaveState>(self, method: M, state: S) -> Result<usize, ConfigError> {
            assert_eq!(method.check(&state, 3), Ok(()));
            Ok(self.2)
        }
    }

    impl threshold::Builder<'static> for Read<'_> {
        type Built = usize;

        fn take<M: Threshold<State = S>, S: SaveState>(self, method: M, state: S) -> Result<usize, ConfigError> {
            assert_eq!(method.clip(&state), 1.0);
            Ok(self.2)
        }
    }

    /// Builds what the reader wants; how many values it read.
    type Build = fn(Read<'_>) -> Result<Option<usize>, ConfigError>;

    const SLOTS: [(&[Description], Build); 3] = [
        (OPTIMIZERS, |read| optimizer::build(read)),
        (FILTERS, |read| filter::build::<8, _>(read)),
        (THRESHOLDS, |read| threshold::build(read)),
    ];

    /// The values of a name, with numbers for those that are computed.
    fn given(defaults: &[f64]) -> Vec<f64> {
        defaults.iter().map(|value| if *value == UNSET { 5.0 } else { *value }).collect()
    }

    #[test]
    fn each_name_has_defaults_that_are_read() {
        for (list, build) in SLOTS {
            for description in list {
                let is_named = |name: &str| description.settings.iter().any(|setting| setting.name == name);
                assert!(description.recorded.len() <= 2);
                assert!([0, description.names.len()].contains(&description.methods.len()));
                assert!(
                    description.settings.iter().all(|setting| setting.when.0.is_empty() || is_named(setting.when.0))
                );
                for (name, defaults) in description.names {
                    let read = build(Read(description, &given(defaults), 0)).unwrap().expect("it is in the list");
                    // What is last may be read in a case alone.
                    assert!(read == defaults.len() || description.settings[read].when.1, "{name}");
                }
            }
        }
    }

    #[test]
    fn names_and_kinds_are_unique() {
        for (list, _) in SLOTS {
            let mut names: Vec<_> = list.iter().flat_map(|of| of.names).map(|(name, _)| *name).collect();
            let mut kinds: Vec<_> = list.iter().flat_map(|of| of.recorded).collect();
            let counts = (names.len(), kinds.len());
            names.sort_unstable();
            names.dedup();
            kinds.sort_unstable();
            kinds.dedup();
            assert_eq!((names.len(), kinds.len()), counts);
        }
    }

    #[test]
    fn errors_name_the_setting() {
        for (list, build) in SLOTS {
            // A fixed clip is checked when the step is made.
            for description in list.iter().filter(|of| of.names[0].0 != "fixed") {
                let (_, defaults) = description.names[0];
                for (i, setting) in description.settings.iter().enumerate() {
                    if !matches!(setting.kind, Kind::F32 | Kind::F64 | Kind::Whole)
                        || setting.name.starts_with("range_")
                    {
                        continue;
                    }
                    let mut values = given(defaults);
                    values[i] = f64::NAN;
                    let cases = description.settings.iter().position(|of| of.name == setting.when.0);
                    cases.into_iter().for_each(|case| values[case] = f64::from(setting.when.1));
                    let built = build(Read(description, &values, 0));
                    assert_eq!(built.unwrap_err().parameter, setting.parameter);
                }
            }
        }
    }
}
