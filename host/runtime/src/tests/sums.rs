//! Sums on the device.

use super::*;

/// `y = x + w` and its sum over the samples, `[3]`.
fn sums() -> (pb::ModelProto, SessionSpec) {
    let inputs = vec![spec("x", &[Dim::Batch, Dim::Fixed(3)]), spec("w", &[Dim::Fixed(3)])];
    let outputs = vec![spec("y", &[Dim::Batch, Dim::Fixed(3)]), spec("sum", &[Dim::Fixed(3)])];
    let mut sum = node("ReduceMean", &["y"], "sum", &[("axes", &[0])]);
    sum.attribute.push(pb::AttributeProto {
        name: "keepdims".into(),
        r#type: pb::attribute_proto::AttributeType::Int as i32,
        ..Default::default()
    });
    (model(&inputs, &outputs, vec![node("Add", &["x", "w"], "y", &[]), sum]), plan(N, inputs, outputs))
}

// Device sums over the chunks of a step equal the sums of the chunks in order, bit for bit. Steps do not affect each
// other.
#[test]
fn device_sums_are_chunk_sums_in_order() {
    let (graph, plan) = sums();
    for backend in backends() {
        let Some(mut session) = backend.load_summing(&graph, &plan, 1).unwrap() else {
            assert!(backend.operators() == Operators::Own || backend.name() != "ort", "{}", backend.name());
            continue;
        };
        let mut single = backend.load(&graph, &plan).unwrap();
        for (step, chunks) in [1, 2, 3, 4, 1, 5].into_iter().enumerate() {
            let w = values(step as u64, 3).iter().map(|x| x / 3.0).collect::<Vec<_>>();
            let kept = KeptInputs::new(vec![TensorRef::F32(&w)]);
            let (mut want, mut got) = (vec![0.0f32; 3], None);
            for chunk in 0..chunks {
                let x: Vec<_> = values((100 * step + chunk) as u64, N * 3).iter().map(|x| x / 7.0).collect();
                let own = run(single.as_mut(), &[TensorRef::F32(&x), TensorRef::F32(&w)]);
                want.iter_mut().zip(&own[1]).for_each(|(sum, x)| *sum += x);
                let place = ChunkPlace { is_first: chunk == 0, is_last: chunk + 1 == chunks };
                let inputs = Inputs { before: &[TensorRef::F32(&x)], kept: &kept, after: &[] };
                let read = &mut |made: &[&[f32]]| {
                    assert_eq!((made[0], made.len()), (&own[0][..], if place.is_last { 2 } else { 1 }));
                    got = made.get(1).map(|sum| sum.to_vec());
                };
                session.add(inputs, place, read).unwrap();
            }
            assert_eq!(got, Some(want));
        }
        // Without a first chunk, another chunk would add to sums that are gone.
        let (x, w) = (values(1, N * 3), values(2, 3));
        let kept = KeptInputs::new(vec![TensorRef::F32(&w)]);
        let inputs = Inputs { before: &[TensorRef::F32(&x)], kept: &kept, after: &[] };
        let place = ChunkPlace { is_first: false, is_last: true };
        let error = session.add(inputs, place, &mut |_| panic!("read what was not computed")).unwrap_err();
        assert!(error.to_string().contains("begin with the first"), "{error}");
    }
}

// Outputs keep their addresses from run to run. They have the bits of a session that returns its outputs.
#[test]
fn resident_outputs_are_those_of_a_run() {
    let (graph, plan) = sums();
    for backend in backends() {
        let Some(mut session) = backend.load_resident(&graph, &plan).unwrap() else {
            assert!(backend.operators() == Operators::Own || backend.name() != "ort", "{}", backend.name());
            continue;
        };
        let mut single = backend.load(&graph, &plan).unwrap();
        let places = session.outputs().to_vec();
        for step in 0..4 {
            let (x, w) = (values(step, N * 3), values(step + 9, 3));
            let own = run(single.as_mut(), &[TensorRef::F32(&x), TensorRef::F32(&w)]);
            let kept = KeptInputs::new(vec![TensorRef::F32(&w)]);
            session.run(Inputs { before: &[TensorRef::F32(&x)], kept: &kept, after: &[] }).unwrap();
            assert_eq!(session.outputs(), places);
            for (place, own) in places.iter().zip(&own) {
                // SAFETY: the device of the backend is the processor, and the session is alive and idle.
                let made = unsafe {
                    std::slice::from_raw_parts(std::ptr::with_exposed_provenance::<f32>(place.address), place.len)
                };
                assert_eq!(made, own);
            }
        }
        let kept = KeptInputs::new(vec![]);
        assert!(session.run(Inputs { before: &[], kept: &kept, after: &[] }).is_err());
    }
}
