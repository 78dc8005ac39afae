//! Typed getters for a node's attributes. They return `None` or a default if the attribute is absent.

use super::pb::{AttributeProto, TensorProto};

/// Attribute with the name `name`.
pub fn find_attr<'a>(attributes: &'a [AttributeProto], name: &str) -> Option<&'a AttributeProto> {
    attributes.iter().find(|attribute| attribute.name == name)
}

/// Integer attribute, or `default`.
pub fn attr_int(attributes: &[AttributeProto], name: &str, default: i64) -> i64 {
    find_attr(attributes, name).map_or(default, |attribute| attribute.i)
}

/// Integer list attribute.
pub fn attr_ints<'a>(attributes: &'a [AttributeProto], name: &str) -> Option<&'a [i64]> {
    find_attr(attributes, name).map(|attribute| attribute.ints.as_slice())
}

/// Float attribute, or `default`.
pub fn attr_float(attributes: &[AttributeProto], name: &str, default: f32) -> f32 {
    find_attr(attributes, name).map_or(default, |attribute| attribute.f)
}

/// String attribute, or `default` if it is absent or not UTF-8.
pub fn attr_string<'a>(attributes: &'a [AttributeProto], name: &str, default: &'a str) -> &'a str {
    find_attr(attributes, name).and_then(|attribute| std::str::from_utf8(&attribute.s).ok()).unwrap_or(default)
}

/// String list attribute. Empty if absent. Entries that are not UTF-8 become empty strings.
pub fn attr_strings(attributes: &[AttributeProto], name: &str) -> Vec<String> {
    let text = |bytes: &Vec<u8>| String::from_utf8(bytes.clone()).unwrap_or_default();
    find_attr(attributes, name).map(|attribute| attribute.strings.iter().map(text).collect()).unwrap_or_default()
}

/// Tensor attribute.
pub fn attr_tensor<'a>(attributes: &'a [AttributeProto], name: &str) -> Option<&'a TensorProto> {
    find_attr(attributes, name).and_then(|attribute| attribute.t.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{make_attr_float, make_attr_int, make_attr_ints, make_attr_string};

    #[test]
    fn an_absent_attribute_reads_as_its_default() {
        assert_eq!(attr_int(&[], "axis", -1), -1);
        assert_eq!(attr_float(&[], "alpha", 0.5), 0.5);
        assert_eq!(attr_string(&[], "auto_pad", "NOTSET"), "NOTSET");
        assert_eq!(attr_ints(&[], "pads"), None);
        assert!(attr_tensor(&[], "value").is_none());
    }

    #[test]
    fn a_made_attribute_reads_back() {
        let attributes = [
            make_attr_int("axis", 3),
            make_attr_ints("pads", &[1, 2]),
            make_attr_float("alpha", 0.25),
            make_attr_string("auto_pad", "VALID"),
        ];
        assert_eq!(attr_int(&attributes, "axis", 0), 3);
        assert_eq!(attr_ints(&attributes, "pads"), Some(&[1, 2][..]));
        assert_eq!(attr_float(&attributes, "alpha", 0.0), 0.25);
        assert_eq!(attr_string(&attributes, "auto_pad", "NOTSET"), "VALID");
    }
}
