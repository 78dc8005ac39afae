//! Descriptions of methods: names, settings, and how recordings write them.
//!
//! A method describes itself once, in its own file. The command, reports, recordings and their player read the description, so that
//! none of them names a method. A device that chooses its methods at compile time links nothing of it.

/// The type of a setting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// An f32.
    F32,
    /// An f64.
    F64,
    /// On (1) or off (0).
    Switch,
    /// One of two (0 or 1), in the words of reports.
    Words([&'static str; 2]),
}

/// A flag of the command, which settings of several methods may share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flag {
    /// Its name, with `_`.
    pub name: &'static str,
    /// Placeholder of the value in the help; empty for a switch. With a comma, the flag sets both settings of the method that have it.
    pub value: &'static str,
    /// Its help: which methods read it, what it is, and their defaults.
    pub help: &'static str,
}

/// A setting of a method.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setting {
    /// Its key in reports.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// The flag that sets it.
    pub flag: Option<Flag>,
    /// Its [`parameter`](crate::error::ConfigError::parameter) in errors.
    pub parameter: &'static str,
    /// The [`Kind::Words`] setting of which 1 has this one computed: it is 0 if this one is given.
    pub unless: &'static str,
}

impl Setting {
    pub(crate) const fn new(name: &'static str, kind: Kind, flag: Flag, parameter: &'static str) -> Self {
        Self { name, kind, flag: Some(flag), parameter, unless: "" }
    }

    /// A setting that a method of the command sets, and no flag.
    pub(crate) const fn words(name: &'static str, words: [&'static str; 2]) -> Self {
        Self { name, kind: Kind::Words(words), flag: None, parameter: name, unless: "" }
    }
}

/// A method.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Description {
    /// Its settings, in the order in which it reads them and recordings have them.
    pub settings: &'static [Setting],
    /// Its names, the usual one first, each with its default settings.
    pub names: &'static [(&'static str, &'static [f64])],
    /// Its kinds in recordings: with its switch or words at 0, and at 1 if it has any. Empty if recordings cannot have it.
    pub recorded: &'static [u8],
}

/// Gives the settings of a method, in order.
pub trait Values {
    /// The next, an f32.
    fn f32(&mut self) -> f32;

    /// The next, an f64.
    fn f64(&mut self) -> f64;

    /// The next, a switch or words: true if 1. A recording has it in the kind, so a method has at most one.
    fn switch(&mut self) -> bool;
}
