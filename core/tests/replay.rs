use damper_core::replay::{BASE, BASE_SAID, Memory, play};
#[test]
fn try_it() {
    let (mut floats, mut narrow, mut wide) = (vec![0.0; 1024], vec![0; 256], vec![0; 256]);
    let memory = Memory { floats: &mut floats, narrow: &mut narrow, wide: &mut wide };
    let mut said = String::new();
    let r = play(&mut &BASE[..], memory, |line| said += &format!("{line}\n"));
    eprintln!("{r:?}");
    for (a, b) in said.lines().zip(BASE_SAID.lines()) { if a != b { eprintln!("{a}\n   {b}"); } }
    assert_eq!(said, BASE_SAID);
}
