"""The exported encoder against kymatio, and the joined model against its parts: pytest test_scattering.py, some seconds."""

from pathlib import Path

import pytest

np = pytest.importorskip("numpy")
onnxruntime = pytest.importorskip("onnxruntime")
torch = pytest.importorskip("torch")
frontend = pytest.importorskip("kymatio.scattering2d.frontend.torch_frontend")
import scattering  # noqa: E402


def run(path, x):
    name = {"encoder": "x", "head": "features", "joined": "x"}[path.stem]
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {name: x})[0]


@pytest.mark.parametrize(("shape", "groups", "kind"), [((1, 28, 28), 27, "linear"), ((3, 32, 32), 9, "cnn"), ((3, 32, 32), 9, "pointwise")])
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


def test_mirror_averages_over_an_image_and_its_mirror_image(tmp_path):
    x = np.random.default_rng(0).random((4, 3, 32, 32), dtype=np.float32)
    public = (255 * np.random.default_rng(1).random((8, 3, 32, 32))).astype(np.uint8)
    encoder = scattering.Encoder((3, 32, 32), None, 0.5, 0.25, opponent=True, public=public).eval()
    with torch.no_grad():
        plain, flipped, known = (encoder(torch.tensor(part.copy())).numpy() for part in (x, x[..., ::-1], public / np.float32(255)))
    np.testing.assert_allclose(known.mean((0, 2, 3)), 0, atol=1e-3)
    np.testing.assert_allclose(known.std((0, 2, 3)), 1, atol=1e-2)

    # Means over all positions hardly depend on the positions of the outputs. Channels are permuted as the angles are.
    mean = [part.mean((2, 3)) for part in (flipped, plain[:, scattering.mirrored(3)], plain)]
    assert np.linalg.norm(mean[0] - mean[1]) < 0.5 * np.linalg.norm(mean[0] - mean[2])

    path = tmp_path / "encoder.onnx"
    scattering.write_encoder((3, 32, 32), None, 0.5, 0.25, path, opponent=True, mirror=True, public=public)
    expected = (plain + plain[:, scattering.mirrored(3)][..., ::-1])[..., :4] / 2
    np.testing.assert_allclose(run(path, x), expected, atol=2e-3)


@pytest.mark.parametrize("groups", [None, 9])
def test_whiten_is_a_product_of_the_channels(tmp_path, groups):
    x = np.random.default_rng(0).random((4, 3, 32, 32), dtype=np.float32)
    public = (255 * np.random.default_rng(1).random((64, 3, 32, 32))).astype(np.uint8)
    path = tmp_path / "encoder.onnx"
    scattering.write_encoder((3, 32, 32), groups, 0.5, 0.25, path, public=public, whiten=True)
    plain = scattering.Encoder((3, 32, 32), groups, 0.5, 0.25, public=public).eval()
    with torch.no_grad():
        features, known = (plain(torch.tensor(part)).double() for part in (x, public / np.float32(255)))
    covariance = torch.cov(known.transpose(0, 1).flatten(1), correction=0)
    values, vectors = np.linalg.eigh((covariance + covariance.trace() / len(covariance) / 10 * torch.eye(len(covariance))).numpy())
    white = torch.tensor(vectors * values**-0.25 @ vectors.T)
    expected = torch.einsum("dc,nchw->ndhw", white, features).numpy()
    np.testing.assert_allclose(run(path, x), expected, atol=2e-3)


def test_digits_fill_the_middle():
    x = scattering.digits(Path(__file__).parents[2] / "onnx-models/digits/train", 28, 28)
    assert x.shape == (1437, 1, 28, 28) and x.dtype == np.uint8
    assert x[:, :, 4:-4, 4:-4].sum() == x.sum(dtype=np.int64) > 0
