"""Writes exports/bert.fused.onnx: foreign/bert.opset14.torchscript.onnx after onnxruntime's optimizer for transformers, which fuses nodes
into operators of com.microsoft. Needs onnx and onnxruntime."""

from pathlib import Path

from onnxruntime.transformers import optimizer

EXPORTS = Path(__file__).parent / "exports"

fused = optimizer.optimize_model(
    str(EXPORTS / "foreign" / "bert.opset14.torchscript.onnx"), model_type="bert", num_heads=2, hidden_size=16, opt_level=0
)
fused.save_model_to_file(str(EXPORTS / "bert.fused.onnx"))
