//! The ways of computing a graph's layers, where a backend has several: a choice for each kind of layer.

use std::collections::BTreeMap;

/// A way of computing a layer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Way {
    /// damper's kernel, which takes fewer products where it can.
    Own,
    /// damper's kernel, as the layer is defined.
    Defined,
    /// The runtime's own kernel.
    Runtime,
}

impl Way {
    /// `own`, `defined` or `runtime`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Defined => "defined",
            Self::Runtime => "runtime",
        }
    }
}

impl std::str::FromStr for Way {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = [Self::Own, Self::Defined, Self::Runtime].into_iter().find(|way| way.name() == name);
        found.ok_or_else(|| format!("unknown way '{name}': use own, defined or runtime"))
    }
}

/// A kind of layer that a graph has: its name, and its ways beside [`Way::Own`].
#[cfg(feature = "ort")]
pub(crate) type Layer = (String, &'static [Way]);

/// The ways that were chosen: those of all other layers are [`Way::Own`].
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Ways(BTreeMap<String, Way>);

impl Ways {
    /// The way of the layers that are called so.
    #[must_use]
    pub fn of(&self, layer: &str) -> Way {
        self.0.get(layer).copied().unwrap_or(Way::Own)
    }

    /// These, with another way for the layers that are called so.
    #[must_use]
    pub fn with(&self, layer: &str, way: Way) -> Self {
        let mut ways = self.0.clone();
        ways.insert(layer.into(), way);
        Self(ways)
    }

    /// Each layer that is not computed by [`Way::Own`], in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Way)> {
        self.0.iter().map(|(layer, way)| (layer.as_str(), *way)).filter(|(_, way)| *way != Way::Own)
    }
}
