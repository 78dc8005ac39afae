//! Reading and writing the attributes of ONNX nodes.

use crate::onnx::pb::AttributeProto;
use crate::onnx::pb::attribute_proto::AttributeType;

/// The integer `name`, or `default` where it is absent.
pub fn int(attributes: &[AttributeProto], name: &str, default: i64) -> i64 {
    find(attributes, name).map_or(default, |a| a.i)
}

/// The float `name`, or `default` where it is absent.
pub fn float(attributes: &[AttributeProto], name: &str, default: f32) -> f32 {
    find(attributes, name).map_or(default, |a| a.f)
}

/// The integers `name`, if present.
pub fn ints<'a>(attributes: &'a [AttributeProto], name: &str) -> Option<&'a [i64]> {
    find(attributes, name).map(|a| a.ints.as_slice())
}

/// The string `name`, or the empty string where it is absent.
pub fn string<'a>(attributes: &'a [AttributeProto], name: &str) -> &'a str {
    find(attributes, name).map_or("", |a| std::str::from_utf8(&a.s).unwrap_or(""))
}

fn find<'a>(attributes: &'a [AttributeProto], name: &str) -> Option<&'a AttributeProto> {
    attributes.iter().find(|a| a.name == name)
}

/// An integer attribute.
pub fn set_int(name: &str, i: i64) -> AttributeProto {
    AttributeProto { name: name.into(), i, r#type: AttributeType::Int as i32, ..Default::default() }
}

/// A float attribute.
pub fn set_float(name: &str, f: f32) -> AttributeProto {
    AttributeProto { name: name.into(), f, r#type: AttributeType::Float as i32, ..Default::default() }
}

/// A list of integers.
pub fn set_ints(name: &str, ints: &[i64]) -> AttributeProto {
    AttributeProto { name: name.into(), ints: ints.to_vec(), r#type: AttributeType::Ints as i32, ..Default::default() }
}

/// A string attribute.
pub fn set_string(name: &str, s: &str) -> AttributeProto {
    AttributeProto { name: name.into(), s: s.into(), r#type: AttributeType::String as i32, ..Default::default() }
}
