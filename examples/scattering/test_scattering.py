"""The exported encoder against kymatio, and the joined model against its parts: pytest test_scattering.py, some seconds."""

import pytest

np = pytest.importorskip("numpy")
onnxruntime = pytest.importorskip("onnxruntime")
torch = pytest.importorskip("torch")
frontend = pytest.importorskip("kymatio.scattering2d.frontend.torch_frontend")
import scattering  # noqa: E402


def run(path, x):
    name = {"encoder": "x", "head": "features", "joined": "x"}[path.stem]
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {name: x})[0]


@pytest.mark.parametrize(("shape", "groups", "kind"), [((1, 28, 28), 27, "linear"), ((3, 32, 32), 9, "cnn")])
def test_encoder_is_kymatio(tmp_path, shape, groups, kind):
    x = np.random.default_rng(0).random((5, *shape), dtype=np.float32)
    encoder, head, joined = (tmp_path / f"{name}.onnx" for name in ("encoder", "head", "joined"))
    scattering.write_encoder(shape, groups, 0.25, 0.5, encoder)
    expected = frontend.ScatteringTorch2D(J=2, L=8, shape=shape[1:])(torch.tensor((x - 0.25) / 0.5)).flatten(1, 2)
    expected = torch.nn.functional.group_norm(expected, groups).numpy()
    features = run(encoder, x)
    np.testing.assert_allclose(features, expected, atol=2e-4)

    scattering.write_head(kind, expected.shape[1:], 7, 3, head)
    scattering.join(encoder, head, joined)
    np.testing.assert_allclose(run(joined, x), run(head, features), atol=1e-5)
