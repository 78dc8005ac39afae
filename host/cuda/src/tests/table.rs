//! The table of the Gaussian equals that of `damper-core`.

/// Hexadecimal numbers of each array, in order.
fn numbers(text: &str, starts: &str) -> Vec<Vec<u32>> {
    let arrays = text.split(starts).skip(1).map(|array| {
        let (_, array) = array.split_once('=').unwrap();
        let (array, _) = array.split_once(';').unwrap();
        let words = array.split(|c: char| !c.is_ascii_alphanumeric()).filter_map(|word| word.strip_prefix("0x"));
        words.map(|digits| u32::from_str_radix(digits, 16).unwrap()).collect()
    });
    arrays.collect()
}

#[test]
fn kernels_have_the_table_of_core() {
    let kernels = numbers(include_str!("../../kernels/gaussian_table.h"), "TABLE u32");
    let core = numbers(include_str!("../../../../core/src/noise/discrete_gaussian/table.rs"), "const ");
    assert_eq!(core.iter().map(Vec::len).collect::<Vec<_>>(), [64, 9, 9]);
    assert_eq!(kernels, core);
}
